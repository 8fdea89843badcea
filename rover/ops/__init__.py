"""One function an operation: open the store, call the domain, one commit, a frozen result."""
