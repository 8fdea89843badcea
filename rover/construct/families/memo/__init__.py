"""A written memo whose figures and sources are checked."""

from rover.construct.families.built_in import BuiltIn

FAMILY = BuiltIn("memo", version="1")
