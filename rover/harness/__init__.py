"""The tool loop: tools in a sandbox, budgets, the turn as recorded."""
