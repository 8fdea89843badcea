"""What an engine says, as one line with what to do about it."""

from __future__ import annotations

#: (part of the message, what is wrong, what to do). The first that fits counts.
TABLE: tuple[tuple[str, str, str], ...] = (
    ("no space left on device", "the Docker engine is out of disk", "docker system prune frees what nothing uses"),
    ("disk quota exceeded", "the Docker engine is out of disk", "docker system prune frees what nothing uses"),
    (
        "permission denied",
        "this user may not use the Docker engine",
        "add the user to the group docker and log in again, or run rootless Docker",
    ),
    ("no such file", "no Docker engine answers", "start one (sudo systemctl start docker), or set DOCKER_HOST"),
    (
        "filenotfounderror",
        "no Docker engine answers",
        "start one (sudo systemctl start docker), or set DOCKER_HOST",
    ),
    (
        "connection refused",
        "the Docker engine does not run",
        "start it (sudo systemctl start docker), or set DOCKER_HOST",
    ),
    (
        "name or service not known",
        "the Docker engine's machine is not known",
        "set DOCKER_HOST to one that is",
    ),
    ("timed out", "the Docker engine does not answer", "look at its log (journalctl -u docker), or restart it"),
    (
        "source path does not exist",
        "the Docker engine does not see this machine's files (it runs in a virtual machine, or on another one)",
        "name an image that carries rover: ROVER_DOCKER_IMAGE=...",
    ),
    (
        "mounts denied",
        "the Docker engine does not see this machine's files",
        "name an image that carries rover: ROVER_DOCKER_IMAGE=...",
    ),
    ("no such image", "the image is not there", "docker pull it first; rover never downloads one"),
    (
        "exec format error",
        "the image is for another kind of processor",
        "use one that is built for this machine's",
    ),
)


def explain(said: str) -> str:
    """One line: what is wrong, what to do, and what was said."""
    said = " ".join(said.split())[:400]
    small = said.lower()
    for part, wrong, remedy in TABLE:
        if part in small:
            return f"{wrong}; {remedy} ({said})"
    return said
