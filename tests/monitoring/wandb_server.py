"""As much of a server of Weights & Biases as its client asks for: it keeps the history of each run, and may want a run to stop."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ME = {"id": "e", "name": "me"}


class WandbServer(ThreadingHTTPServer):
    """On a free port of the loopback."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.history: dict[str, list[dict[str, Any]]] = {}
        """Run -> its rows, by their place in W&B's own file."""
        self.buckets: dict[str, dict[str, Any]] = {}
        """Run -> what was said of it."""
        self.exits: list[int] = []
        self.stop = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that leave without a word are none."""

    def answer(self, operation: str, variables: dict[str, Any]) -> dict[str, Any]:
        run = str(variables.get("name"))
        if operation == "Viewer":
            flags = {"flags": "{}", "teams": {"edges": []}}
            return {"viewer": {"id": "v", "entity": "me", "username": "me", "email": "me@example.org", **flags}}
        if operation == "RunResumeStatus":
            return {"model": {"id": "m", "name": variables["project"], "entity": ME, "bucket": self._bucket(run)}}
        if operation == "UpsertBucket":
            said = {key: value for key, value in variables.items() if value is not None}
            known = self.buckets.setdefault(run, {})
            known |= said
            project = {"id": "p", "name": known["project"], "entity": ME}
            bucket = {
                "id": "b",
                "name": run,
                "displayName": known.get("displayName"),
                "config": "{}",
                "project": project,
            }
            lines = len(self.history.get(run, []))
            return {"upsertBucket": {"bucket": {**bucket, "historyLineCount": lines}, "inserted": lines == 0}}
        if operation == "CreateRunFiles":
            files = [{"name": name, "uploadUrl": f"{self.url}/upload/{name}"} for name in variables["files"]]
            return {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": files}}
        return {}

    def _bucket(self, run: str) -> dict[str, Any] | None:
        if run not in self.history:
            return None
        lines = self.history[run]
        counts = {"historyLineCount": len(lines), "eventsLineCount": 0, "logLineCount": 0}
        tail = {"historyTail": json.dumps([json.dumps(lines[-1])]), "eventsTail": "[]"}
        known = {"summaryMetrics": "{}", "config": "{}", "tags": [], "wandbConfig": json.dumps({"t": {}})}
        return {"id": "b", "name": run, **known, **counts, **tail}

    def take(self, run: str, said: dict[str, Any]) -> None:
        """A part of W&B's own files."""
        part = said.get("files", {}).get("wandb-history.jsonl")
        if part is not None:
            rows = self.history.setdefault(run, [])
            rows[part["offset"] :] = map(json.loads, part["content"])
        if "exitcode" in said:
            self.exits.append(said["exitcode"])


class _Handler(BaseHTTPRequestHandler):
    server: WandbServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Not on stderr."""

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._reply({})

    def do_POST(self) -> None:
        said = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if self.path == "/graphql":
            operation = re.search(r"(?:query|mutation)\s+(\w+)", said["query"])
            assert operation is not None
            self._reply({"data": self.server.answer(operation[1], said.get("variables") or {})})
        else:
            self.server.take(self.path.split("/")[-2], said)
            self._reply({"stopped": True} if self.server.stop else {})

    def _reply(self, document: dict[str, Any]) -> None:
        raw = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


@contextmanager
def wandb_server() -> Iterator[WandbServer]:
    with WandbServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.05])
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
