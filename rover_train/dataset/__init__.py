"""From a pinned revision to what a trainer reads: demonstrations, prompts, curation, consistency, rows on disk."""
