"""HTML from text that may be hostile: everything is escaped unless it was made here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

#: what no page may carry as it is: control characters, and those that turn the direction of writing
_UNSHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_VOID = frozenset({"meta", "br"})
#: no script runs and nothing is fetched, whatever a page holds
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


class Html(str):
    """Markup that was made here, and is not escaped again."""

    __slots__ = ()


Piece = object


def text(value: object) -> Html:
    """A value as escaped text; Html stays what it is, None is empty."""
    if isinstance(value, Html):
        return value
    if value is None:
        return Html("")
    return Html(escape(_UNSHOWN.sub(lambda m: f"\\u{ord(m[0]):04x}", str(value)), quote=True))


def tag(name: str, /, *inside: Piece, **attributes: object) -> Html:
    """An element. `class_` is class, `for_text` for-text; an attribute that is None or False is left out."""
    told = ""
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        shown = key.rstrip("_").replace("_", "-")
        told += f" {shown}" if value is True else f' {shown}="{text(value)}"'
    if name in _VOID:
        return Html(f"<{name}{told}>")
    return Html(f"<{name}{told}>{''.join(text(i) for i in inside)}</{name}>")


def join(parts: Iterable[Piece], between: str = "") -> Html:
    return Html(between.join(text(part) for part in parts))


def table(head: Sequence[Piece], rows: Iterable[Sequence[Piece]], *, right: Sequence[int] = (), name: str = "") -> Html:
    """A table; columns in `right` hold numbers."""
    numbers = [("n" if at in right else None) for at in range(len(head))]
    top = tag("tr", *(tag("th", cell, class_=kind) for cell, kind in zip(head, numbers, strict=True)))
    body = [
        tag("tr", *(tag("td", cell, class_=kind) for cell, kind in zip(row, numbers, strict=True))) for row in rows
    ]
    made = tag("table", tag("thead", top), tag("tbody", *body), class_=name or None)
    return tag("div", made, class_="wide")


def page(title: str, *body: Piece) -> str:
    """A whole document that needs nothing else."""
    head = tag(
        "head", tag("meta", charset="utf-8"), tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"), tag("title", title),
        Html(f"<style>{STYLE}</style>"),
    )  # fmt: skip
    return f"<!doctype html>\n<html lang=\"en\">{head}{tag('body', *body)}</html>\n"


STYLE = """
:root{--ink:#1a202c;--soft:#5a6577;--line:#e2e8f0;--pale:#f7f9fb;--blue:#2b6cb0;--orange:#c05621;--good:#276749;
--bad:#9b2c2c}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;max-width:76rem;margin:1.5rem auto 4rem;padding:0 1rem;color:var(--ink)}
h1{font-size:1.5rem;margin:0 0 .2rem;overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:2.2rem 0 .6rem;border-bottom:1px solid var(--line);padding-bottom:.2rem}
h3{font-size:1rem;margin:1.2rem 0 .4rem}
p{margin:.3rem 0 .6rem}
.soft{color:var(--soft)}
.good{color:var(--good)}
.bad{color:var(--bad)}
.wide{overflow-x:auto}
table{border-collapse:collapse;margin:.4rem 0;font-size:13px}
th,td{text-align:left;padding:.18rem .7rem .18rem 0;border-bottom:1px solid var(--line);vertical-align:top}
th{font-weight:600;color:var(--soft)}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
.tiles{display:flex;flex-wrap:wrap;gap:.7rem;margin:1rem 0}
.tile{background:var(--pale);border:1px solid var(--line);border-radius:6px;padding:.5rem .9rem;min-width:8.5rem}
.tile b{display:block;font-size:1.3rem;font-variant-numeric:tabular-nums}
.tile span{color:var(--soft);font-size:13px}
.curves{display:grid;grid-template-columns:repeat(auto-fill,minmax(21rem,1fr));gap:.6rem 1.2rem}
.curves svg{width:100%;height:auto;display:block}
details{border:1px solid var(--line);border-radius:6px;margin:.5rem 0;background:#fff}
summary{cursor:pointer;padding:.45rem .8rem;overflow-wrap:anywhere}
details>div{padding:.2rem .8rem .8rem}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--pale);border:1px solid var(--line);border-radius:4px;
padding:.4rem .6rem;margin:.3rem 0;font:12.5px/1.45 ui-monospace,Menlo,Consolas,monospace;max-height:22rem;
overflow:auto}
.turn{display:grid;grid-template-columns:13rem minmax(0,1fr);gap:1rem;border-top:1px solid var(--line);padding:.6rem 0}
.turn:target{background:#fffbeb}
.worth{font-size:13px;font-variant-numeric:tabular-nums}
.worth b{font-size:14px}
.worth table{margin:.2rem 0;width:100%}
.worth td{padding:.05rem .3rem .05rem 0;border:0}
.worth td:first-child{width:7rem;white-space:nowrap}
.call{margin:.5rem 0}
.call b{font-size:13px}
pre.out{border-left:3px solid var(--blue)}
.bar{position:relative;display:block;height:.55rem;background:#edf2f7;border-radius:2px;margin:.25rem 0 .4rem}
.bar i{position:absolute;top:0;bottom:0;background:var(--good);border-radius:2px}
.bar i.minus{background:var(--bad)}
.bar s{position:absolute;top:-2px;bottom:-2px;left:50%;width:1px;background:var(--soft)}
.span{width:15rem;margin:.35rem 0}
.span u{position:absolute;top:40%;height:20%;background:var(--ink)}
.share{display:inline-block;height:.7rem;background:var(--blue);border-radius:2px;vertical-align:middle}
@media(max-width:46rem){.turn{grid-template-columns:1fr}}
@media print{details{break-inside:avoid}}
"""
