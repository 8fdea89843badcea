"""The git binary, for what lies across a network: the one place of the store that runs another program.

The environment is cleaned, so that no variable points git at another repository; only what reaches the network is
left (ssh and its agent, programs that ask for a password, proxies, certificates, the user's own configuration).
URLs are checked before (`remotes`) and stand behind `--`. What git says is shown without passwords.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from rover_store.errors import PackageError, RoverError, StoreError, UsageError
from rover_store.transfer.remotes import Place, without_secrets

#: variables that git and ssh need to reach a server; GIT_* that name repositories are not among them
_KEPT = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "SSH_AUTH_SOCK", "SSH_AGENT_PID",
    "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTP_PROXY",
    "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL", "GIT_ASKPASS", "SSH_ASKPASS", "GIT_SSH_COMMAND", "GIT_SSH",
})  # fmt: skip
#: every object that arrives is checked by git itself before it is kept; nothing runs by itself; no exotic transport
_SETTINGS = (
    "transfer.fsckObjects=true", "fetch.fsckObjects=true", "fetch.unpackLimit=1", "gc.auto=0", "maintenance.auto=false",
    "core.hooksPath=/dev/null", "protocol.allow=never", "protocol.http.allow=always", "protocol.https.allow=always",
    "protocol.ssh.allow=always", "protocol.git.allow=always", "protocol.file.allow=always", "submodule.recurse=false",
    "fetch.recurseSubmodules=false", "core.fsmonitor=false",
)  # fmt: skip


def heads(where: Place) -> tuple[dict[str, str], str | None]:
    """Refs of a place, and the branch that its HEAD names."""
    out = _git(None, "ls-remote", "--symref", "--", _url(where))
    refs: dict[str, str] = {}
    head = None
    for line in out.splitlines():
        left, _, name = line.partition("\t")
        if left.startswith("ref: ") and name == "HEAD":
            head = left.removeprefix("ref: ")
        elif not name.endswith("^{}") and name != "HEAD":
            refs[name] = left
    return refs, head


def fetch(git: Path, where: Place, specs: list[str]) -> None:
    """Fetch refs into a repository of our own. StoreError where git refuses an object, or the server answers badly."""
    _git(git, "fetch", "--no-tags", "--no-write-fetch-head", "--no-auto-gc", "--quiet", "--", _url(where), *specs)


def push(git: Path, where: Place, specs: list[str]) -> list[tuple[str, str, str]]:
    """Push refs. Returns for each: flag, `from:to` and what the server said; `!` is a refusal."""
    out = _git(git, "push", "--porcelain", "--no-verify", "--", _url(where), *specs, refused_is_data=True)
    rows = [line.split("\t") for line in out.splitlines()]
    return [(row[0].strip() or " ", row[1], row[2]) for row in rows if len(row) == 3]


def _url(where: Place) -> str:
    return where.url if where.git is None else str(where.git)


def _git(git: Path | None, *arguments: str, refused_is_data: bool = False) -> str:
    program = shutil.which("git")
    if program is None:
        raise StoreError("git is not installed, and a network needs it", hint="apt install git; folders work without")
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    where = ["--git-dir", str(git)] if git is not None else []
    environment = {k: v for k, v in os.environ.items() if k in _KEPT}
    environment.update({"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"})
    done = subprocess.run(
        [program, *settings, *where, *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, errors="replace", cwd="/",
    )  # fmt: skip
    if done.returncode and not (refused_is_data and "\t" in done.stdout):
        raise _trouble(done.stderr)
    return done.stdout


def _trouble(said: str) -> RoverError:
    """One line of what git said: the first that is a fault, else the last."""
    hostile = re.search(r"object ([0-9a-f]{40}): (\w+): ([^\n]*)", said)
    if hostile is not None:
        return PackageError(f"object {hostile[1]}", hostile[2], f"{hostile[3]}; refused")
    lines = [without_secrets(" ".join(line.split())) for line in said.splitlines() if line.strip()]
    worst = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1] if lines else "")
    text = worst.partition(": ")[2] if worst.startswith(("fatal:", "error:")) else worst
    if "does not appear to be a git repository" in said or "not found" in text.lower():
        return UsageError(f"git: {text[:300]}", hint="check the URL, and that you may read it")
    return StoreError(f"git: {text[:300] or 'failed without a word'}")
