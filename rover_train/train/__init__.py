"""Supervised fine-tuning, and what every trainer stands on: optimisers, schedules, checkpoints, the run's folder."""
