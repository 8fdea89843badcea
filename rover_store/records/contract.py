"""The evaluation contract: what must hold for success, stated without any value of a reference state.

Each value is `given` (the policy must be told: parameters, ids, paths, dates) or `answer` (a query over the
context; its value is an anchor of the verifier).
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rover_store.records.base import Part, Record
from rover_store.records.query import Given, Query, Scalar


class GivenValue(Part):
    """A value that the instruction or the context must state."""

    name: str
    value: Scalar
    meaning: str = ""
    unit: str = ""
    stated_in: Annotated[str, Field(description="`instruction`, or the file that states it")] = "instruction"


class Answer(Part):
    """An answer: the only cell (or, where a table is asked for, the table) of a query."""

    answer: Query


Value = Given | Answer


class Column(Part):
    """A column of a table or a field of a JSON object, with what it means and what counts as equal."""

    name: str
    type: Literal["text", "integer", "number", "date", "boolean"]
    meaning: str = ""
    unit: str = ""
    tolerance: Annotated[float, Field(ge=0, description="absolute, in the unit; 0 is exact")] = 0.0


class Deliverable(Part):
    """A file that the policy must leave behind."""

    id: str
    path: str
    type: Literal["csv", "tsv", "xlsx", "json", "markdown", "text"]
    sheet: str | None = None
    columns: tuple[Column, ...] = ()
    key: Annotated[tuple[str, ...], Field(description="columns that identify a row")] = ()
    in_place: Annotated[bool, Field(description="the file exists at the start and is edited")] = False


class FormatRule(Part):
    """The deliverable exists, parses, and has the named columns or fields."""

    kind: Literal["format"] = "format"


class RowsRule(Part):
    """The keys of the table are exactly the keys of the answer: none missing, none twice, none extra."""

    kind: Literal["rows"] = "rows"
    value: Answer


class CellsRule(Part):
    """For each key of the answer, one column holds the answer's value within the column's tolerance."""

    kind: Literal["cells"] = "cells"
    column: str
    value: Answer


class OrderRule(Part):
    """Rows are sorted by a column (ties in any order)."""

    kind: Literal["order"] = "order"
    column: str
    descending: bool = False


class FieldRule(Part):
    """A top-level field of a JSON deliverable holds the value (a scalar)."""

    kind: Literal["field"] = "field"
    field: str
    value: Value


class SetRule(Part):
    """A field of a JSON deliverable is a list whose members are the answer's first column, in any order."""

    kind: Literal["set"] = "set"
    field: str
    value: Answer


class RecordsRule(Part):
    """A field of a JSON deliverable is a list of objects: keys are the answer's rows, values within tolerance."""

    kind: Literal["records"] = "records"
    field: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    value: Answer


class FigureRule(Part):
    """The text states the value near its label: same line, or same sentence."""

    kind: Literal["figure"] = "figure"
    label: Annotated[str, Field(description="words that the line must hold, as the instruction states them")]
    value: Value
    tolerance: float = 0.0


class CiteRule(Part):
    """The text names the source files."""

    kind: Literal["cite"] = "cite"
    paths: tuple[str, ...]


class EditRule(Part):
    """In the edited table, `column` holds `value` in exactly the rows whose key the answer lists."""

    kind: Literal["edit"] = "edit"
    column: str
    rows: Annotated[Answer, Field(description="query over the start state; its columns are the key")]
    value: Value


class RestRule(Part):
    """Everything else of the edited file is as it was at the start: other cells, sheets, columns, row order."""

    kind: Literal["rest"] = "rest"


class ProtectedRule(Part):
    """These files are byte for byte as at the start."""

    kind: Literal["protected"] = "protected"
    paths: tuple[str, ...]


class NoExtraRule(Part):
    """No file was created other than the deliverables, none was deleted."""

    kind: Literal["no_extra"] = "no_extra"


class ProgramRule(Part):
    """The verifier's program says 1 under this key. Only that program knows what it means."""

    kind: Literal["program"] = "program"
    key: Annotated[str, Field(description="key of its reward; `reward` where it gives a bare number")] = "reward"


Rule = Annotated[
    FormatRule | RowsRule | CellsRule | OrderRule | FieldRule | SetRule | RecordsRule | FigureRule | CiteRule
    | EditRule | RestRule | ProtectedRule | NoExtraRule | ProgramRule,
    Field(discriminator="kind"),
]  # fmt: skip


class Requirement(Part):
    """One thing that must hold. `role` says whether it is a demand, a constraint or a visible invariant."""

    id: str
    statement: Annotated[str, Field(description="the requirement in plain words")]
    role: Literal["demand", "constraint", "invariant"] = "demand"
    deliverable: Annotated[str | None, Field(description="id of the deliverable it is about")] = None
    rule: Rule
    critical: Annotated[bool, Field(description="failing it makes the gate G zero")] = False
    weight: Annotated[float, Field(ge=0)] = 1.0


class Sameness(Part):
    """What counts as the same answer."""

    row_order: Annotated[bool, Field(description="row order matters")] = False
    column_order: Annotated[bool, Field(description="column order matters")] = False
    extra_columns: Annotated[bool, Field(description="columns beyond the named ones are allowed")] = True
    text_case: Annotated[bool, Field(description="case of text matters")] = False
    #: number formats such as 1,234.50, 1234.5 and 1234.500 are one value; dates are compared as dates
    number_format: Annotated[bool, Field(description="the written form of a number matters")] = False


class Contract(Record):
    """Deliverables and requirements, fixed before any reference state is read."""

    kind: ClassVar[str] = "contract"

    givens: tuple[GivenValue, ...] = ()
    deliverables: tuple[Deliverable, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    same: Sameness = Sameness()
