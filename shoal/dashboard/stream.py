"""Server-sent events: what changed in, lines of text out, once a second. A page that comes back says where it was."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

BETWEEN = 1.0
"""Seconds between two looks."""
SILENCE = 10.0
"""Seconds after which a line is sent in any case, so that both sides know of each other."""
MOST = 64
"""Streams at a time."""

Event = tuple[str, Any, str]
"""Its kind, its data, and where the page is after it: what comes back as `Last-Event-ID`."""
Changes = Callable[[str], Iterator[Event]]
"""What there is to tell a page that was last at this place; empty: it knows nothing yet."""


@dataclass
class Streams:
    """All that are open. `closing`: the server is about to end, and so do they."""

    closing: Callable[[], bool] = lambda: False
    open: int = field(default=0, init=False)

    def respond(self, request: Request, changes: Changes) -> Response:
        """A stream for one page."""
        if self.open >= MOST:
            return PlainTextResponse("too many pages are open: close some", 503)
        place = request.headers.get("last-event-id", "")[:200]
        return StreamingResponse(
            self._lines(request, changes, place), media_type="text/event-stream", headers={"cache-control": "no-store"}
        )

    async def _lines(self, request: Request, changes: Changes, place: str) -> AsyncIterator[bytes]:
        self.open += 1
        said_at = time.monotonic()
        try:
            yield b"retry: 1000\n\n"
            while not self.closing() and not await request.is_disconnected():
                events = await run_in_threadpool(_listed, changes, place)
                for kind, data, place in events:
                    said_at = time.monotonic()
                    yield encode(kind, data, place)
                if time.monotonic() - said_at > SILENCE:
                    said_at = time.monotonic()
                    yield b": still here\n\n"
                await asyncio.sleep(BETWEEN)
        finally:
            self.open -= 1


def _listed(changes: Changes, place: str) -> list[Event]:
    return list(changes(place))


def encode(kind: str, data: Any, place: str) -> bytes:
    """One event. JSON has no line breaks of its own, so its data is one line."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return f"id: {place}\nevent: {kind}\ndata: {text}\n\n".encode()
