"""The deflate codec: isal where its wheel is installed, then zlib-ng, then zlib. The one place that picks it.

All of them read one another. ROVER_ZLIB names one of them (`isal`, `zlib-ng`, `zlib`) for a process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, Protocol

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


# levels: isal's 1 is smaller than zlib's 1 and three times as fast; level 1 of zlib-ng leaves text a third larger
_MODULES = {"isal": ("isal.isal_zlib", 1), "zlib-ng": ("zlib_ng.zlib_ng", 2), "zlib": ("zlib", 1)}


@cache
def codec() -> Codec:
    """The codec of this process."""
    wanted = os.environ.get("ROVER_ZLIB", "")
    if wanted not in ("", *_MODULES):
        raise UsageError(f"ROVER_ZLIB: {wanted!r} is none of {', '.join(_MODULES)}")
    for name, (module, level) in _MODULES.items():
        if wanted in ("", name):
            try:
                return _codec(name, import_module(module), level)
            except ImportError:
                if wanted:
                    raise UsageError(f"ROVER_ZLIB: {wanted} is not installed") from None
    raise AssertionError


def _codec(name: str, z: Any, level: int) -> Codec:
    compress = z.compress
    return Codec(
        name, lambda data: compress(data, level), lambda: z.compressobj(level), z.decompressobj, z.crc32, z.error
    )  # fmt: skip
