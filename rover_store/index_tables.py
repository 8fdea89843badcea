"""The index's tables as SQL text, so that reading starts without SQLModel. `schema` defines them; a test compares."""

#: raised when a table changes: an index of another version is rebuilt
VERSION = "1"

TABLES = """
CREATE TABLE meta ("key" VARCHAR NOT NULL, value VARCHAR NOT NULL, PRIMARY KEY ("key"));
CREATE TABLE history (
  seq INTEGER NOT NULL, id VARCHAR NOT NULL, tree VARCHAR NOT NULL, author VARCHAR NOT NULL, time INTEGER NOT NULL,
  message VARCHAR NOT NULL, shown BOOLEAN NOT NULL, PRIMARY KEY (seq));
CREATE TABLE parent (
  child INTEGER NOT NULL, position INTEGER NOT NULL, parent INTEGER NOT NULL, PRIMARY KEY (child, position));
CREATE TABLE change (
  seq INTEGER NOT NULL, node VARCHAR NOT NULL, package VARCHAR NOT NULL, old VARCHAR, new VARCHAR,
  PRIMARY KEY (seq, node));
CREATE TABLE package (
  name VARCHAR NOT NULL, tree VARCHAR NOT NULL, title VARCHAR NOT NULL, family VARCHAR NOT NULL,
  workspace VARCHAR NOT NULL, PRIMARY KEY (name));
CREATE TABLE node (name VARCHAR NOT NULL, package VARCHAR NOT NULL, version VARCHAR NOT NULL, PRIMARY KEY (name));
CREATE TABLE edge (
  source VARCHAR NOT NULL, target VARCHAR NOT NULL, version VARCHAR NOT NULL, package VARCHAR NOT NULL,
  PRIMARY KEY (source, target));
CREATE TABLE rollout (
  id VARCHAR NOT NULL, package VARCHAR NOT NULL, context VARCHAR NOT NULL, task VARCHAR NOT NULL,
  harness VARCHAR NOT NULL, policy VARCHAR NOT NULL, seed INTEGER NOT NULL, "end" VARCHAR NOT NULL, PRIMARY KEY (id));
CREATE TABLE verdict (
  rollout VARCHAR NOT NULL, verifier VARCHAR NOT NULL, outcome VARCHAR NOT NULL, score FLOAT,
  PRIMARY KEY (rollout, verifier));
CREATE UNIQUE INDEX ix_history_id ON history (id);
CREATE INDEX ix_change_package ON change (package);
CREATE INDEX ix_change_node ON change (node);
CREATE INDEX ix_node_package ON node (package);
CREATE INDEX ix_edge_target ON edge (target);
CREATE INDEX ix_edge_package ON edge (package);
CREATE INDEX ix_rollout_package ON rollout (package);
CREATE INDEX ix_rollout_context ON rollout (context);
CREATE INDEX ix_verdict_verifier ON verdict (verifier);
"""
