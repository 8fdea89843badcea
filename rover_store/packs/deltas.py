"""Deltas of another git: how large their result is, and the result itself. We write none."""

from __future__ import annotations

from rover_store.errors import StoreError
from rover_store.packs.format import WHOLE_LIMIT, TooLarge


def sizes(delta: bytes) -> tuple[int, int, int]:
    """Size of the base, size of the result, and where the instructions begin. IndexError if cut short."""
    base, at = _size(delta, 0)
    result, at = _size(delta, at)
    return base, result, at


def apply(base: bytes, delta: bytes) -> bytes:
    """The result of a delta. StoreError where it does not fit the base, or is not what it says."""
    base_size, size, at = sizes(delta)
    if base_size != len(base):
        raise StoreError("a delta is for a base of another size")
    if size > WHOLE_LIMIT:
        raise TooLarge("the result of a delta", size)
    out = bytearray()
    end = len(delta)
    while at < end:
        code = delta[at]
        at += 1
        if code & 0x80:
            start, length = 0, 0
            for bit in range(4):
                if code & 1 << bit:
                    start |= delta[at] << 8 * bit
                    at += 1
            for bit in range(3):
                if code & 16 << bit:
                    length |= delta[at] << 8 * bit
                    at += 1
            length = length or 0x10000
            if start + length > base_size:
                raise StoreError("a delta copies from beyond its base")
            out += base[start : start + length]
        elif code:
            if at + code > end:
                raise StoreError("a delta is cut short")
            out += delta[at : at + code]
            at += code
        else:
            raise StoreError("a delta has an instruction that does not exist")
        if len(out) > size:
            raise StoreError("a delta makes more than it says")
    if len(out) != size:
        raise StoreError("a delta makes less than it says")
    return bytes(out)


def _size(delta: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = delta[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at
        if shift > 64:
            raise StoreError("a delta has a size beyond all bounds")
