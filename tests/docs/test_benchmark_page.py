"""The page of benchmarks: its tables and its image follow from what was measured."""

from __future__ import annotations

import importlib.util
import json
import xml.etree.ElementTree as Xml
from typing import Any

import pytest

from tests.docs.pages import DOCS, ROOT

SPEED = {
    "machine": {"when": "2026-01-02 03:04", "cores": 2, "cpu": "a processor", "load": 0.1},
    "settings": {"num_envs": 16, "unroll": 128, "minibatch": 256, "epochs": 4},
    "repeats": 3,
    "parts": {"env": 1e-6, "inference": 2e-6, "autograd": 3e-6, "by_hand": None},
    "limits": {"autograd": 40_000.0},
    "sweep": {"peer, slow": {"rate": 1.0}},
    "results": {
        name: [{"rate": rate, "cpu": 5.0, "rss": 3e6, "pss": 2e6, "version": "1.0"} for rate in rates]
        for name, rates in {"shoal, inline": (10_000.0, 20_000.0, 30_000.0), "peer, fast": (4_000.0,) * 3}.items()
    },
}


@pytest.fixture(scope="module")
def script() -> Any:
    """`docs/images/benchmarks.py`, by path: `benchmarks` is the name of a folder too."""
    spec = importlib.util.spec_from_file_location("benchmark_page", DOCS / "images" / "benchmarks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_place_is_filled_and_others_stay(script: Any) -> None:
    page = (
        "before\n<!-- measured: cartpole_ppo -->\nold\n<!-- end -->\n<!-- measured: solve -->\nas it is\n<!-- end -->\n"
    )
    filled = script.fill(page, {"cartpole_ppo": SPEED})
    assert "old" not in filled
    assert "as it is" in filled
    assert "| shoal, inline | 20,000 (10,000 to 30,000) | 5 (5 to 5) | 3 | 2 | 50.0% |" in filled
    assert script.fill(filled, {"cartpole_ppo": SPEED}) == filled


def test_replay_has_a_table_of_its_own(script: Any) -> None:
    runs = [
        {"adds": adds, "rounds": rounds, "version": "1.0"} for adds, rounds in ((10.0, 7.0), (3000.0, 5.0), (20.0, 6.0))
    ]
    asked = {"capacity": 1_000_000, "copies": 64, "batch": 512}
    document = {"machine": SPEED["machine"], "settings": asked, "repeats": 3, "results": {"shoal, numpy": runs}}
    filled = script.fill("<!-- measured: replay -->\n<!-- end -->\n", {"replay": document})
    assert "1,000,000 transitions, 64 at once, rounds of 512; 3 repeats in turns. shoal: 1.0." in filled
    assert "| shoal, numpy | 20 (10 to 3,000) | 6 (5 to 7) |" in filled


def test_dqn_shows_how_much_was_trained(script: Any) -> None:
    names = ("num_envs", "unroll", "updates", "batch", "target_every", "capacity")
    asked = dict(zip(names, (16, 8, 4, 128, 100, 50_000), strict=True))
    results = {name: [{**run, "trained": 4.04} for run in runs] for name, runs in SPEED["results"].items()}
    document = {**SPEED, "settings": asked, "results": results}
    filled = script.fill("<!-- measured: cartpole_dqn -->\n<!-- end -->\n", {"cartpole_dqn": document})
    assert "16 copies, 4 updates of 128 rows after every 8 steps" in filled
    assert "| shoal, inline | 20,000 (10,000 to 30,000) | 5 (5 to 5) | 3 | 2 | 4.0 |" in filled


def test_updates_are_compared_with_their_limit(script: Any) -> None:
    names = ("num_envs", "unroll", "updates", "batch", "target_every", "capacity")
    asked = dict(zip(names, (8, 4, 8, 32, 250, 10_000), strict=True))
    runs = [{**run, "updates": run["rate"] / 400, "trained": 8.04} for run in SPEED["results"]["shoal, inline"]]
    parts, sweep = {"env": 5e-4, "inference": 2e-4, "update": 0.03}, {"peer, slow": {"updates": 7.25}}
    document = {**SPEED, "settings": asked, "parts": parts, "sweep": sweep, "limits": {"autograd": 100.0}}
    filled = script.fill(
        "<!-- measured: pong_dqn -->\n<!-- end -->\n", {"pong_dqn": {**document, "results": {"shoal": runs}}}
    )
    assert "| shoal | 50.0 (25.0 to 75.0) | 50.0% | 20,000 (10,000 to 30,000) | 3 | 2 | 8.0 |" in filled
    assert "The limit is 100.0 updates/s;" in filled
    assert "env 0.50, inference 0.20, update 30.00" in filled
    assert "in updates/s: peer, slow 7.2." in filled


def test_bars_are_as_long_as_their_medians(script: Any) -> None:
    picture = Xml.fromstring(script.draw({"cartpole_ppo": SPEED}))
    _, ours, theirs = (float(shape.attrib["width"]) for shape in picture.iter("{http://www.w3.org/2000/svg}rect"))
    assert ours / theirs == pytest.approx(5.0, rel=0.01)


def test_the_page_shows_what_was_measured(script: Any) -> None:
    paths = {path.stem: path for path in (ROOT / "benchmarks" / "results").glob("*.json")}
    assert set(paths) <= set(script.TITLES)
    documents = {name: json.loads(paths[name].read_text()) for name in script.TITLES if name in paths}
    page = (DOCS / "benchmarks.md").read_text()
    assert all(f"<!-- measured: {name} -->" in page for name in script.TITLES)
    assert script.fill(page, documents) == page
    assert script.draw(documents) == (DOCS / "images" / "benchmarks.svg").read_text()
