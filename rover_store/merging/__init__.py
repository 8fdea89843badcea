"""Three-way merge: by package, component, file, line and field."""
