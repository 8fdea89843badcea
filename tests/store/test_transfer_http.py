"""Over HTTP with git's own server program: clone, push, a refusal for want of a password, and no password shown."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from store_samples import add, edit, git, new_store
from test_evidence import _recorded

from rover_store.errors import RoverError
from rover_store.store import Store
from rover_store.transfer import remotes
from rover_store.transfer.transfer import clone, pull, push


class _Backend(BaseHTTPRequestHandler):
    """`git http-backend` behind a path; below /private it asks for a password."""

    root: Path

    def handle_git(self) -> None:
        path, _, query = self.path.partition("?")
        if path.startswith("/private") and not self.headers.get("Authorization"):
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = self._body()
        env = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.root), "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path.removeprefix("/private"), "QUERY_STRING": query, "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "REMOTE_USER": "someone",
            "HTTP_GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "HOME": str(self.root),
            "GIT_CONFIG_NOSYSTEM": "1",
        }  # fmt: skip
        done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=True)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in {**fields, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = handle_git  # noqa: N815

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        out = b""
        while size := int(self.rfile.readline(), 16):
            out += self.rfile.read(size)
            self.rfile.readline()
        return out

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on stderr."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    handler = type("Backend", (_Backend,), {"root": tmp_path})
    (tmp_path / ".gitconfig").write_text("[safe]\n\tdirectory = *\n[http]\n\treceivepack = true\n")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_address[1]}"
        http.shutdown()
        thread.join()


def test_over_http(tmp_path: Path, server: str) -> None:
    store = new_store(tmp_path / "source")
    add(store, "one")
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "shared.git")
    remotes.add(store, "origin", f"{server}/shared.git")
    push(store)
    clone(f"{server}/private/shared.git".replace("//", "//me:secret@"), tmp_path / "bob")
    bob = Store.open(tmp_path / "bob")
    assert bob.packages() == store.packages()
    edit(bob, "one", {"task/instruction.md": b"Bob."})
    push(bob)
    assert pull(store).merged.status == "fast-forward"
    with pytest.raises(RoverError) as caught:
        clone(f"{server}/private/shared.git", tmp_path / "cem")
    assert "Username" in caught.value.message  # nobody is asked: there may be no one
    wrong = f"{server}/private/nothing.git".replace("//", "//me:secret@")
    with pytest.raises(RoverError) as caught:
        clone(wrong, tmp_path / "cem")
    assert "secret" not in caught.value.message
    assert (store.fsck(), bob.fsck()) == ([], [])


def test_what_only_the_evidence_holds_travels_to_the_packages(tmp_path: Path, server: str) -> None:
    store = new_store(tmp_path / "source")
    add(store, "one")
    store.evidence.put([_recorded(1, "one", b"Written by an agent first.\n")])
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "shared.git")
    remotes.add(store, "origin", f"{server}/shared.git")
    push(store, evidence=True)
    clone(f"{server}/shared.git", tmp_path / "bob", evidence=True)
    bob = Store.open(tmp_path / "bob")
    edit(store, "one", {"task/instruction.md": b"Written by an agent first.\n"})
    push(store)
    git(tmp_path / "shared.git", "repack", "-adbq")  # with bitmaps a server leaves out all that the other side has
    assert pull(bob).merged.status == "fast-forward"
    assert bob.fsck() == []
    git(bob.git, "fsck", "--full", "--strict")
