"""Where package content runs: a Protocol, bubblewrap (default), a plain local runtime for tests."""
