"""Proposals: a frozen replacement for one component, by rule, by re-derivation, from history or by hand."""
