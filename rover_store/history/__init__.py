"""Questions about history: log, blame, ancestry, what a name stood for before."""
