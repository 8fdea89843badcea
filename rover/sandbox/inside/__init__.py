"""Code that runs inside a box. Standard library only: the supervisor starts without site-packages."""
