"""Who is let in, and what everybody else gets: requests made by hand, by a real browser, and by chance."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import socket
from pathlib import Path
from typing import Any

import made_runs
import pytest

from shoal.base.errors import InputError

pytest.importorskip("starlette", reason="an extra: pip install 'shoal[dashboard]'")
from shoal.dashboard.serve import Listening, Server

SECRET = "the-secret-outside"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A run, and beside the folder what nobody may read."""
    folder = tmp_path / "runs"
    run = made_runs.make_run(folder, "cart", "a")
    (run / "logs").mkdir()
    (run / "logs" / "local.log").write_text("hello\n")
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "secret.log").write_text(SECRET)
    os.symlink(tmp_path / "secret.log", run / "logs" / "linked.log")
    os.symlink(tmp_path, folder / "up")
    return folder


def ask(
    dashboard: Any, path: str, method: str = "GET", *, cookie: str | None = "own", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """One request, as written."""
    connection = http.client.HTTPConnection("127.0.0.1", dashboard.port, timeout=10)
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    if cookie == "own":
        cookie = dashboard.server._door.cookie.partition(";")[0]
    if cookie:
        sent["Cookie"] = cookie
    try:
        connection.putrequest(method, path, skip_host="Host" in sent)
        for key, value in sent.items():
            connection.putheader(key, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def test_the_token_lets_in_once_and_the_cookie_from_then_on(root: Path, dashboard: Any) -> None:
    shown = dashboard(root)
    for path in (
        "/",
        "/api/runs/match?words=",
        "/static/app.js",
        "/run/cart/a",
        "/api/run/cart/a/logs/local.log",
        "/population/x",
    ):
        assert ask(shown, path, cookie=None)[0] == 401
        assert ask(shown, path, cookie=f"shoal_{shown.port}=wrong")[0] == 401
        assert ask(shown, path + ("&" if "?" in path else "?") + "token=wrong", cookie=None)[0] == 401
        assert ask(shown, path)[0] == 200
    token = shown.url.partition("token=")[2]
    status, headers, _ = ask(shown, f"/run/cart/a?q=x&token={token}", cookie=None)
    assert (status, headers["location"]) == (303, "/run/cart/a?q=x"), "the token leaves the address"
    assert "HttpOnly" in headers["set-cookie"]
    assert "SameSite=Strict" in headers["set-cookie"]
    assert ask(shown, "/", cookie=headers["set-cookie"].partition(";")[0])[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1:1",
        "",
        "localhost.evil.example:{port}",
        "127.0.0.2:{port}",
        "a:b:c",
    ],
)
def test_another_name_gets_nothing(root: Path, dashboard: Any, host: str) -> None:
    """A name that somebody points at us, DNS rebinding, has the cookie of nobody; but even with it."""
    shown = dashboard(root)
    status, _, body = ask(shown, "/", Host=host.format(port=shown.port))
    assert status in (400, 421)
    assert b"<html" not in body
    assert ask(shown, "/", Host=f"localhost:{shown.port}")[0] == 200


def test_headers(root: Path, dashboard: Any) -> None:
    shown = dashboard(root)
    for path, cookie in (
        ("/", "own"),
        ("/", None),
        ("/nowhere", "own"),
        ("/api/run/cart/a/curves?metric=time/fps", "own"),
    ):
        _, headers, _ = ask(shown, path, cookie=cookie)
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers


@pytest.mark.parametrize(
    "wrong",
    [
        {"Origin": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"X_Shoal_Order": ""},
        {"Sec_Fetch_Site": "cross-site"},
    ],
)
def test_orders_come_from_the_page_alone(root: Path, dashboard: Any, wrong: dict[str, str]) -> None:
    shown = dashboard(root, control=True)
    right = {"Origin": shown.base, "X_Shoal_Order": "1", "Sec_Fetch_Site": "same-origin"}
    status, _, body = ask(shown, "/api/run/cart/a/order?order=pause", "POST", **right)
    assert (status, b"is not running" in body) == (400, True), "it got as far as the run, which has ended"
    sent = {key: value for key, value in {**right, **wrong}.items() if value}
    assert ask(shown, "/api/run/cart/a/order?order=pause", "POST", **sent)[0] == 403
    assert ask(shown, "/api/run/cart/a/order?order=pause", **right)[0] == 405


def test_no_orders_unless_they_are_allowed(root: Path, dashboard: Any) -> None:
    shown = dashboard(root)
    status, _, body = ask(shown, "/api/run/cart/a/order?order=stop", "POST", Origin=shown.base, X_Shoal_Order="1")
    assert (status, body) == (400, b"this page only shows: start it with --control to give orders")


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/%2e%2e/cli/app.py",
        "/static//etc/passwd",
        "/static/%00",
        "/api/run/cart/a/logs/..%2f..%2f..%2f..%2fsecret.txt",
        "/api/run/cart/a/logs/../../../../secret.txt",
        "/api/run/cart/a/logs/linked.log",
        "/api/run/..%2f/a/logs",
        "/api/run/up/runs/logs",
        "/api/run/../secret.txt/logs",
        "/api/run/cart/a/videos/..%2flogs%2flocal.log",
        "/api/run/cart/a/logs/local.log%00.txt",
        "/api/run/cart/a/videos/config.yaml",
        "/api/run/%2e%2e/%2e%2e/stream",
        "/api/run/cart/a/logs/%5c..",
        "/api/population/..%2f/curves",
        "/api/population/%2e%2e/stream",
        "/api/population/up/curves",
    ],
)
def test_traversal(root: Path, dashboard: Any, path: str) -> None:
    shown = dashboard(root)
    status, _, body = ask(shown, path)
    assert status in (200, 400, 404)
    assert SECRET.encode() not in body
    assert b"root:" not in body
    assert b"import" not in body
    if status == 200:
        assert json.loads(body) == [], "an empty list of nothing"


def test_huge_headers_and_queries(root: Path, dashboard: Any) -> None:
    shown = dashboard(root)
    assert ask(shown, "/", X_Long="x" * 20_000)[0] == 200
    assert ask(shown, f"/?q={'x' * 10_000}")[0] == 414
    for text in (b"GET / HTTP/1.1\r\nX: " + b"x" * 300_000, b"GET /" + b"x" * 300_000, b"\r\n" * 100_000):
        place = ("127.0.0.1", shown.port)
        with contextlib.suppress(OSError), socket.create_connection(place, timeout=5) as raw:
            raw.sendall(text)  # it hangs up, perhaps before it has heard all
            raw.shutdown(socket.SHUT_WR)
            assert b"200" not in raw.recv(4096)[:20]
    assert ask(shown, "/")[0] == 200, "it goes on"


METHODS = ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "X" * 300, "G\x00T"]
PIECES = [
    "..",
    "%2e%2e",
    "/",
    "//",
    "%2f",
    "run",
    "api",
    "cart",
    "a",
    "up",
    "logs",
    "local.log",
    "linked.log",
    "secret.txt",
    "static",
    "curves",
    "stream2",
    "videos",
    "settings2",
    "?metric=time/fps",
    "&from=1&to=nan",
    "?from=x",
    "?search=%ff",
    "%00",
    "\\",
    "é",
    "?run=cart/a",
    "?words=lr>1",
    "compare",
    "band",
    "order?order=stop",
    "watch",
    "frame",
    "?token=",
    "#",
    ";",
    "%",
    "?x=" + "9" * 400,
    "\t",
    "proc",
    "self",
    "environ",
    "etc",
    "passwd",
]
HEADERS = [
    "Host: evil",
    "Origin: null",
    "Cookie: shoal=1",
    "Range: bytes=9-1",
    "Range: bytes=-",
    "Last-Event-ID: 1.2.3",
    "Content-Length: -1",
    "Content-Length: 9999999999",
    "Transfer-Encoding: chunked",
    "X: " + "y" * 3000,
    "Sec-Fetch-Site: cross-site",
    "Accept: */*",
    ": empty",
    "Expect: 100-continue",
    "Upgrade: websocket",
    "X-Shoal-Order: 1",
]


PATIENCE = 0.5
"""Seconds for an answer."""


def made_up(dice: random.Random, shown: Any) -> bytes:
    path = "/" + "/".join(dice.choices(PIECES, k=dice.randrange(6)))
    lines = [f"{dice.choice(METHODS)} {path} HTTP/1.{dice.randrange(3)}", *dice.choices(HEADERS, k=dice.randrange(4))]
    if dice.random() < 0.9:
        lines.insert(1, f"Host: 127.0.0.1:{shown.port}")
    if dice.random() < 0.7:
        lines.insert(1, f"Cookie: {shown.server._door.cookie.partition(';')[0]}")
    raw = "\r\n".join([*lines, "Connection: close", "", ""]).encode("utf-8")
    if dice.random() < 0.2:
        place = dice.randrange(len(raw))
        raw = raw[:place] + bytes(dice.randrange(256) for _ in range(dice.randrange(20))) + raw[place:]
    return raw


def fuzz(shown: Any, requests: int, seed: int) -> dict[str, int]:
    """Answers by their status; what is never answered is hung up on."""
    dice, counts = random.Random(seed), dict[str, int]()
    for _ in range(requests):
        raw = made_up(dice, shown)
        with socket.create_connection(("127.0.0.1", shown.port), timeout=PATIENCE) as connection:
            answer = b""
            with contextlib.suppress(ConnectionError, TimeoutError):  # a request without an end is waited for
                connection.sendall(raw)
                while part := connection.recv(65536):
                    answer += part
        assert SECRET.encode() not in answer, raw
        assert b"root:x" not in answer, raw
        assert b"Traceback" not in answer, raw
        status = answer[9:12].decode(errors="replace") if answer.startswith(b"HTTP/1.1 ") else "none"
        counts[status] = counts.get(status, 0) + 1
    return counts


def test_requests_by_chance(root: Path, dashboard: Any) -> None:
    shown = dashboard(root)
    counts = fuzz(shown, 500, seed=1)
    assert {"200", "401", "404"} <= counts.keys(), counts
    assert counts.get("500", 0) == 0, counts
    assert ask(shown, "/api/runs/match?words=")[2] == b'{"runs":["cart/a"],"error":null}', "it goes on"


@pytest.mark.slow
def test_ten_thousand_requests_by_chance(root: Path, dashboard: Any) -> None:
    shown = dashboard(root)
    counts = fuzz(shown, 10_000, seed=2)
    print(counts)
    assert counts.get("500", 0) == 0, counts
    assert ask(shown, "/api/runs/match?words=")[2] == b'{"runs":["cart/a"],"error":null}'


def test_another_site_in_the_same_browser_gets_nothing(root: Path, dashboard: Any, browser: Any) -> None:
    """A page of another origin, open beside ours, which has our cookie: it can neither read nor give orders nor frame us."""
    shown, evil = dashboard(root, control=True), dashboard(root)
    context = browser.new_context()
    page = context.new_page()
    page.goto(shown.url)
    assert page.locator("h1").inner_text() == "Runs"
    other = context.new_page()
    other.goto(evil.url.replace("127.0.0.1", "localhost"))
    target = f"http://127.0.0.1:{shown.port}"
    script = """async (target) => {
        const order = "/api/run/cart/a/order?order=stop", credentials = "include";
        const tries = [["/api/runs/match", {credentials}], [order, {method: "POST", credentials}],
                       [order, {method: "POST", mode: "no-cors", credentials}]];
        const out = [];
        for (const [path, how] of tries) {
            try { const r = await fetch(target + path, how); out.push(r.type + r.status); } catch (e) { out.push("refused"); }
        }
        return out;
    }"""
    assert other.evaluate(script, target) == ["refused"] * 3, "already its own policy forbids it"
    bare = context.new_page()  # without a policy of its own, as any site may be
    bare.set_content(f"<img src='{target}/static/icon.svg'><iframe src='{target}/'></iframe>")
    answers = [
        ask(shown, "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors")[0],
        bare.evaluate(script, target)[0],
    ]
    assert answers == [403, "refused"]
    assert not bare.frames[-1].url.startswith(target) or "Runs" not in bare.frames[-1].content()
    context.close()


def test_beyond_this_machine_only_encrypted_or_knowingly(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--tls-cert and --tls-key, or --insecure"):
        Server(tmp_path, Listening(address="0.0.0.0", port=0))
    with pytest.raises(InputError, match="belong together"):
        Server(tmp_path, Listening(cert=tmp_path / "x"))
    with pytest.raises(InputError, match="there is no file"):
        Server(tmp_path, Listening(cert=tmp_path / "x", key=tmp_path / "y"))
    with pytest.raises(InputError, match="there is no folder"):
        Server(tmp_path / "none", Listening(port=0))
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InputError, match="choose another --port"):
        Server(tmp_path, Listening(port=taken.getsockname()[1]))
