"""Credit: from graded rollouts of a group to an advantage for each turn. Pure Python, no torch."""
