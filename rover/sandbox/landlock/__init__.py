"""The sandbox for hosts without user namespaces: Landlock and seccomp on plain processes of the caller's own user.

A keeper process, which ends with rover, forks one supervisor a box. What the supervisor starts is confined before it
runs: Landlock (through the wheel `sandlock`) says which files it may read and write, a seccomp filter of our own what
it may ask of the kernel, and the calls that neither governs (modes and times of files, signals, sockets) go to the
supervisor, which serves them for the box's own alone. The workspace is a private folder of the host. There are no
mounts: names of the host's files can be seen, and the box has no paths of its own choice. `level` says what that
leaves unmet.
"""
