"""Git packs: what the rest of the store uses of their format, writer and reader."""

from rover_store.packs.format import (
    BLOB,
    CHUNK,
    COMMIT,
    KIND_CODE,
    KIND_NAME,
    OFS_DELTA,
    REF_DELTA,
    TAG,
    TMP_PREFIX,
    TREE,
    WHOLE_LIMIT,
    fsync_folder,
    object_hash,
    object_id,
    record_header,
)
from rover_store.packs.read import Pack, Record, Run
from rover_store.packs.write import PackWriter, index_bytes

__all__ = [
    "BLOB", "CHUNK", "COMMIT", "KIND_CODE", "KIND_NAME", "OFS_DELTA", "REF_DELTA", "TAG", "TMP_PREFIX", "TREE",
    "WHOLE_LIMIT", "Pack", "PackWriter", "Record", "Run", "fsync_folder", "index_bytes", "object_hash", "object_id",
    "record_header",
]  # fmt: skip
