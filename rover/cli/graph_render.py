"""A part of the dependency graph as text, for Graphviz, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rover.cli.output import counted, plain, table, width, wrapped
from rover_store.explain import Link, Node, Part, cycles, generations
from rover_store.names import COMPONENTS


def link_json(link: Link) -> dict[str, Any]:
    return {**link._asdict(), "stale": link.stale}


def to_json(found: Part) -> dict[str, Any]:
    """Nodes, edges, generations of the order of rebuild, cycles, and names that lead nowhere."""
    return {
        "commit": found.commit,
        "roots": list(found.roots),
        "nodes": [{"name": n.name, "package": n.package, "part": n.part, "version": n.version} for n in found.nodes],
        "edges": [link_json(link) for link in found.links],
        "order": [list(names) for names in generations(found)],
        "cycles": [list(names) for names in cycles(found)],
        "dangling": [n.name for n in found.nodes if n.version is None],
    }


# --- Graphviz --------------------------------------------------------------------------------------------
def to_dot(found: Part, more: int = 0) -> str:
    """A digraph: a cluster a package, stale edges red and dashed with both versions; `more` packages are left out."""
    lines = [
        "digraph rover {", '  rankdir=RL; fontname="Helvetica"; fontsize=11;',
        '  node [shape=box, style=rounded, fontname="Helvetica", fontsize=10];',
        '  edge [fontname="Helvetica", fontsize=8];',
    ]  # fmt: skip
    for package in sorted({n.package for n in found.nodes}):
        inside = [n for n in found.nodes if n.package == package]
        if package:
            lines.append(f"  subgraph {_quoted('cluster ' + package)} {{")
            lines.append(f"    label={_quoted(package)}; color=gray;")
        lines += [f"    {_quoted(n.name)} [{_look(n)}];" for n in inside]
        if package:
            lines.append("  }")
    for link in found.links:
        look = ""
        if link.stale:
            label = _quoted(f"{link.recorded[:7]} -> {_short(link.present)}")
            look = f" [color=red, fontcolor=red, style=dashed, label={label}]"
        lines.append(f"  {_quoted(link.source)} -> {_quoted(link.target)}{look};")
    if more:
        left_out = _quoted(f"and {more} more packages")
        lines.append(f'  "more" [shape=plaintext, label={left_out}];')
    return "\n".join([*lines, "}"])


def _look(node: Node) -> str:
    label = node.part if node.package else node.name.removeprefix("resources/")
    text = f'{_quoted(label)[:-1]}\\n{_short(node.version)}"'
    shape = "" if node.package else ", shape=folder, style=solid"
    return f"label={text}{shape}" + (", color=red, fontcolor=red" if node.version is None else "")


def _quoted(text: str) -> str:
    """A string of DOT: nothing in it ends it, and no letter of it is an escape of Graphviz."""
    return '"' + plain(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


# --- text ------------------------------------------------------------------------------------------------
def to_text(found: Part, what: str, limit: int | None, *, stale: bool, up: bool, down: bool) -> str:
    """A tree in either direction, stale edges marked, and the order of rebuild. `limit` bounds what one node shows."""
    summary = "nothing is stale" if stale and not found.links else _summary(found)
    head = f"{what or 'all packages'} at {(found.commit or 'no commit')[:12]}: {summary}"
    blocks = [wrapped(plain(head), "  ")]
    if stale:
        return "\n\n".join([*blocks, *_stale_table(found.links, limit)])
    tree = _Tree(found, limit)
    if up:
        blocks.append("\n".join(["built against", *(tree.lines(dependents=False) or ["  nothing"])]))
    if down:
        blocks.append("\n".join(["what was built against it", *(tree.lines(dependents=True) or ["  nothing"])]))
    blocks.append("\n".join(["order of rebuild", *_order(found)]))
    blocks += [wrapped(plain("cycle: " + " -> ".join(names)), "  ") for names in cycles(found)]
    gone = [n.name for n in found.nodes if n.version is None]
    if gone:
        blocks.append(wrapped(plain(f"not there: {_some(gone, 5)}"), "  "))
    return "\n\n".join(blocks)


def paths_text(one: str, other: str, paths: Sequence[Sequence[Link]]) -> str:
    """Chains from the one to the other, a link a line."""
    blocks = [plain(f"{one} depends on {other}, {counted(len(paths), 'shortest path')}")]
    for path in paths:
        lines = [_cut(f"  {path[0].source}")]
        lines += [
            _cut(f"  {'  ' * i}was built against {link.target} {link.recorded[:7]}{_mark(link)}")
            for i, link in enumerate(path, 1)
        ]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _summary(found: Part) -> str:
    packages = len({n.package for n in found.nodes} - {""})
    parts = Counter(n.part for n in found.nodes)
    stale = sum(link.stale for link in found.links)
    components = counted(sum(parts.values()) - parts["resource"], "component")
    words = [f"{components} in {counted(packages, 'package')}"]
    words += [counted(parts['resource'], 'resource'), f"{counted(stale, 'edge') if stale else 'nothing'} stale"]
    return ", ".join(words)


class _Tree:
    """The part as an indented tree. A node's branches are drawn once, and referred to after that.

    Within a package a sound edge that two others imply is left out; the limit bounds branches to other packages.
    """

    def __init__(self, found: Part, limit: int | None) -> None:
        self._found = found
        self._limit = limit
        self._nodes = {n.name: n for n in found.nodes}
        self._links: dict[bool, dict[str, list[Link]]] = {True: {}, False: {}}
        pairs = {link[:2] for link in found.links}
        for link in found.links:
            if self._implied(link, pairs):
                continue
            self._links[True].setdefault(link.target, []).append(link)
            self._links[False].setdefault(link.source, []).append(link)

    def lines(self, *, dependents: bool) -> list[str]:
        roots = set(self._found.roots)
        near, back = self._links[not dependents], not dependents
        # a root that another root leads to is drawn below it; in a cycle of roots all are drawn
        first = [
            r for r in self._found.roots if all(self._far(link, back) not in roots for link in near.get(r, ()))
        ]
        drawn: set[str] = set()
        out: list[str] = []
        for root in first or self._found.roots:
            out.append(_cut(f"  {root} {_short(self._nodes[root].version)}"))
            if root not in drawn:
                self._below(root, dependents, 2, drawn, out)
        return out if any(self._links[dependents].get(r) for r in roots) else []

    def _below(self, name: str, dependents: bool, level: int, drawn: set[str], out: list[str]) -> None:
        drawn.add(name)
        links = self._links[dependents].get(name, [])
        own = [link for link in links if self._at_home(link)]
        away = [link for link in links if not self._at_home(link)]
        for link in own + away[: self._limit]:
            far = self._far(link, dependents)
            node = self._nodes[far]
            label = node.part if node.package and node.package == self._nodes[name].package else far
            again = far in drawn and bool(self._links[dependents].get(far))
            text = f"{'  ' * level}{label} {_short(node.version)}{_mark(link)}{' (see above)' if again else ''}"
            out.append(_cut(text))
            if far not in drawn and level < 30:
                self._below(far, dependents, level + 1, drawn, out)
        rest = away[len(away) if self._limit is None else self._limit :]
        if rest:
            packages = len({self._nodes[self._far(link, dependents)].package for link in rest} - {""})
            where = f" in {counted(packages, 'package')}" if packages else ""
            stale = sum(link.stale for link in rest)
            extra = f", {stale} of them stale" if stale else ""
            out.append(_cut(f"{'  ' * level}... and {len(rest)} more{where}{extra}; --limit 0 shows all"))

    def _at_home(self, link: Link) -> bool:
        return self._nodes[link.source].package == self._nodes[link.target].package

    def _implied(self, link: Link, pairs: set[tuple[str, str]]) -> bool:
        package = self._nodes[link.source].package
        if link.stale or not package or not self._at_home(link):
            return False
        between = (f"{package}/{c}" for c in COMPONENTS)
        return any((link.source, b) in pairs and (b, link.target) in pairs for b in between if b not in link[:2])

    @staticmethod
    def _far(link: Link, dependents: bool) -> str:
        return link.source if dependents else link.target


def _order(found: Part) -> list[str]:
    """A line a generation: names where they are few, else counts by kind."""
    nodes = {n.name: n for n in found.nodes}
    out = []
    for i, names in enumerate(generations(found), 1):
        text = ", ".join(names) if len(names) <= 4 else _by_kind([nodes[n] for n in names])
        out.append(wrapped(plain(f"  {i}. {text}"), "     "))
    return out


_PLURAL: dict[str, str] = {"harness": "harnesses"}


def _by_kind(nodes: Iterable[Node]) -> str:
    counts = Counter(n.part for n in nodes)
    return ", ".join(f"{k} {p if k == 1 else _PLURAL.get(p, p + 's')}" for p, k in sorted(counts.items()))


def _stale_table(links: Sequence[Link], limit: int | None) -> list[str]:
    if not links:
        return []
    rows = [(link.source, link.target, link.recorded[:7], _short(link.present)) for link in links[:limit]]
    more = len(links) - len(rows)
    tail = f"\n... and {more} more; --limit 0 shows all" if more else ""
    return [table(rows, ("component", "built against", "then", "now")) + tail]


def _mark(link: Link) -> str:
    return f"  stale: {link.recorded[:7]}, now {_short(link.present)}" if link.stale else ""


def _short(version: str | None) -> str:
    return version[:7] if version else "gone"


def _some(names: Sequence[str], limit: int) -> str:
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")


def _cut(line: str, room: Callable[[], int] = width) -> str:
    line = plain(line)
    return line if len(line) <= room() else line[: room() - 1] + "…"
