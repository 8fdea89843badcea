"""The text of a tool's result, for an agent that reads text. Runs in the box, with the standard library alone."""

from __future__ import annotations

import base64
import contextlib
import json

from rover.harness.mcp.peer import Broken

TYPE_CHECKING = False
if TYPE_CHECKING:  # the import would cost as much as all others
    from typing import Any


def text_of(result: dict[str, Any]) -> str:
    """The text of a tool's result: its blocks in order; what is no text is named and left out."""
    blocks = result.get("content", [])
    if not isinstance(blocks, list):
        raise Broken("the content of its result is no list")
    parts = [shown(block) for block in blocks]
    structured = result.get("structuredContent")
    if structured is not None and not told(blocks, structured):
        parts.append(json.dumps(structured, ensure_ascii=False))
    return "\n".join(parts)


def shown(block: Any) -> str:
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        raise Broken("a block of its result has no type")
    kind = block["type"]
    text = block.get("text")
    if kind == "text" and isinstance(text, str):
        return text
    if kind == "resource" and isinstance(block.get("resource"), dict):
        inner = block["resource"]
        text = inner.get("text")
        if isinstance(text, str):
            return text
        return left_out("resource", inner.get("uri"), inner.get("mimeType"), inner.get("blob"))
    if kind == "resource_link":
        return left_out("resource_link", block.get("uri"), block.get("mimeType"), None)
    return left_out(kind, block.get("name"), block.get("mimeType"), block.get("data"))


def left_out(kind: str, name: Any, mime: Any, data: Any) -> str:
    about = [str(word)[:200] for word in (kind, name, mime) if word]
    if isinstance(data, str):
        with contextlib.suppress(ValueError):
            about.append(f"{len(base64.b64decode(data, validate=True))} bytes")
    return f"[left out: {', '.join(about)}]"


def told(blocks: list[Any], value: Any) -> bool:
    """Whether text blocks say this value already: one of them, or one for each item of a list. Servers wrap what is
    no object as {"result": value}."""
    texts = [block["text"] for block in blocks if block["type"] == "text" and isinstance(block.get("text"), str)]
    inner = value["result"] if isinstance(value, dict) and list(value) == ["result"] else value
    if any(same(text, value) or same(text, inner) for text in texts):
        return True
    return isinstance(inner, list) and len(inner) == len(texts) and all(map(same, texts, inner))


def same(text: str, value: Any) -> bool:
    """Whether a text is this value, plainly or as JSON."""
    try:
        return bool(text == value or json.loads(text) == value)
    except (ValueError, RecursionError):
        return False
