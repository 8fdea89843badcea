"""The base of every section of a training config: frozen, no unknown keys, each field described by its docstring."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """One table of the TOML file. Subclasses live beside the code that reads them and import no torch."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)
