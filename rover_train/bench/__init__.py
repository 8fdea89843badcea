"""`rover bench credit`: schemes of credit against each other, at equal tasks, seeds and rollouts."""
