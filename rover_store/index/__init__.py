"""The index: history, contents and evidence in SQL, derived from git."""
