"""Agent programs for the contract suites: what they find, how one is played, what it left."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from chat_server import ChatServer
from packages import INSTRUCTION, NOTES, ORDERS, REPORT

from rover.harness.loop import Job, Played
from rover.harness.manifest import of_files
from rover.harness.program import play_program
from rover.policy.openai import Settings
from rover.policy.program import ProgramPolicy, Spec
from rover.sandbox.protocol import Sandbox
from rover_store.records import Budget, Harness, Limits, RolloutKey
from rover_store.trees import tree_id

AGENTS = Path(__file__).parent / "agents"
START = {"notes.md": NOTES, "orders.csv": ORDERS}
WRITE = f"cat > report.csv <<'END'\n{REPORT.decode()}END"
QUICK = Settings(request_s=1.0, retries=1, backoff_s=0.01)
#: asks the model once
ASK = """
import json, os, socket, subprocess, sys, time, urllib.error, urllib.request
def ask(body=None, path="/chat/completions", **more):
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **more} if body is None else body
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + path, data=data)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
def raw(data, wait=5):
    link = socket.create_connection(("127.0.0.1", int(os.environ["OPENAI_BASE_URL"].split(":")[2].split("/")[0])))
    link.settimeout(wait)
    got = b""
    try:
        link.sendall(data)
        while piece := link.recv(65536):
            got += piece
    except OSError:
        pass
    return got
"""


def job(limits: Limits | None = None, **budget: Any) -> Job:
    harness = Harness(tools=("shell",), limits=limits or Limits())
    key = RolloutKey(
        context="0" * 40, task="1" * 40, harness="2" * 40, policy="p", seed=7,
        budget=Budget(**{"seconds": 30.0, **budget}), runtime="r",
    )  # fmt: skip
    start = of_files(START)
    return Job(key, "orders", INSTRUCTION, harness, start, tree_id(start))


def python(script: str, *words: str) -> Spec:
    return Spec(("python3", "-S", "-c", ASK + script, *words))


def play(box: Sandbox, spec: Spec, *steps: Any, of: Job | None = None, **options: Any) -> tuple[Played, ChatServer]:
    """One rollout against a server that says these steps."""
    box.reset(START)
    with ChatServer(*(steps or ("Done.",))) as server:
        policy = ProgramPolicy(spec, model="served", server=server.url, key="secret", settings=QUICK, **options)
        return play_program(box, policy, of or job(), clock=time.monotonic), server


def contents(played: Played, tree: str) -> dict[str, str]:
    return {path: item.id[:8] for path, item in played.trees[tree].items()}
