"""The base of every section of a training config: frozen, no unknown keys, each field described by its docstring."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator


class Section(BaseModel):
    """One table of the TOML file. Subclasses live beside the code that reads them and import no torch."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: object, info: ValidationInfo) -> object:
        """`lr = true` is a slip of the pen, not a learning rate of 1."""
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation in (int, float):
            raise ValueError("input should be a number")
        return value
