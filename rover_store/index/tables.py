"""The index's tables as SQL text, so that reading starts without SQLModel. `schema` defines them; a test compares."""

#: raised when a table changes: an index of another version is rebuilt
VERSION = "5"

TABLES = """
CREATE TABLE meta ( "key" VARCHAR NOT NULL, value VARCHAR NOT NULL, PRIMARY KEY ("key") );
CREATE TABLE history ( seq INTEGER NOT NULL, id VARCHAR NOT NULL, tree VARCHAR NOT NULL, author VARCHAR NOT NULL,
  time BIGINT NOT NULL, date VARCHAR NOT NULL, subject VARCHAR NOT NULL, body VARCHAR, shown BOOLEAN NOT NULL,
  PRIMARY KEY (seq) );
CREATE TABLE parent ( child INTEGER NOT NULL, position INTEGER NOT NULL, parent INTEGER NOT NULL, PRIMARY KEY
  (child, position) ) WITHOUT ROWID;
CREATE TABLE trailer ( seq INTEGER NOT NULL, position INTEGER NOT NULL, "key" VARCHAR NOT NULL, value VARCHAR NOT
  NULL, PRIMARY KEY (seq, position) ) WITHOUT ROWID;
CREATE TABLE change ( seq INTEGER NOT NULL, node VARCHAR NOT NULL, package VARCHAR NOT NULL, old VARCHAR, new
  VARCHAR, PRIMARY KEY (seq, node) ) WITHOUT ROWID;
CREATE TABLE package ( name VARCHAR NOT NULL, tree VARCHAR NOT NULL, title VARCHAR NOT NULL, family VARCHAR NOT
  NULL, workspace VARCHAR NOT NULL, license VARCHAR NOT NULL, builder VARCHAR NOT NULL, seed BIGINT, admitted
  BOOLEAN NOT NULL, context VARCHAR, task VARCHAR, harness VARCHAR, verifier VARCHAR, PRIMARY KEY (name) ) WITHOUT
  ROWID;
CREATE TABLE resource ( name VARCHAR NOT NULL, kind VARCHAR NOT NULL, tree VARCHAR NOT NULL, title VARCHAR NOT
  NULL, license VARCHAR NOT NULL, PRIMARY KEY (name) ) WITHOUT ROWID;
CREATE TABLE node ( name VARCHAR NOT NULL, package VARCHAR NOT NULL, version VARCHAR NOT NULL, PRIMARY KEY (name) )
  WITHOUT ROWID;
CREATE TABLE edge ( source VARCHAR NOT NULL, target VARCHAR NOT NULL, version VARCHAR NOT NULL, package VARCHAR NOT
  NULL, PRIMARY KEY (source, target) ) WITHOUT ROWID;
CREATE TABLE rollout ( id VARCHAR NOT NULL, package VARCHAR NOT NULL, context VARCHAR NOT NULL, task VARCHAR NOT
  NULL, harness VARCHAR NOT NULL, policy VARCHAR NOT NULL, seed BIGINT, runtime VARCHAR NOT NULL, ended VARCHAR NOT
  NULL, error VARCHAR NOT NULL, turns INTEGER NOT NULL, prompt_tokens BIGINT NOT NULL, completion_tokens BIGINT NOT
  NULL, pruned BOOLEAN NOT NULL, PRIMARY KEY (id) ) WITHOUT ROWID;
CREATE TABLE verdict ( rollout VARCHAR NOT NULL, verifier VARCHAR NOT NULL, outcome VARCHAR NOT NULL, score FLOAT,
  gate INTEGER, reason VARCHAR NOT NULL, PRIMARY KEY (rollout, verifier) ) WITHOUT ROWID;
CREATE TABLE score ( rollout VARCHAR NOT NULL, verifier VARCHAR NOT NULL, position INTEGER NOT NULL, criterion
  VARCHAR NOT NULL, requirement VARCHAR NOT NULL, score FLOAT, weight FLOAT, critical BOOLEAN NOT NULL, status
  VARCHAR NOT NULL, reason VARCHAR NOT NULL, PRIMARY KEY (rollout, verifier, position) ) WITHOUT ROWID;
CREATE TABLE ref ( kind VARCHAR NOT NULL, name VARCHAR NOT NULL, target VARCHAR NOT NULL, current BOOLEAN NOT NULL,
  PRIMARY KEY (kind, name) ) WITHOUT ROWID;
CREATE TABLE operation ( number INTEGER NOT NULL, id VARCHAR NOT NULL, command VARCHAR NOT NULL, time BIGINT NOT
  NULL, date VARCHAR NOT NULL, PRIMARY KEY (number) );
CREATE TABLE move ( operation INTEGER NOT NULL, ref VARCHAR NOT NULL, old VARCHAR, new VARCHAR, PRIMARY KEY
  (operation, ref) ) WITHOUT ROWID;
CREATE UNIQUE INDEX ix_history_id ON history (id);
CREATE INDEX ix_trailer_key ON trailer ("key");
CREATE INDEX ix_change_node ON change (node);
CREATE INDEX ix_node_package ON node (package);
CREATE INDEX ix_edge_package ON edge (package);
CREATE INDEX ix_edge_target ON edge (target);
CREATE INDEX ix_rollout_context ON rollout (context);
CREATE INDEX ix_rollout_package ON rollout (package);
CREATE INDEX ix_verdict_verifier ON verdict (verifier);
CREATE UNIQUE INDEX ix_operation_id ON operation (id);
"""
