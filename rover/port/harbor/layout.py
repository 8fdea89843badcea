"""Where each file of a task lies in a package, and back: the two are the same list read both ways."""

from __future__ import annotations

#: belongs to no component: the solution's other half, and files that neither agent nor verifier is shown
ASIDE = "demonstrations/harbor/"
CONFIG = f"{ASIDE}task.toml"
_OTHER = f"{ASIDE}other/"
#: files at the top of a task that a package has at its top too
TOP = ("README.md", "LICENSE")
_FOLDERS = (("environment/", "context/environment/"), ("tests/", "verifier/tests/"),
            ("solution/", "demonstrations/solution/"))  # fmt: skip
#: in the folder of a step; anything else there is what the agent finds
_OF_STEP = {"instruction.md": "task", "trajectory.json": "task", "tests": "verifier", "solution": "demonstrations"}
#: what stands beside the records of a component: `config` of task.toml, `executable` files, `links`
BESIDE = {
    "context": "context/harbor.json",
    "task": "task/harbor.json",
    "harness": "harness/harbor.json",
    "verifier": "verifier/harbor.json",
    "demonstrations": f"{ASIDE}harbor.json",
}


def placed(path: str) -> str:
    """The path in a package of a file of a task (task.toml and instruction.md have places of their own)."""
    if path in TOP:
        return path
    if path == "trajectory.json":
        return f"task/{path}"
    for folder, place in _FOLDERS:
        if path.startswith(folder):
            return place + path[len(folder) :]
    parts = path.split("/")
    if parts[0] == "steps" and len(parts) > 2:
        component = _OF_STEP.get(parts[2], "context")
        # a file called `tests` is none of the tests
        return f"{component if len(parts) > 3 or component == 'task' else 'context'}/{path}"
    return _OTHER + path


def original(path: str) -> str:
    """The path in the task of a file of a package; empty where it comes from no file of the task."""
    if path in TOP:
        return path
    if path == "task/trajectory.json":
        return "trajectory.json"
    for folder, place in (*_FOLDERS, ("", _OTHER)):
        if path.startswith(place):
            return folder + path[len(place) :]
    component, _, rest = path.partition("/")
    if rest.startswith("steps/") and component in ("task", "verifier", "context", "demonstrations"):
        return rest
    return ""
