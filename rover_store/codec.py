"""The deflate codec: isal where its wheel is installed, then zlib-ng, then zlib. The one place that picks it.

All of them read one another. ROVER_ZLIB names one of them (`isal`, `zlib-ng`, `zlib`) for a process.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from functools import cache
from typing import NamedTuple, Protocol

from rover_store.errors import UsageError


class Deflater(Protocol):
    """What `zlib.compressobj` gives."""

    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self) -> bytes: ...


class Inflater(Protocol):
    """What `zlib.decompressobj` gives."""

    @property
    def eof(self) -> bool: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    def decompress(self, data: bytes | memoryview, max_length: int = 0, /) -> bytes: ...


class Codec(NamedTuple):
    """One implementation. `error` is what damaged data raises."""

    name: str
    compress: Callable[[bytes], bytes]
    deflater: Callable[[], Deflater]
    inflater: Callable[[], Inflater]
    crc32: Callable[..., int]
    error: type[Exception]


@cache
def codec() -> Codec:
    """The codec of this process."""
    wanted = os.environ.get("ROVER_ZLIB", "")
    if wanted not in ("", *_MAKERS):
        raise UsageError(f"ROVER_ZLIB: {wanted!r} is none of {', '.join(_MAKERS)}")
    for name, make in _MAKERS.items():
        if wanted in ("", name):
            try:
                return make()
            except ImportError:
                if wanted:
                    raise UsageError(f"ROVER_ZLIB: {wanted} is not installed") from None
    raise AssertionError


def _isal() -> Codec:
    # level 1: smaller than zlib's, and three times as fast
    from isal import isal_zlib as z

    return Codec("isal", lambda d: z.compress(d, 1), lambda: z.compressobj(1), z.decompressobj, z.crc32, z.error)


def _zlib_ng() -> Codec:
    # level 2: its level 1 leaves text a third larger
    from zlib_ng import zlib_ng as z

    return Codec("zlib-ng", lambda d: z.compress(d, 2), lambda: z.compressobj(2), z.decompressobj, z.crc32, z.error)


def _zlib() -> Codec:
    z = zlib
    return Codec("zlib", lambda d: z.compress(d, 1), lambda: z.compressobj(1), z.decompressobj, z.crc32, z.error)


_MAKERS: dict[str, Callable[[], Codec]] = {"isal": _isal, "zlib-ng": _zlib_ng, "zlib": _zlib}
