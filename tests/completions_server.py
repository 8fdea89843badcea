"""A small server that speaks what vLLM speaks on /v1/completions, with a real model behind it; a stand-in to test
clients with. It shares no code with them: every request is one whole forward pass a token, sampled by torch.

    with CompletionsServer(model, "base") as server: server.url
    server.faults.append("503")    what the next request meets instead: 503, close, half, stall, nonsense; bytes, and
                                   the end of the connection; (status, JSON or text); ("drip", bytes, what follows
                                   again and again, seconds between) until the client or the server goes
    server.stop(); server.start()  it dies, and comes back on the same port
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch


class CompletionsServer:
    """`model` may be a PeftModel; then adapters can be loaded and unloaded by path."""

    def __init__(self, model: Any, name: str, context: int = 10_000) -> None:
        self.model = model
        self.name = name
        self.context = context
        self.adapters: dict[str, str] = {}
        self.faults: list[Any] = []
        self.takes_adapters = True
        self.requests: list[dict[str, Any]] = []
        #: most requests that were under way at the same time
        self.most = 0
        self.now = 0
        self.lock = threading.Lock()
        self.port = 0
        self._http: ThreadingHTTPServer | None = None
        self.links: set[socket.socket] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> CompletionsServer:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        owner = self

        class Handler(_Handler):
            server_of = owner

        self._http = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        """As if killed: adapters are forgotten, connections end."""
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._http = None
        for link in list(self.links):
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
        for name in list(self.adapters):
            self.unload(name)

    def load(self, name: str, path: str) -> None:
        self.model.load_adapter(path, adapter_name=name)
        self.adapters[name] = path

    def unload(self, name: str) -> None:
        del self.adapters[name]
        self.model.set_adapter("default")
        self.model.delete_adapter(name)

    def complete(self, ask: dict[str, Any]) -> dict[str, Any]:
        generator = torch.Generator().manual_seed(ask["seed"])
        ids, out, logprobs = list(ask["prompt"]), [], []
        with self.lock, torch.no_grad():
            if ask["model"] in self.adapters:
                self.model.set_adapter(ask["model"])
                return self._sample(ask, generator, ids, out, logprobs)
            if hasattr(self.model, "disable_adapter"):
                with self.model.disable_adapter():
                    return self._sample(ask, generator, ids, out, logprobs)
            return self._sample(ask, generator, ids, out, logprobs)

    def _sample(self, ask: Any, generator: Any, ids: list[int], out: list[int], logprobs: list[float]) -> Any:
        reason = "length"
        while len(out) < ask["max_tokens"]:
            logits = self.model(torch.tensor([ids])).logits[0, -1].float()
            if ask["temperature"] == 0:
                token = int(logits.argmax())
                spread = logits.log_softmax(-1)
            else:
                spread = (logits / ask["temperature"]).log_softmax(-1)
                token = int(torch.multinomial(spread.exp(), 1, generator=generator))
            ids.append(token)
            out.append(token)
            logprobs.append(float(spread[token]))
            if token in ask["stop_token_ids"]:
                reason = "stop"
                break
        choice = {"index": 0, "text": "", "token_ids": out, "logprobs": {"token_logprobs": logprobs}}
        return {"object": "text_completion", "choices": [{**choice, "finish_reason": reason}]}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of: CompletionsServer

    def setup(self) -> None:
        super().setup()
        self.server_of.links.add(self.connection)

    def finish(self) -> None:
        self.server_of.links.discard(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: object) -> None:
        return

    def do_GET(self) -> None:
        known = [self.server_of.name, *self.server_of.adapters]
        self._answer(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in known]})

    def do_POST(self) -> None:
        server = self.server_of
        ask = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.now += 1
            server.most = max(server.most, server.now)
            server.requests.append(ask)
            fault = server.faults.pop(0) if server.faults else ""
        try:
            self._fault(fault) if fault else self._serve(ask)
        finally:
            with server.lock:
                server.now -= 1

    def _serve(self, ask: dict[str, Any]) -> None:
        server = self.server_of
        if self.path.endswith("_lora_adapter") and not server.takes_adapters:
            self._answer(404, {"detail": "Not Found"})
        elif "unload" in self.path and ask["lora_name"] not in server.adapters:
            self._answer(404, {"error": {"message": f"The lora adapter {ask['lora_name']} cannot be found."}})
        elif self.path.endswith("_lora_adapter"):
            with server.lock:
                if "unload" in self.path:
                    server.unload(ask["lora_name"])
                else:
                    server.load(ask["lora_name"], ask["lora_path"])
            self._answer(200, "Success")
        elif ask["model"] not in (server.name, *server.adapters):
            self._answer(404, {"error": {"message": f"The model `{ask['model']}` does not exist."}})
        elif len(ask["prompt"]) + ask["max_tokens"] > server.context:
            said = f"This model's maximum context length is {server.context} tokens."
            self._answer(400, {"error": {"message": said}})
        else:
            self._answer(200, server.complete(ask))

    def _fault(self, fault: Any) -> None:
        if isinstance(fault, bytes):
            self.wfile.write(fault)
            self.close_connection = True
        elif isinstance(fault, tuple) and fault[0] == "drip":
            self._drip(*fault[1:])
        elif isinstance(fault, tuple):
            self._answer(*fault)
        elif fault == "503":
            self._answer(503, {"error": {"message": "busy"}})
        elif fault == "nonsense":
            self._answer(200, {"choices": [{"text": "hello"}]})
        else:
            if fault == "stall":
                self.rfile.read(1)  # until the client goes
            if fault == "half":
                self.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"choi')
            self.close_connection = True

    def _drip(self, first: bytes, again: bytes, pause_s: float) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.wfile.write(first)
            while not select.select([self.connection], [], [], pause_s)[0]:  # readable: the client went
                self.wfile.write(again)

    def _answer(self, status: int, value: Any) -> None:
        data = (value if isinstance(value, str) else json.dumps(value)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
