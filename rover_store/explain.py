"""The part of the dependency graph around some nodes: what it holds, in which order it is rebuilt, and why.

The part is read in SQL (`graph_at`); order, cycles and paths are NetworkX's, which is imported when one is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from rover_store.errors import NotFound
from rover_store.graph_at import GraphAt, ask
from rover_store.names import COMPONENTS, RESOURCE_KINDS

if TYPE_CHECKING:
    import networkx as nx

    from rover_store.store import Store


class Node(NamedTuple):
    """A component or resource. `version` is None where something names it and it is not there."""

    name: str
    version: str | None

    @property
    def package(self) -> str:
        """Its package; empty for a resource."""
        return "" if self.name.startswith("resources/") else self.name.rpartition("/")[0]

    @property
    def part(self) -> str:
        """context, task, harness or verifier; `resource` for a resource."""
        return "resource" if self.name.startswith("resources/") else self.name.rpartition("/")[2]


class Link(NamedTuple):
    """`source` was built against `recorded` of `target`, which is now at `present` (None: gone)."""

    source: str
    target: str
    recorded: str
    present: str | None

    @property
    def stale(self) -> bool:
        return self.recorded != self.present

    @property
    def dangling(self) -> bool:
        return self.present is None


class Part(NamedTuple):
    """A part of the graph at a revision. `roots` are the nodes it was asked for; all is sorted by name."""

    commit: str | None
    roots: tuple[str, ...]
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]


def part(
    store: Store, names: Iterable[str], rev: str = "HEAD", *, dependencies: bool = True, dependents: bool = True,
    depth: int | None = None,
) -> Part:  # fmt: skip
    """What the named packages, components or resources depend on, and what depends on them. NotFound.

    `depth` bounds the steps in either direction.
    """
    wanted, commit = list(names), _commit(store, rev)

    def question(graph: GraphAt) -> Part:
        roots = sorted({node for name in wanted for node in resolve(graph, name)})
        found: set[str] = set(roots)
        edges = set()
        for downstream in (d for d, asked in ((True, dependents), (False, dependencies)) if asked):
            reached = graph.reach(roots, dependents=downstream, depth=depth)
            found |= reached.keys()
            inside = graph.edges(reached, dependents=downstream)
            edges |= {e for e in inside if e.source in reached and e.target in reached}
        edges |= {e for e in graph.edges(roots, dependents=False) if e.target in roots}
        present = graph.versions(found)
        nodes = tuple(Node(name, present.get(name)) for name in sorted(found))
        links = tuple(Link(*e, present.get(e.target)) for e in sorted(edges))
        return Part(commit, tuple(roots), nodes, links)

    return ask(store, commit or rev, question)


def stale_part(store: Store, rev: str = "HEAD", pattern: str = "*") -> Part:
    """The stale edges of a whole revision, with their ends."""
    commit = _commit(store, rev)

    def question(graph: GraphAt) -> Part:
        links = sorted(
            Link(f"{s.package}/{s.component}", s.target, s.recorded, s.present) for s in graph.stale(pattern)
        )
        names = {end for link in links for end in link[:2]}
        present = graph.versions(names)
        nodes = tuple(Node(name, present.get(name)) for name in sorted(names))
        return Part(commit, (), nodes, tuple(links))

    return ask(store, commit or rev, question)


def resolve(graph: GraphAt, name: str) -> list[str]:
    """Nodes that a word names: a package's components, one component, or a resource. NotFound."""
    kind, _, rest = name.removeprefix("resources/").partition("/")
    if rest in COMPONENTS and not name.startswith("resources/") and kind not in RESOURCE_KINDS:
        found = [name] if graph.versions([name]) else []
    elif rest:
        full = f"resources/{kind}/{rest}"
        # a resource that is gone, or never was, is still named where edges lead to it
        found = [full] if graph.versions([full]) or graph.edges([full], dependents=True) else []
    else:
        found = graph.components(name)
    if not found:
        hint = "`rover list` shows packages, `rover sql 'SELECT name FROM resources'` resources"
        raise NotFound("package, component or resource", name, hint=hint)
    return found


def explain(store: Store, one: str, other: str, rev: str = "HEAD", limit: int = 10) -> list[tuple[Link, ...]]:
    """Why `one` is affected by `other`: the shortest chains of links from the first to the second, at most `limit`.

    Empty where no chain leads there. Every chain goes from what was built to what it was built against.
    """
    def question(graph: GraphAt) -> list[tuple[Link, ...]]:
        sources, targets = resolve(graph, one), resolve(graph, other)
        below = graph.reach(targets, dependents=True)
        above = graph.reach(sources, dependents=False)
        between = below.keys() & above.keys()
        edges = [e for e in graph.edges(between, dependents=False) if e.target in between]
        present = graph.versions(between)
        return _paths([Link(*e, present.get(e.target)) for e in edges], sources, targets, limit)

    return ask(store, rev, question)


def _paths(links: list[Link], sources: list[str], targets: list[str], limit: int) -> list[tuple[Link, ...]]:
    """The shortest paths from any source to any target."""
    import networkx as nx

    by_ends = {link[:2]: link for link in links}
    net: nx.DiGraph[Any] = nx.DiGraph()
    net.add_edges_from(sorted(by_ends))
    start, end = 0, 1  # names are text: these are no node's
    net.add_edges_from((start, s) for s in sources if s not in targets)
    net.add_edges_from((t, end) for t in targets if t not in sources)
    if start not in net or end not in net or not nx.has_path(net, start, end):
        return []
    paths = islice(nx.all_shortest_paths(net, start, end), limit)
    return sorted(tuple(by_ends[pair] for pair in pairwise(path[1:-1])) for path in paths)


def generations(found: Part) -> list[tuple[str, ...]]:
    """Order of rebuild: each generation depends on earlier ones alone. The nodes of a cycle stand together."""
    import networkx as nx

    net = _net(found)
    whole = nx.condensation(net)
    return [
        tuple(sorted(name for group in layer for name in whole.nodes[group]["members"]))
        for layer in nx.topological_generations(whole)
    ]


def cycles(found: Part) -> list[tuple[str, ...]]:
    """One cycle out of every group of nodes that depend on each other, beginning with the first by name."""
    import networkx as nx

    net = _net(found)
    out = []
    for group in nx.strongly_connected_components(net):
        first = min(group)
        if len(group) > 1 or net.has_edge(first, first):
            inside: Any = net.subgraph(group)
            far = nx.single_source_shortest_path_length(inside.reverse(copy=False), first)
            nearest = min(inside[first], key=lambda n, far=far: (far[n], n))  # type: ignore[misc]
            out.append((first, *nx.shortest_path(inside, nearest, first)))
    return sorted(out)


def _net(found: Part) -> nx.DiGraph[str]:
    """Edges from what is built first to what is built on it."""
    import networkx as nx

    net: nx.DiGraph[str] = nx.DiGraph()
    net.add_nodes_from(node.name for node in found.nodes)
    net.add_edges_from((link.target, link.source) for link in found.links)
    return net


def _commit(store: Store, rev: str) -> str | None:
    return None if rev == "HEAD" and store.refs.head_id() is None else store.resolve(rev)


def only_stale(found: Part) -> Part:
    """The stale links of a part and their ends."""
    links = tuple(link for link in found.links if link.stale)
    ends = {end for link in links for end in link[:2]}
    nodes = tuple(node for node in found.nodes if node.name in ends)
    return Part(found.commit, tuple(r for r in found.roots if r in ends), nodes, links)


def part_of(store: Store, paths: Iterable[Iterable[Link]], rev: str = "HEAD") -> Part:
    """Chains of links as a part, each link once."""
    links = tuple(sorted({link for path in paths for link in path}))
    names = sorted({end for link in links for end in link[:2]})
    commit = _commit(store, rev)
    present = ask(store, commit or rev, lambda graph: graph.versions(names))
    return Part(commit, (), tuple(Node(name, present.get(name)) for name in names), links)


def narrow(found: Part, packages: int) -> tuple[Part, int]:
    """The part with the first so many packages, those of the roots before others, and how many were left out."""
    roots = {node.package for node in found.nodes if node.name in set(found.roots)}
    names = {node.package for node in found.nodes if node.package}
    ranked = sorted(names, key=lambda name: (name not in roots, name))
    kept = set(ranked[:packages]) | {""}
    nodes = tuple(node for node in found.nodes if node.package in kept)
    inside = {node.name for node in nodes}
    links = tuple(link for link in found.links if link.source in inside and link.target in inside)
    return found._replace(nodes=nodes, links=links), len(names) - len(ranked[:packages])
