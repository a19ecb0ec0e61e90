"""A population in the browser: ended, dead and live; members, lineage and curves; and that its journal is read below ROOT alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import made_runs
import pytest

pytest.importorskip("starlette", reason="an extra: pip install 'shoal[dashboard]'")

from shoal.dashboard.below import Root
from shoal.dashboard.population_record import PopulationRecord
from shoal.dashboard.runs_index import RunsIndex
from shoal.population.journal import Journal
from tests.dashboard.test_dashboard_pages import NASTY
from tests.population.small import values

RATES = [0.01, 0.001, 0.0001]
MIDDLE, END = 30 * 2048, 60 * 2048


def make_population(root: Path, *, over: str | None = "all members have ended") -> Path:
    """Three members, of which the last takes over from the first half way; as a population would leave them."""
    folder = root / "pond"
    folder.mkdir(parents=True)
    (folder / "population.yaml").write_text("env: {id: CartPole-v1}\npopulation: {members: 3}\n")
    journal = Journal(folder / "journal.jsonl")
    journal.open()
    journal.append("begun", time="2026-01-01T00:00:00+00:00", seconds=0.0)
    for number, lr in enumerate(RATES):
        made_runs.make_run(root, "pond", f"m{number}", seed=number, lr=lr, end="stop.steps = 122,880 reached")
        journal.append("member", member=f"m{number}", words=[], values={"algorithm.lr": lr}, reason="drawn")
    for number in range(3):
        turn(journal, f"m{number}", MIDDLE, 300.0 - 100 * number)
    old, new = RATES[2], 0.012
    copied = {
        "kind": "copied", "member": "m2", "origin": "m0", "version": 30, "steps": MIDDLE, "order": 0,
        "reason": f"100.00 against 300.00 {NASTY}", "scores": [{"steps": MIDDLE, "mean": 300.0, "returns": []}],
    }  # fmt: skip
    changed = {
        "kind": "changed", "member": "m2", "values": {"algorithm.lr": new}, "steps": MIDDLE, "words": [],
        "reason": "a step away", "changes": {"algorithm.lr": [old, new]},
    }  # fmt: skip
    journal.append("compared", number=0, steps=MIDDLE, decisions=[copied, changed])
    journal.append("taken", member="m2")
    journal.append("failed", member="m1", reason="it broke")
    for name, mean in (("m0", 420.0), ("m2", 480.0)):
        turn(journal, name, END, mean, over=True)
    if over is not None:
        journal.append("over", reason=over, seconds=61.0)
    journal.close()
    return folder


def turn(journal: Journal, member: str, steps: int, mean: float, *, over: bool = False) -> None:
    journal.append("started", member=member, until=steps)
    returns = [mean - 10, mean, mean + 10]
    journal.append(
        "turn", member=member, over=over, reason="turn ended", steps=steps, version=steps // 2048, trained=MIDDLE,
        score={"mean": mean, "returns": returns}, core_seconds=1.5, slot_seconds=1.0, swap_seconds=0.1, process=1,
    )  # fmt: skip


def test_an_ended_population(tmp_path: Path, dashboard: Any, visit: Any) -> None:
    make_population(tmp_path)
    made_runs.make_run(tmp_path, "cart", "alone")
    shown = dashboard(tmp_path)
    seen = visit(shown)
    page = seen.page
    page.wait_for_selector("tr.run >> nth=3")
    assert page.locator("tr.run a:has-text('population')").count() == 3, "not of the one that is alone"
    page.click("tr.run a:has-text('population') >> nth=0")
    page.wait_for_selector("table.members tbody tr >> nth=2")
    main = page.locator("main").inner_text()
    assert "population-based training · 3 members" in main
    assert "all members have ended" in main
    rows = page.locator("table.members tbody tr")
    assert [text.split()[0] for text in rows.all_inner_texts()] == ["m2", "m0", "m1"], "by score"
    assert "468.69 to 491.32" in (first := rows.first.inner_text()).replace("\n", " ") or "468.7 to 491.3" in first
    assert "0.012" in first
    assert "m0 at 61.4 k" in first
    assert "failed" in rows.nth(2).inner_text()
    page.wait_for_selector(".chart canvas")
    page.wait_for_selector(".chips span >> nth=2")
    assert sorted(page.locator(".chips span").all_inner_texts()) == ["m0", "m1", "m2"]
    assert page.locator(".lineage .branch").count() == 4
    assert page.locator(".lineage .copy").count() == 1
    assert page.locator(".lineage .fate.failed").count() == 1
    table = page.locator("table.decisions tbody tr")
    assert table.nth(1).inner_text().split("\t")[1:3] == ["m2", "took over from m0"]
    assert f"100.00 against 300.00 {NASTY}" in table.nth(1).inner_text(), "text stays text"
    assert "lr 0.0001 → 0.012" in table.nth(1).inner_text()
    page.select_option("select[aria-label=Metric]", "train/loss")
    seen.until("document.querySelector('.chart h3').textContent === 'train/loss'")
    page.click("th button:has-text('member')")
    assert page.evaluate("document.activeElement.textContent") == "member", "and the keyboard stays there"
    assert rows.first.inner_text().startswith("m0")
    page.focus("table.members tbody a >> nth=0")
    page.wait_for_selector(".lineage g.dim")
    page.keyboard.press("Enter")
    page.wait_for_url("**/run/pond/m0")
    page.click("#crumbs a[href='/population/pond']")  # once it is known to be a member
    page.wait_for_url("**/population/pond")


@pytest.mark.parametrize("dark", [False, True])
def test_a_dead_population_on_a_narrow_screen(tmp_path: Path, dashboard: Any, visit: Any, dark: bool) -> None:
    make_population(tmp_path, over=None)
    seen = visit(dashboard(tmp_path), "/population/pond", width=380, dark=dark)
    seen.page.wait_for_selector(".lineage text")
    seen.page.wait_for_selector(".chart canvas")
    assert seen.fits()
    assert seen.text(".head .pill") == "died"
    assert "go on with --resume" in seen.page.locator("main").inner_text()
    assert seen.page.evaluate("document.documentElement.dataset.theme") == ("dark" if dark else "light")


@pytest.mark.slow
def test_a_live_population_to_its_end(tmp_path: Path, dashboard: Any, visit: Any) -> None:
    root = tmp_path / "runs"
    root.mkdir()
    (tmp_path / "rates.yaml").write_text(json.dumps(values(stop={"steps": 10**9}, sweep={"seeds": 2})))
    argv = [sys.executable, "-m", "shoal.cli", "sweep", "rates.yaml", "--parallel", "1"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(argv, cwd=tmp_path, env=environment, **quiet)  # type: ignore[call-overload]
    try:
        shown = dashboard(root)
        seen = visit(shown)
        page = seen.page
        page.wait_for_selector("tr.run a:has-text('population')", timeout=60_000)
        page.goto(f"{shown.base}/population/rates")
        page.wait_for_selector(".slot a:has-text('seed-1')", timeout=30_000)
        assert seen.text(".head .pill") == "running"
        states = "[...document.querySelectorAll('table.members .pill')].map((each) => each.textContent).sort().join()"
        assert page.evaluate(states) == "running,waiting"
        steps = "document.querySelector('.slot .small').textContent"
        before = page.evaluate(steps)
        seen.until(f"{steps} !== {before!r}")
        process.send_signal(signal.SIGINT)
        page.wait_for_selector(".head .pill.done", timeout=30_000)
        assert seen.text(".head .pill") == "interrupted"
        assert not page.locator(".slot").first.is_visible()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def test_a_journal_elsewhere_or_of_nobody_is_not_shown(tmp_path: Path) -> None:
    outside, inside = make_population(tmp_path / "outside"), make_population(tmp_path / "runs")
    root = Root(tmp_path / "runs")
    index = RunsIndex(root)
    record = PopulationRecord(root, "pond")
    record.look()
    assert record.head(index)["best"]["member"] == "m2"
    (inside / "journal.jsonl").unlink()
    os.symlink(outside / "journal.jsonl", inside / "journal.jsonl")
    linked = PopulationRecord(root, "pond")
    linked.look()
    assert linked.head(index)["members"] == 0
    (inside / "journal.jsonl").unlink()
    (inside / "journal.jsonl").write_text('{"kind": "turn"}\n' * 3)
    damaged = PopulationRecord(root, "pond")
    damaged.look()
    assert "is damaged at line 1" in damaged.head(index)["trouble"]
    (inside / "journal.jsonl").unlink()
    journal = Journal(inside / "journal.jsonl")
    journal.open()
    journal.append("member", member=["m0"], words=7, reason=None)  # whole, and of nobody
    journal.close()
    strange = PopulationRecord(root, "pond")
    strange.look()
    assert strange.head(index)["trouble"]
    assert strange.members(index) == []
    (inside / "population.yaml").unlink()
    with pytest.raises(FileNotFoundError):
        PopulationRecord(root, "pond").look()
    root.close()
