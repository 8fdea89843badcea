"""What doctor says of this machine and of model servers, working and not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from boxes import make

from rover.cli.main import run
from rover.ops import doctor
from rover.ops.doctor import Finding, Report


@contextmanager
def serving(status: int, body: bytes) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_doctor_on_a_machine_that_works(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    make("bubblewrap").close()
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert run(["doctor", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["works"] is True
    states = {finding["topic"]: finding["state"] for finding in said["findings"]}
    assert states["sandbox bubblewrap"] == "ok"
    assert states["sandbox local"] == "note"
    assert states["python"] == "ok"
    assert states["model server"] == "note"
    assert said["sandbox"] == "bubblewrap"
    found = next(f for f in said["findings"] if f["topic"] == "sandbox bubblewrap")
    assert "hard memory ceiling" in found["unmet"]
    assert "what auto takes" in found["text"]


def test_only_a_failure_counts() -> None:
    assert Report((Finding("a", "ok", ""), Finding("b", "warn", ""), Finding("c", "note", ""))).works
    assert not Report((Finding("a", "ok", ""), Finding("b", "fail", ""))).works


def test_disk_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert "GiB free" in doctor.disk(tmp_path / "a" / "b").text


def test_a_server_that_answers() -> None:
    with serving(200, b'{"data": [{"id": "small"}, {"id": "large"}]}') as base:
        assert doctor.server(base, "key") == Finding("model server", "ok", f"{base}: 2 models: small, large")


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [(500, b"", "answers 500"), (401, b"{}", "answers 401"), (200, b"<html>", "Expecting value"), (200, b"[]", "list")],
)
def test_a_server_that_does_not(status: int, body: bytes, said: str) -> None:
    with serving(status, body) as base:
        finding = doctor.server(base, "")
    assert finding.state == "warn"
    assert said in finding.text


def test_a_server_that_is_not_there() -> None:
    assert "refused" in doctor.server("http://127.0.0.1:9/v1", "").text
    assert "not an http address" in doctor.server("file:///etc/passwd", "").text
