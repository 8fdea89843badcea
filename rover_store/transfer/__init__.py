"""Clone, fetch, push and pull, whole or in part."""
