"""Care: fsck, repair, gc, pruning, what takes the space."""
