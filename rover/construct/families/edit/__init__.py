"""Edit a table in place."""

from rover.construct.families.built_in import BuiltIn

FAMILY = BuiltIn("edit", version="1")
