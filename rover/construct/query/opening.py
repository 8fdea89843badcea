"""The bytes of one file of a workspace, safely: no links, no devices, no way out of the root, bounded size.

Both query engines get their bytes here, and nothing else in common: what the bytes mean, each decides alone.
"""

from __future__ import annotations

import io
import os
import stat
import zipfile
from pathlib import Path

from rover_store.errors import PackageError

MAX_BYTES = 64 << 20
MAX_UNPACKED = 128 << 20
MAX_MEMBERS = 2_000
MAX_RATIO = 400

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def read_bytes(root: Path, path: str, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of `path` below `root`. PackageError for anything that is not a plain file of modest size."""
    parts = path.split("/")
    if path.startswith("/") or "\0" in path or any(p in ("", ".", "..") for p in parts):
        raise PackageError(path, "", "not a path inside the workspace")
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        # O_NONBLOCK: opening a FIFO must not wait for a writer
        handle = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        raise PackageError(path, "", "no such file") from None
    except OSError as error:
        raise PackageError(path, "", f"cannot be opened ({error.strerror})") from None
    finally:
        os.close(folder)
    with os.fdopen(handle, "rb") as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode):
            raise PackageError(path, "", "not a plain file")
        if info.st_size > max_bytes:
            raise PackageError(path, "", f"{info.st_size} bytes, more than {max_bytes}")
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise PackageError(path, "", f"grew beyond {max_bytes} bytes while it was read")
    return data


def check_workbook(data: bytes, path: str) -> None:
    """Refuse a workbook that is encrypted, not a zip, or would unpack to far more than it is."""
    if data.startswith(_OLE):
        raise PackageError(path, "", "password-protected or an old .xls workbook")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
        raise PackageError(path, "", f"not a readable workbook ({error})") from None
    if any(m.flag_bits & 1 for m in members):
        raise PackageError(path, "", "password-protected workbook")
    unpacked = sum(m.file_size for m in members)
    bomb = unpacked > MAX_UNPACKED or (unpacked > 1 << 20 and unpacked > MAX_RATIO * len(data))
    if bomb or len(members) > MAX_MEMBERS:
        raise PackageError(path, "", f"unpacks to {unpacked} bytes in {len(members)} parts: refused as a zip bomb")
