"""A content-addressed store of versioned task packages, in a real git repository."""
