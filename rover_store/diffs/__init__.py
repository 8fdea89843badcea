"""What differs inside two versions of a file: fields of records, cells of tables, lines of text, sizes of images.

    compare(path, old, new)       one file, from its bytes; never empty where the bytes differ
    contents(objects, diff)       every file of a Diff with its content, one after the other

Data alone, no rendering. Formats that are dangerous to parse (workbooks, documents, images, archives) are read by an
`extract` that the caller brings; without one they are compared by their bytes, and the result says so.
"""

from rover_store.diffs.compare import compare
from rover_store.diffs.content import (
    CellChange,
    Columns,
    Content,
    Counts,
    Extract,
    FieldChange,
    Hunk,
    Image,
    Member,
    RowChange,
    TableChange,
    TextPart,
)
from rover_store.diffs.walk import Changed, contents

__all__ = [
    "CellChange", "Changed", "Columns", "Content", "Counts", "Extract", "FieldChange", "Hunk", "Image", "Member",
    "RowChange", "TableChange", "TextPart", "compare", "contents",
]  # fmt: skip
