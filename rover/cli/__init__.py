"""The command line: rendering, and the one place where errors become message, hint and exit code."""
