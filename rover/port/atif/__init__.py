"""Trajectories as ATIF-v1.8 (Agent Trajectory Interchange Format): out of the evidence, and back into it."""
