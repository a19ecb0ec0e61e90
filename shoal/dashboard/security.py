"""Who may see the page: requests in, refusals out, or answers with the headers that keep a browser on our side.

Whoever has the address that the command printed is let in once, and gets a cookie. Everything else needs that cookie: pages,
data, scripts. A request under a foreign name is refused before that, so a name that was pointed at us (DNS rebinding) gets
nothing; an order must come from our own page, by its origin and by a header that no other site can send.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from shoal.base.files import plain_file, private_folder, read_small

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

ORDER_HEADER = b"x-shoal-order"
"""Only a script of our own page can send it."""
DAYS = 7
"""For which a cookie is good, over restarts of the server."""
MOST_QUERY = 4096
"""Bytes of a query."""
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::(\d{1,5}))?")


class Door:
    """What a start of the server lets in: its token, its cookie, and the names it goes by."""

    def __init__(self, root: Path, port: int, names: Iterable[str], *, tls: bool, any_address: bool = False) -> None:
        self.token = secrets.token_urlsafe(24)
        self.cookie_name = f"shoal_{port}"
        self._secret = hmac.new(_lasting_secret(), f"{root}\n{port}".encode(), hashlib.sha256).hexdigest()
        self._port, self._tls, self._any_address = port, tls, any_address
        self._names = {name.lower() for name in names}

    @property
    def cookie(self) -> str:
        """The header that sets it."""
        secure = "; Secure" if self._tls else ""
        return f"{self.cookie_name}={self._secret}; HttpOnly; SameSite=Strict; Path=/; Max-Age={DAYS * 86400}{secure}"

    def knows(self, authority: str) -> bool:
        """Whether we go by this `Host`: a name of ours, and our port. An address cannot be pointed elsewhere, so any may do."""
        found = _AUTHORITY.fullmatch(authority)
        if found is None or int(found[2] or (443 if self._tls else 80)) != self._port:
            return False
        return found[1].lower() in self._names or (self._any_address and _is_address(found[1]))

    def origin(self, authority: str) -> str:
        """What our own page has for an origin."""
        return f"{'https' if self._tls else 'http'}://{authority}"

    def opens(self, token: str) -> bool:
        """The token of this start."""
        return hmac.compare_digest(token.encode(), self.token.encode())

    def remembers(self, cookies: str) -> bool:
        """The cookie is among those that were sent."""
        pairs = (part.strip().partition("=") for part in cookies.split(";"))
        return any(
            name == self.cookie_name and hmac.compare_digest(value.encode(), self._secret.encode())
            for name, _, value in pairs
        )


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _lasting_secret() -> bytes:
    """Of this user and machine, so that an open page survives a restart of the server; made anew when it is old."""
    path = private_folder("shoal-dashboard") / "secret"
    try:
        if time.time() - path.stat().st_mtime < DAYS * 86400 and len(secret := read_small(path)) == 32:
            return secret
    except OSError:
        pass
    secret = secrets.token_bytes(32)
    temporary = path.with_name(f".secret.{os.getpid()}")
    with open(temporary, "wb", opener=plain_file) as file:
        file.write(secret)
    os.replace(temporary, path)
    return secret


class Guard:
    """Stands before the app."""

    def __init__(self, app: App, door: Door) -> None:
        self._app, self._door = app, door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, _with_headers(send))
            return
        status, text, headers = refusal
        raw = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]
        raw += [(name.encode(), value.encode()) for name, value in headers.items()]
        send = _with_headers(send)
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": f"{text}\n".encode()})

    def _refusal(self, scope: Scope) -> tuple[int, str, dict[str, str]] | None:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        authorities = headers.get(b"host", [])
        authority = authorities[0].decode("latin-1") if len(authorities) == 1 else ""
        if not self._door.knows(authority):
            return 421, "this page does not go by that name", {}
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "GET and POST only", {"allow": "GET, HEAD, POST"}
        if len(scope.get("query_string", b"")) > MOST_QUERY:
            return 414, "that is too long", {}
        site = _one(headers, b"sec-fetch-site")
        mode = _one(headers, b"sec-fetch-mode")
        if site not in ("", "same-origin", "none") and mode != "navigate":
            return 403, "only the page itself may ask", {}
        query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))
        if "token" in query and scope["method"] == "GET" and self._door.opens(query.pop("token")):
            rest = f"?{urlencode(query)}" if query else ""
            path = "/" + scope["path"].lstrip("/\\")
            place = f"{path}{rest}" if path.isprintable() and path.isascii() else "/"
            return 303, "welcome", {"location": place, "set-cookie": self._door.cookie}
        if not self._door.remembers("; ".join(part.decode("latin-1") for part in headers.get(b"cookie", []))):
            return 401, "open the address that `shoal dashboard` printed: it holds the token of this start", {}
        if scope["method"] == "POST":
            if _one(headers, b"origin") != self._door.origin(authority):
                return 403, "orders come from the page itself", {}
            if ORDER_HEADER not in headers:
                return 403, "orders come from the page's own scripts", {}
        return None


def _one(headers: dict[bytes, list[bytes]], name: bytes) -> str:
    found = headers.get(name, [])
    return found[0].decode("latin-1") if len(found) == 1 else "" if not found else "several"


def _with_headers(send: Send) -> Send:
    added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *added]}
        await send(message)

    return wrapped
