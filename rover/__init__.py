"""Rover: git for agent-training environments."""
