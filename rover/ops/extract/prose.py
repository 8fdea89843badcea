"""Documents by their text: paragraphs of docx, slides of pptx, pages of pdf. Runs inside."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from rover.ops.extract.packed import Parts, Unreadable

LINES, CHARACTERS, PAGES = 100_000, 16 << 20, 2_000
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_EXTRA = re.compile(r"word/((?:header|footer)\d*|footnotes|endnotes|comments)\.xml")
_SLIDE = re.compile(r"ppt/(slides/slide|notesSlides/notesSlide)(\d+)\.xml")


def read(payload: dict[str, Any]) -> dict[str, Any]:
    """{"text": [[part, [line, ...]], ...], "parts": {member: digest}, "cut": bool}."""
    form, name = payload["form"], payload["file"]
    if form == "pdf":
        return _bounded(_pdf(name), {})
    parts = Parts(name)
    digests = parts.parts()
    return _bounded(_docx(parts) if form == "docx" else _pptx(parts), digests)


def _bounded(found: Iterator[tuple[str, list[str]]], parts: dict[str, str]) -> dict[str, Any]:
    """At most so many lines and characters."""
    text: list[tuple[str, list[str]]] = []
    lines, characters, cut = LINES, CHARACTERS, False
    for name, said in found:
        kept = []
        for line in said:
            lines, characters = lines - 1, characters - len(line)
            if lines < 0 or characters < 0:
                cut = True
                break
            kept.append(line)
        text.append((name, kept))
        if cut:
            break
    return {"text": text, "parts": parts, "cut": cut}


def _root(parts: Parts, name: str) -> ElementTree.Element:
    data = parts.read(name)
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise Unreadable("its XML declares entities")
    try:
        return ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise Unreadable(f"{name} is not XML ({type(error).__name__})") from None


def _docx(parts: Parts) -> Iterator[tuple[str, list[str]]]:
    yield "", list(_blocks(_root(parts, "word/document.xml")))
    for name in sorted(parts.names):
        extra = _EXTRA.fullmatch(name)
        if extra:
            said = [line for line in _blocks(_root(parts, name)) if line]
            if said:
                yield extra[1], said


def _blocks(root: ElementTree.Element) -> Iterator[str]:
    """Paragraphs in their order; a row of a table is one line, its cells apart by ` | `."""
    inside: set[int] = set()
    for element in root.iter():
        if element.tag == f"{_W}tr" and id(element) not in inside:
            inside.update(id(e) for e in element.iter())
            yield " | ".join(
                " ".join(filter(None, (_words(p) for p in cell.iter(f"{_W}p")))) for cell in element.iter(f"{_W}tc")
            )
        elif element.tag == f"{_W}p" and id(element) not in inside:
            inside.update(id(e) for e in element.iter(f"{_W}p"))
            yield _words(element)


def _words(paragraph: ElementTree.Element) -> str:
    out = []
    for element in paragraph.iter():
        if element.tag in (f"{_W}t", f"{_W}delText"):
            out.append(element.text or "")
        elif element.tag == f"{_W}tab":
            out.append("\t")
        elif element.tag in (f"{_W}br", f"{_W}cr"):
            out.append(" ")
    return "".join(out)


def _pptx(parts: Parts) -> Iterator[tuple[str, list[str]]]:
    found = [(int(m[2]), m[1], name) for name in parts.names if (m := _SLIDE.fullmatch(name)) and len(m[2]) < 7]
    if not found:
        raise Unreadable("holds no slide")
    for number, kind, name in sorted(found, key=lambda f: (f[0], f[1] != "slides/slide")):
        lines = []
        for paragraph in _root(parts, name).iter(f"{_A}p"):
            said = "".join(t.text or "" for t in paragraph.iter(f"{_A}t"))
            lines += [said] if said else []
        if lines or kind == "slides/slide":
            yield f"slide {number}" if kind == "slides/slide" else f"notes of slide {number}", lines


def _pdf(name: str) -> Iterator[tuple[str, list[str]]]:
    import logging

    import pypdf

    logging.disable(logging.CRITICAL)
    try:
        reader = pypdf.PdfReader(name)
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("locked by a password")
        for number, page in enumerate(reader.pages, 1):
            if number > PAGES:
                yield f"page {number}", []
                return
            lines = [line.rstrip() for line in page.extract_text().splitlines()]
            yield f"page {number}", lines
    except Unreadable:
        raise
    except Exception as error:  # pypdf raises anything on a damaged file
        raise Unreadable(f"damaged ({type(error).__name__})") from None
