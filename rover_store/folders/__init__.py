"""Package folders: taken in, written out, merged with what moved on."""
