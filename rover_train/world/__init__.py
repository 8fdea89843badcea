"""A world that a small model learns on a CPU: workspaces, a tokenizer and a model from a config, drills, habits."""
