"""Repair by Factorial Compatibility Replay: intent, oracle, proposals, candidates, gates, selection."""
