"""The built site in a real browser: no errors, no dead links, every image described, questions answered by its search."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.docs.crawler import CONTRAST, NOWHERE, dead_links, read, troubles
from tests.docs.pages import ROOT

pytest.importorskip("mkdocs", reason="the extra `docs`")

WIDTHS = (1280, 390)
FRONT = ("", "recipes/", "glossary/")
"""Looked at by make test; make test-slow looks at all of them."""
KINDS = (
    "",
    "recipes/",
    "tutorial/five-minutes/",
    "tasks/command-line/",
    "algorithms/actor_critic/",
    "api/",
    "results/",
)
"""One of each kind of page: code, tables, cards, figures."""
QUESTIONS = {
    "how do I use my trained policy in Python?": ("tasks/use-a-policy",),
    "how do I log to W&B?": ("tasks/watch",),
    "what is a fragment?": ("nouns/fragment",),
    "how many GPUs can I use?": ("tasks/cpus-and-gpus",),
    "how do I train in my own environment?": ("tasks/your-own-environment",),
    "how do I resume a run?": ("tasks/resume",),
    "how does self-play work?": ("tasks/self-play",),
    "how do I train on a Slurm cluster?": ("tasks/slurm",),
    "hyper-parameter sweep": ("tasks/sweep", "tasks/tune"),
    "how do I record a video of my agent?": ("tasks/rollout",),
    "ppo learning rate": ("algorithms/actor_critic", "coming-from/"),
    "how do I write my own algorithm?": ("tasks/your-own-algorithm",),
    "predict": ("tasks/use-a-policy", "coming-from/stable-baselines3"),
    "wandb": ("tasks/watch", "nouns/experiment"),
    "gpu": ("tasks/cpus-and-gpus",),
    "mappo": ("algorithms/", "tutorial/team"),
}
"""What a stranger types -> pages, one of which is among the first three that are found."""
ASKED = list(QUESTIONS)[:3]
"""By make test."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build(folder)
    return folder


def build(folder: Path, **settings: str) -> None:
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    quiet = {**os.environ, "PYTHONPATH": paths, "NO_MKDOCS_2_WARNING": "1", **settings}
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env=quiet)
    assert done.returncode == 0, done.stderr


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


def look(browser: Any, address: str, names: list[str], width: int) -> None:
    """Nothing sticks out, no script fails, nothing is missing, nobody else is asked."""
    page = browser.new_page(viewport={"width": width, "height": 844})
    found: list[str] = []
    page.on("console", lambda said: found.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("response", lambda answer: found.append(f"{answer.status} {answer.url}") if answer.status >= 400 else None)
    page.on("request", lambda asked: None if asked.url.startswith((address, "data:")) else found.append(asked.url))
    for name in names:
        page.goto(address + name)
        if not page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"):
            found.append(f"{name} is wider than {width}")
    page.close()
    assert not found, "\n".join(found)


def missed(browser: Any, address: str, questions: list[str]) -> list[str]:
    """Questions whose answer is not among the first three pages that are found."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    without = []
    for question in questions:
        page.goto(f"{address}?q={quote(question)}")
        page.wait_for_selector(".md-search-result__item", timeout=60_000, state="attached")
        links = page.eval_on_selector_all(
            ".md-search-result__item", "found => found.slice(0, 3).map(each => each.querySelector('a').href)"
        )
        wanted = [re.escape(address + part) for part in QUESTIONS[question]]
        if not any(re.match(part, link) for link in links for part in wanted):
            without.append(f"{question}: {[link.removeprefix(address).partition('?')[0] for link in links]}")
    page.close()
    return without


def test_the_site_is_whole(site: Path, request: pytest.FixtureRequest) -> None:
    """Without a browser the last part is skipped, and says so."""
    page = (site / "algorithms/actor_critic/index.html").read_text()
    assert "How far the new policy may move" in page
    assert "train/clip_fraction" in page
    pages = read(site)
    assert len(pages) > 80
    assert not (dead := dead_links(site, pages)), "\n".join(dead)
    assert not (found := troubles(pages)), "\n".join(found)
    browser, address = request.getfixturevalue("browser"), request.getfixturevalue("address")
    for width in WIDTHS:
        look(browser, address, list(FRONT), width)
    assert not (without := missed(browser, address, ASKED)), "\n".join(without)


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_fits_and_no_script_fails(browser: Any, site: Path, address: str, width: int) -> None:
    names = [name.removesuffix("index.html") for name in read(site) if name != NOWHERE]
    look(browser, address, names, width)


@pytest.mark.slow
def test_a_stranger_finds_it(browser: Any, address: str) -> None:
    assert not (without := missed(browser, address, list(QUESTIONS))), "\n".join(without)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_read(browser: Any, address: str, scheme: str) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    faint = []
    for name in KINDS:
        page.goto(address + name)
        faint += [f"{name}: {each}" for each in page.evaluate(CONTRAST)]
    context.close()
    assert not faint, "\n".join(faint)


@pytest.mark.slow
def test_the_repository_is_linked_where_it_is_said(tmp_path: Path) -> None:
    build(tmp_path, SHOAL_REPOSITORY="https://repository.example/shoal")
    assert 'href="https://repository.example/shoal"' in (tmp_path / "tutorial/team/index.html").read_text()
