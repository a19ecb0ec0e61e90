"""A dashboard, and a real browser that looks at it. Without Debian's chromium the pages are not looked at, and say so."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

if TYPE_CHECKING:
    from shoal.dashboard.serve import Server

CHROMIUM = shutil.which("chromium")


@dataclass
class Dashboard:
    """A server in a thread of its own."""

    root: Path
    control: bool = False
    port: int = 0
    server: Server = field(init=False)

    def start(self) -> None:
        from shoal.dashboard.serve import Listening, Server

        self.server = Server(self.root, Listening(port=self.port), control=self.control)
        self.port = int(self.base.rpartition(":")[2])
        self._thread = threading.Thread(target=self.server.run)
        self._thread.start()

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def base(self) -> str:
        return self.server.url.partition("/?")[0]

    def stop(self) -> float:
        """How long it took."""
        began = time.monotonic()
        self.server.stop()
        self._thread.join(10)
        assert not self._thread.is_alive()
        return time.monotonic() - began


@pytest.fixture
def dashboard(tmp_path: Path) -> Iterator[Any]:
    """Call it with a folder, and whether it takes orders."""
    pytest.importorskip("starlette", reason="an extra: pip install 'shoal[dashboard]'")
    started: list[Dashboard] = []

    def start(root: Path, *, control: bool = False) -> Dashboard:
        found = Dashboard(root, control)
        found.start()
        started.append(found)
        return found

    yield start
    for each in started:
        each.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: it is in the extra `dev`")
    if CHROMIUM is None:
        pytest.skip("no chromium: make system-packages installs it")
    with playwright.sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Visit:
    """A page, and all that it complained about or asked others for."""

    page: Any
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def text(self, selector: str) -> str:
        return str(self.page.locator(selector).first.inner_text())

    def until(self, condition: str, seconds: float = 15.0) -> None:
        """Until it holds. The page's own policy keeps Playwright from waiting inside it."""
        deadline = time.monotonic() + seconds
        while not self.page.evaluate(condition):
            assert time.monotonic() < deadline, f"it never happens: {condition}"
            self.page.wait_for_timeout(50)

    def fits(self) -> bool:
        """Nothing sticks out to the right."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


@pytest.fixture
def visit(browser: Any) -> Iterator[Any]:
    """Call it with a dashboard: a page that was let in. In the end nobody may have complained."""
    contexts, visits = [], []

    def open_(dashboard: Dashboard, path: str = "/", *, width: int = 1280, dark: bool = False) -> Visit:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        found = Visit(context.new_page())
        visits.append(found)
        found.page.on("console", lambda said: said.type in ("error", "warning") and found.errors.append(said.text))
        found.page.on("pageerror", lambda error: found.errors.append(str(error)))
        found.page.on(
            "request",
            lambda asked: asked.url.startswith((dashboard.base, "data:")) or found.foreign.append(asked.url),
        )
        found.page.goto(dashboard.url)
        if path != "/":
            found.page.goto(dashboard.base + path)
        return found

    yield open_
    for context in contexts:
        context.close()
    for each in visits:
        assert not each.errors, each.errors
        assert not each.foreign, f"a page asks nobody but its own server: {each.foreign}"
