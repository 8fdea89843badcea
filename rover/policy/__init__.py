"""Who acts: a Protocol, family solvers, scripted plans, null attackers, replay, any OpenAI-compatible server."""
