"""The library that checks are written with. A check file says `import rover_checks as rc`; the grader gives
that name to this package, so that packages never depend on where rover keeps it.

A check is a function of one argument and lies in verifier/checks/*.py:

    import rover_checks as rc

    def rows(ev):
        found = rc.table(ev.end("report.csv"))
        return rc.rows_match(found, ev.anchor("totals"), key=["region"])

It returns a score in [0, 1], or (score, reason). `ev` (Evidence) gives `end(path)` and `start(path)` (a Path),
`files()` and `start_files()` (sorted paths), `anchor(id)` (a Table), `value(id)` (its only cell), `message` (the
policy's last word) and `paths` (the criterion's). Every comparer below returns (score, reason), 1.0 only where
all is right.

A deliverable that is missing, broken or hostile raises Unreadable; where a check lets it pass, the criterion
scores 0 with that reason. Any other exception is a fault of the verifier.

Readers     table(path, sheet=None) -> Table (csv, tsv, xlsx, json, jsonl by ending; header as text);
            json_object(path) -> dict; json_value(path); text(path) -> str; sheets(path) -> names
Values      number(x), date(x), plain(x), same(found, expected, kind=None, tolerance=0.0), same_number,
            same_date, same_text, same_boolean; kind: text, integer, number, date or boolean, by default that
            of the expected value
Tables      has_columns(found, columns, extra=True, order=False); rows_match(found, expected, key);
            cells_match(found, expected, key, column, tolerance=0.0, kind=None);
            in_order(found, column, descending=False, kind=None)
Objects     has_fields(obj, fields); field_is(obj, field, expected, tolerance, kind);
            set_is(obj, field, expected); records_match(obj, field, expected, key, columns, tolerances, kinds)
Text        figure_near(text, label, expected, tolerance=0.0); cites(text, paths)
State       edited(start, end, key, column, rows, value, tolerance, kind);
            rest_unchanged(ev, path, sheet=None, key=(), edits={column: Table of keys or None});
            protected(ev, paths); no_extra(ev, allowed)
Together    every(result, result, ...) -> the mean score, the first bad reason
"""

from rover.verify.checklib.bounds import Unreadable
from rover.verify.checklib.evidence import Evidence
from rover.verify.checklib.objects import field_is, has_fields, records_match, set_is
from rover.verify.checklib.prose import cites, figure_near, figures_near
from rover.verify.checklib.read import Table, json_object, json_value, sheets, table, text
from rover.verify.checklib.state import edited, no_extra, protected, rest_unchanged
from rover.verify.checklib.tables import cells_match, every, has_columns, in_order, rows_match
from rover.verify.checklib.values import (
    Cell,
    Result,
    date,
    is_empty,
    kind_of,
    number,
    plain,
    same,
    same_boolean,
    same_date,
    same_number,
    same_text,
)

#: The name under which check files import this package.
IMPORT_NAME = "rover_checks"

__all__ = [
    "IMPORT_NAME", "Cell", "Evidence", "Result", "Table", "Unreadable", "cells_match", "cites", "date", "edited",
    "every", "field_is", "figure_near", "figures_near", "has_columns", "has_fields", "in_order", "is_empty",
    "json_object", "json_value", "kind_of", "no_extra", "number", "plain", "protected", "records_match",
    "rest_unchanged", "rows_match", "same", "same_boolean", "same_date", "same_number", "same_text", "set_is",
    "sheets", "table", "text",
]  # fmt: skip
