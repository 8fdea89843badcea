"""What differs in one file, as lines for a terminal: fields, cells, hunks, images, members, notes."""

from __future__ import annotations

from collections.abc import Iterator

from rover.cli.columns import cut, display_width, shown, wrap
from rover.cli.diff_fields import field_lines
from rover.cli.diff_look import MARK, STYLE, Look
from rover.cli.diff_tables import table_lines
from rover.cli.output import counted
from rover_store.diffs.content import Content, Counts, Hunk, Image, TextPart


def summary(found: Content) -> str:
    """A file's difference in a few words: `2 cells, +1 -3 rows`."""
    c = found.counts
    out = []
    if found.old_size is None or found.new_size is None:
        size = found.new_size if found.old_size is None else found.old_size
        rows = c.rows_added + c.rows_removed
        lines = c.lines_added + c.lines_removed
        if found.tables:
            out.append(f"{rows:,} row{'s' * (rows != 1)}, {counted(len(found.tables[0].header), 'column')}")
        elif lines:
            out.append(f"{lines:,} line{'s' * (lines != 1)}")
        return ", ".join([*out, size_of(size)] if size is not None else out)
    parts = counted_parts(c)
    out = [parts] if parts else []
    if found.kind in ("bytes", "image", "archive") and found.old_size != found.new_size:
        before, after = size_of(found.old_size), size_of(found.new_size)
        same_unit = before.split()[1:] == after.split()[1:]
        out.append(f"{before.split()[0] if same_unit else before} -> {after}")
    elif found.kind in ("bytes", "image", "archive") and not out:
        out.append(size_of(found.new_size))
    keys = {t.key for t in found.tables if t.key}
    by = f" (by {', '.join(next(iter(keys)))})" if len(keys) == 1 and len(found.tables) == 1 else ""
    return ", ".join(out) + shown(by)


def counted_parts(c: Counts) -> str:
    """`3 fields, 2 cells, +1 -3 rows`."""
    one = [(c.fields, "field"), (c.columns, "column"), (c.cells, "cell")]
    out = [counted(n, noun) for n, noun in one if n]
    for came, gone, noun in ((c.rows_added, c.rows_removed, "row"), (c.lines_added, c.lines_removed, "line")):
        signs = [f"+{came}"] * bool(came) + [f"-{gone}"] * bool(gone)
        if signs:
            out.append(f"{' '.join(signs)} {noun}{'s' * (came + gone != 1)}")
    if c.members:
        out.append(counted(c.members, "member"))
    return ", ".join(out)


def size_of(size: int | None) -> str:
    if size is None:
        return "nothing"
    if size < 10_000:
        return counted(size, "byte")
    return f"{size / 1000:,.0f} kB" if size < 10_000_000 else f"{size / 1e6:,.0f} MB"


def lines(found: Content, look: Look, indent: str) -> Iterator[str]:
    """All lines of a file's difference; what is beyond the limit is counted in the last one."""
    left = look.limit or 10**9
    hidden = 0
    for line in _all(found, look, len(indent)):
        if left > 0:
            yield indent + line if line else line
            left -= 1
        else:
            hidden += 1
    if hidden:
        yield indent + look.paint(f"… {counted(hidden, 'more line')}; --full shows all", "note")


def _all(found: Content, look: Look, used: int) -> Iterator[str]:
    width = look.width - used
    for note in found.notes:
        for i, line in enumerate(wrap(shown(note), width - 2)):
            yield look.paint(f"{'  ' if i else '! '}{line}", "note")
    yield from _images(found.old_image, found.new_image, look)
    yield from field_lines(found.fields, look, width)
    for table in found.tables:
        yield from table_lines(table, look, width)
    for part in found.parts:
        yield from _part(part, look, width)
    for member in found.members:
        sizes = " -> ".join(size_of(s) for s in (member.old_size, member.new_size) if s is not None)
        text = f"{MARK[member.status]} {shown(member.name)}  {sizes}"
        yield look.paint(cut(text, width), STYLE[member.status])


def _images(old: Image | None, new: Image | None, look: Look) -> Iterator[str]:
    for mark, image, style in (("-", old, "old"), ("+", new, "new")):
        if image is not None:
            mode = f", {image.mode}" if image.mode else ""
            text = f"{mark} {image.format} {image.width} x {image.height}{mode}, {size_of(image.size)}"
            yield look.paint(shown(f"{text}, sha256 {image.sha256[:12]}"), style)


# --- text ------------------------------------------------------------------------------------------------
def _part(part: TextPart, look: Look, width: int) -> Iterator[str]:
    if part.name:
        sign = f"{MARK[part.status]} " if part.status != "changed" else ""
        yield look.paint(f"{sign}{shown(part.name)}", "head")
    for hunk in part.hunks:
        if part.status == "changed":
            spans = f"-{_span(hunk.old_start, hunk.old_count)} +{_span(hunk.new_start, hunk.new_count)}"
            yield look.paint(f"@@ {spans} @@", "hunk")
        if look.side_by_side and part.status == "changed":
            from rover.cli.diff_columns import side_by_side

            yield from side_by_side(hunk, look, width)
        else:
            yield from _unified(hunk, look, width)
    if part.omitted:
        yield look.paint(f"… {part.omitted:,} more changed lines", "note")


def _span(start: int, count: int) -> str:
    return f"{start}" if count == 1 else f"{start},{count}"


def _unified(hunk: Hunk, look: Look, width: int) -> Iterator[str]:
    from rover.cli.diff_columns import one_line, painted, pieces, runs

    for gone, came, same in runs(hunk):
        pairs = list(zip(gone, came, strict=False)) if len(gone) == len(came) else []
        if look.words and pairs:
            yield from (line for a, b in pairs for line in _laid(one_line(a, b, look), width, look))
        elif look.colours.on and pairs:
            both = [pieces(a, b) for a, b in pairs]
            room = width - 1 if look.wrapped else None
            for side, mark, style in ((0, "-", "old"), (1, "+", "new")):
                for row in both:
                    for i, (_, line) in enumerate(painted(row[side], style, look, room)):
                        yield look.paint(" " if i else mark, style) + line
        else:
            for lines_of, mark, style in ((gone, "-", "old"), (came, "+", "new")):
                for line in lines_of:
                    yield from (look.paint(x, style) for x in _laid(mark + shown(line), width, look))
        for line in same:
            yield from (x.rstrip() for x in _laid(f" {shown(line)}", width, look))


def _laid(line: str, width: int, look: Look) -> list[str]:
    """A line with its mark; what does not fit goes on below, one column in. Never cut inside a colour."""
    if not look.wrapped or display_width(line) <= width or "\x1b" in line:
        return [line]
    return [(" " if i else line[0]) + piece for i, piece in enumerate(wrap(line[1:], width - 1))]
