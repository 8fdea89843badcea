"""Boxes in containers of a Docker engine: the runtime for machines where only Docker is allowed, and for images."""
