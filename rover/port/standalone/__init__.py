"""A package's verifier as a folder of its own, which needs Python alone."""
