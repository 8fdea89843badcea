"""Who acts: a Protocol, family solvers, scripted plans with slips, null attackers, replay, any OpenAI-compatible server."""
