"""What a task needs that a plain sandbox does not give: features by name, each with the reasons.

Read from its settings and scripts. A sandbox that offers all of them runs the task; any other refuses it by name.
"""

from __future__ import annotations

from typing import Any

from rover.port.harbor import shell
from rover.port.harbor.config import Config, environments
from rover.port.harbor.image import Stage, is_plain
from rover.port.harbor.split import unfilled
from rover.port.harbor.tree import Tree
from rover.sandbox.places import where_not
from rover.sandbox.protocol import FEATURES

#: features that no sandbox of ours offers, beside those it may
OTHERS = (
    "services", "verifier image", "host variables", "healthcheck", "collect hooks", "prior trajectory", "windows",
    "gpu", "tpu",
)  # fmt: skip
_ROOT = ("root", "0", 0)


class Needs:
    """Features with their reasons, in a fixed order."""

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = {}

    def add(self, feature: str, reason: str) -> None:
        reasons = self._found.setdefault(feature, [])
        if reason not in reasons:
            reasons.append(reason)

    def requires(self) -> tuple[str, ...]:
        order = (*FEATURES, *OTHERS)
        return tuple(sorted(self._found, key=lambda f: order.index(f) if f in order else len(order)))

    def said(self) -> tuple[str, ...]:
        """One line a feature: its name, the first reasons."""
        out = []
        for feature in self.requires():
            reasons = self._found[feature]
            more = f" and {len(reasons) - 2} more" if len(reasons) > 2 else ""
            out.append(f"{feature}: {'; '.join(reasons[:2])}{more}" if reasons else feature)
        return tuple(out)


def needs_of(config: Config, tree: Tree, stage: Stage, workdir: str) -> Needs:
    """What a task needs."""
    needs = Needs()
    _of_place(needs, config, stage, workdir)
    _of_settings(needs, config)
    _of_verifier(needs, config, tree)
    _of_scripts(needs, tree)
    for name in tree:
        if name == "environment/docker-compose.yaml":
            needs.add("services", name)
        if name == "trajectory.json" or (name.startswith("steps/") and name.count("/") == 2 and
                                         name.endswith("/trajectory.json")):  # fmt: skip
            needs.add("prior trajectory", name)
    return needs


def _of_place(needs: Needs, config: Config, stage: Stage, workdir: str) -> None:
    if workdir and workdir != "/":
        who = where_not(workdir)
        needs.add("workdir", f"{workdir}, which {who} have" if who else workdir)
    prebuilt = (config.get("environment") or {}).get("docker_image")
    if prebuilt and not is_plain(prebuilt):
        needs.add("image", f"what {prebuilt} holds")
    if workdir in ("", "/"):
        needs.add("image", "its working folder is " + ("the root of the image" if workdir else "the image's own"))
    for reason in stage.reasons:
        needs.add("image", reason)
    outside = sorted(path for path in stage.files if not path.startswith(f"{workdir.rstrip('/')}/"))
    if outside:
        needs.add("image", f"{outside[0]} lies outside of its working folder")
    if not prebuilt:
        for reason in stage.fetches:
            needs.add("network", f"its image is built with {reason}")
    if stage.user.partition(":")[0] in _ROOT:
        needs.add("root", f"USER {stage.user}")


def _of_settings(needs: Needs, config: Config) -> None:
    place = config.get("environment") or {}
    agent = config.get("agent") or {}
    if agent.get("user") in _ROOT:
        needs.add("root", f"agent.user = {agent['user']!r}")
    for where, one in (("environment", place), ("agent", agent)):
        if one.get("network_mode") in ("public", "allowlist"):
            needs.add("network", f"{where}.network_mode = {one['network_mode']!r}")
    if place.get("allow_internet"):
        needs.add("network", "environment.allow_internet = true")
    for name in unfilled(place.get("env") or {}):
        needs.add("host variables", f"environment.env wants {name}")
    if place.get("healthcheck"):
        needs.add("healthcheck", shell.shown(str(place["healthcheck"].get("command", ""))))
    if str(place.get("os", "linux")).lower() == "windows":
        needs.add("windows", "environment.os = 'windows'")
    if place.get("gpus"):
        needs.add("gpu", f"environment.gpus = {place['gpus']}")
    if place.get("tpu"):
        needs.add("tpu", "environment.tpu")
    for server in place.get("mcp_servers") or ():
        if server.get("url") and not server.get("command"):
            needs.add("network", f"the tool server {server['name']} is at {server['url']}")
    for step in config.get("steps") or ():
        needs.add("steps", f"step {step['name']}")


def _of_verifier(needs: Needs, config: Config, tree: Tree) -> None:
    verifiers: list[tuple[str, Any]] = [("verifier", config.get("verifier") or {})]
    verifiers += [(f"steps.{n}.verifier", s.get("verifier") or {}) for n, s in enumerate(config.get("steps") or ())]
    own = {where for where, _ in environments(config) if where != "environment"}
    for where, verifier in verifiers:
        for name in unfilled(verifier.get("env") or {}):
            needs.add("host variables", f"{where}.env wants {name}")
        if verifier.get("collect"):
            needs.add("collect hooks", f"{where}.collect")
        if verifier.get("network_mode") in ("public", "allowlist"):
            needs.add("network", f"{where}.network_mode = {verifier['network_mode']!r}")
        if f"{where}.environment" in own:
            needs.add("verifier image", f"{where}.environment")
        if verifier.get("user") in _ROOT:
            needs.add("root", f"{where}.user = {verifier['user']!r}")
    if is_separate(config):
        for name in ("tests/Dockerfile", "tests/docker-compose.yaml"):
            if name in tree:
                needs.add("verifier image", name)


def is_separate(config: Config) -> bool:
    """Whether the verifier has a container of its own."""
    verifier = config.get("verifier") or {}
    return verifier.get("environment_mode") == "separate" or (
        verifier.get("environment_mode") is None and verifier.get("environment") is not None
    )


def _of_scripts(needs: Needs, tree: Tree) -> None:
    """What the scripts of tests and solution fetch, and what only root can run."""
    for path, item in tree.items():
        parts = path.split("/")
        folder = parts[2] if parts[0] == "steps" and len(parts) > 3 else parts[0]
        if folder not in ("tests", "solution", "workdir") or not path.endswith(".sh") or len(item.data) > 1 << 20:
            continue
        script = item.data.decode("utf-8", "replace")
        for number, line in shell.fetching(script)[:1]:
            needs.add("network", f"{path}:{number} {shell.shown(line)}")
        for number, line in shell.as_root(script)[:1]:
            needs.add("root", f"{path}:{number} {shell.shown(line)}")
