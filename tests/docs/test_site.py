"""The built site in a real browser: no errors, no dead links, every image described, questions answered by its search."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, urldefrag, urljoin

import pytest

from tests.docs.pages import ROOT

pytest.importorskip("mkdocs", reason="the extra `docs`")
pytestmark = pytest.mark.slow

QUESTIONS = {
    "predict": ("tasks/use-a-policy", "coming-from/stable-baselines3"),
    "wandb": ("tasks/watch", "nouns/experiment"),
    "gpu": ("tasks/cpus-and-gpus",),
    "ppo learning rate": ("algorithms/actor_critic", "coming-from/"),
    "fragment": ("nouns/fragment",),
    "use trained policy in python": ("tasks/use-a-policy",),
    "resume": ("tasks/resume",),
    "mappo": ("algorithms/", "tutorial/team"),
    "your own environment": ("tasks/your-own-environment", "tutorial/your-own-game"),
    "slurm": ("tasks/slurm",),
    "video": ("tasks/rollout", "tasks/evaluate"),
    "self-play": ("tasks/many-policies", "algorithms/", "nouns/league", "tasks/evaluate"),
}
"""What a stranger types -> pages, one of which is among the first three that are found."""


class Page(HTMLParser):
    """What a crawler wants to know of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.undescribed: list[str] = []
        self.headings = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if found.get("id"):
            self.ids.add(str(found["id"]))
        for key in ("href", "src"):
            if found.get(key):
                self.links.append(str(found[key]))
        if tag == "img" and not found.get("alt"):
            self.undescribed.append(str(found.get("src")))
        self.headings += tag == "h1"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    quiet = {**os.environ, "PYTHONPATH": paths, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env=quiet)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


def test_no_link_is_dead_and_every_page_has_one_title_and_described_images(site: Path) -> None:
    pages = {path.relative_to(site).as_posix(): Page(path.read_text()) for path in site.rglob("*.html")}
    assert len(pages) > 80
    dead = []
    for name, page in pages.items():
        if name != "404.html":
            assert page.headings == 1, name
        assert not page.undescribed, name
        for link in page.links:
            target, anchor = urldefrag(urljoin(f"http://site/{name}", link))
            if not target.startswith("http://site/") or name == "404.html":
                continue
            path = target.removeprefix("http://site/")
            path = f"{path}index.html" if not path or path.endswith("/") else path
            if not (site / path).is_file() or (anchor and path in pages and anchor not in pages[path].ids):
                dead.append(f"{name}: {link}")
    assert not dead, "\n".join(dead)


@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_and_no_script_fails(browser: Any, address: str, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 844})
    troubles: list[str] = []
    page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    for name in ("", "concepts/", "recipes/", "tutorial/team/", "api/", "glossary/", "results/"):
        page.goto(address + name)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name
    page.close()
    assert not troubles


def test_a_stranger_finds_it(browser: Any, address: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    missed = []
    for question, wanted in QUESTIONS.items():
        page.goto(f"{address}?q={quote(question)}")
        page.wait_for_selector(".md-search-result__item", timeout=20_000, state="attached")
        links = page.eval_on_selector_all(
            ".md-search-result__item > a.md-search-result__link", "found => found.slice(0, 3).map(each => each.href)"
        )
        if not any(re.search(rf"^{re.escape(address)}{re.escape(part)}", link) for link in links for part in wanted):
            missed.append(f"{question}: {[link.removeprefix(address) for link in links]}")
    page.close()
    assert not missed, "\n".join(missed)
