"""What comparing two files may cost. Beyond a bound a comparison gets coarser and says so; it never fails."""

#: bytes of a side that is compared as text, JSON or a table
TEXT_BYTES = 32 << 20
JSON_BYTES = 16 << 20
TABLE_BYTES = 16 << 20
#: bytes of a side that is read by `extract`
EXTRACT_BYTES = 64 << 20
LINES = 500_000
CELLS = 2_000_000
COLUMNS = 1_000
#: members of two lists without keys that are compared one by one
MEMBERS = 200_000
#: nesting of JSON that is compared field by field; below that a value is compared as a whole
DEPTH = 60
#: entries that one list of a result holds
LISTED = 10_000
#: characters of a line, a cell or a value that a result holds
CHARACTERS = 2_000
#: steps of the search for the smallest edit of two sequences, in all and with neither side having anchors
STEPS = 4_000_000
EDITS = 250
