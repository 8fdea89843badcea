"""Rollouts and gradings as evidence keyed by content: nothing runs twice."""
