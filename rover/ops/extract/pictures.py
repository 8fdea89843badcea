"""Images by what their first bytes say: format, width and height in pixels, and colour where it stands there.

Runs inside. Nothing is decoded, so a picture that claims to be huge costs nothing.
"""

from __future__ import annotations

import struct
from typing import Any

from rover.ops.extract.packed import Unreadable

_COLOURS = {0: "grey", 2: "rgb", 3: "palette", 4: "grey with alpha", 6: "rgb with alpha"}
_HEAD = 1 << 20


def read(payload: dict[str, Any]) -> dict[str, Any]:
    """{"image": {"format", "width", "height", "mode"}}."""
    with open(payload["file"], "rb") as file:
        head = file.read(_HEAD)
    try:
        for start, reader in _READERS:
            if head.startswith(start):
                return {"image": reader(head)}
    except (struct.error, IndexError, ValueError):
        raise Unreadable("its head is damaged") from None
    raise Unreadable("no format of pictures that is known here")


def _image(form: str, width: int, height: int, mode: str = "") -> dict[str, Any]:
    return {"format": form, "width": width, "height": height, "mode": mode}


def _png(head: bytes) -> dict[str, Any]:
    width, height, depth, colour = struct.unpack(">IIBB", head[16:26])
    return _image("PNG", width, height, f"{depth} bit {_COLOURS.get(colour, colour)}")


def _gif(head: bytes) -> dict[str, Any]:
    return _image("GIF", *struct.unpack("<HH", head[6:10]))


def _bmp(head: bytes) -> dict[str, Any]:
    width, height = struct.unpack("<ii", head[18:26])
    return _image("BMP", width, abs(height), f"{struct.unpack('<H', head[28:30])[0]} bit")


def _ico(head: bytes) -> dict[str, Any]:
    return _image("ICO", head[6] or 256, head[7] or 256)


def _jpeg(head: bytes) -> dict[str, Any]:
    at = 2
    while at + 9 < len(head):
        if head[at] != 0xFF:
            raise ValueError("no marker")
        marker = head[at + 1]
        if marker == 0xFF:
            at += 1
        elif marker in (0x01, *range(0xD0, 0xD9)):
            at += 2
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width, parts = struct.unpack(">HHB", head[at + 5 : at + 10])
            return _image("JPEG", width, height, {1: "grey", 3: "colour", 4: "CMYK"}.get(parts, ""))
        else:
            at += 2 + struct.unpack(">H", head[at + 2 : at + 4])[0]
    raise ValueError("no frame")


def _webp(head: bytes) -> dict[str, Any]:
    kind = head[12:16]
    if kind == b"VP8X":
        width, height = (int.from_bytes(head[a : a + 3], "little") + 1 for a in (24, 27))
        return _image("WebP", width, height)
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return _image("WebP", (bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1, "lossless")
    width, height = struct.unpack("<HH", head[26:30])
    return _image("WebP", width & 0x3FFF, height & 0x3FFF)


def _tiff(head: bytes) -> dict[str, Any]:
    order = "<" if head[:2] == b"II" else ">"
    at = struct.unpack(order + "I", head[4:8])[0]
    sizes = {}
    for i in range(min(struct.unpack(order + "H", head[at : at + 2])[0], 200)):
        entry = head[at + 2 + 12 * i :][:12]
        tag, kind = struct.unpack(order + "HH", entry[:4])
        if tag in (256, 257):
            sizes[tag] = struct.unpack(order + ("H" if kind == 3 else "I"), entry[8 : 10 if kind == 3 else 12])[0]
    if len(sizes) < 2:
        raise ValueError("no size")
    return _image("TIFF", sizes[256], sizes[257])


_READERS: tuple[tuple[bytes, Any], ...] = (
    (b"\x89PNG\r\n\x1a\n", _png), (b"GIF8", _gif), (b"BM", _bmp), (b"\xff\xd8", _jpeg), (b"RIFF", _webp),
    (b"II*\0", _tiff), (b"MM\0*", _tiff), (b"\0\0\1\0", _ico),
)  # fmt: skip
