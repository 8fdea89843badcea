"""What a machine says where bubblewrap cannot run, as one line with what to do about it."""

from __future__ import annotations

#: (part of the message, what is wrong, what to do). The first that fits counts.
TABLE: tuple[tuple[str, str, str], ...] = (
    (
        "No permissions to creat",
        "this container or kernel forbids user namespaces",
        "start the container with --security-opt seccomp=unconfined --security-opt systempaths=unconfined "
        "(Docker, Podman), or set sysctl kernel.unprivileged_userns_clone=1",
    ),
    (
        "namespaces exceeded",
        "the limit on namespaces is reached or zero",
        "sysctl -w user.max_user_namespaces=10000",
    ),
    (
        "Can't mount proc",
        "/proc is masked, as in most containers",
        "start the container with --security-opt systempaths=unconfined (Docker, Podman)",
    ),
    (
        "setting up uid map",
        "AppArmor restricts user namespaces (Ubuntu 23.10 and newer)",
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    (
        "RTM_NEWADDR",
        "AppArmor restricts user namespaces (Ubuntu 23.10 and newer)",
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    (
        "no ordinary user to become",
        "root here maps no other user",
        "run rover as an ordinary user, or in a container with a full range of user ids",
    ),
    (
        "Permission denied",
        "files of Python or rover are not open to an ordinary user",
        "install them where every user can read (chmod -R a+rX), or run rover as their owner",
    ),
    ("No such file", "a file that the sandbox needs is missing", "reinstall rover and its Python"),
)


def explain(said: str) -> str:
    """One line: what is wrong, what to do, and what was said."""
    said = " ".join(said.split())
    for part, wrong, remedy in TABLE:
        if part in said:
            return f"{wrong}; {remedy} ({said})"
    return said
