"""Reinforcement learning on the packages of a pinned revision: sample, grade, assign credit, update.

`rover_train.rl.loop.train(...)` runs it; `settings` holds the config sections `rl`, `loss` and `eval`. Nothing here
knows which credit scheme runs, and credit knows nothing of tensors.
"""
