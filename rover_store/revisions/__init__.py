"""Git's revision syntax."""
