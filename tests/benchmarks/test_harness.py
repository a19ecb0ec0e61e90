"""What the harness does around its children: meter them and what they start, keep the best of a sweep."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import harness
from harness import ChildError, Side, metered, repeated, swept
from meter import Meter, descendants
from speed import least, limits_of
from updates import limit_of

BURN = "import time; hoard = bytearray(60_000_000)\nwhile time.process_time() < 1.0: pass"


def test_the_meter_counts_children_of_children() -> None:
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}], check=True)"
    _, meter = metered([sys.executable, "-c", parent])
    spent = [seconds for _, seconds in meter.cpu]
    assert spent == sorted(spent)
    assert 0.5 < spent[-1] < 5.0
    assert 60e6 < meter.pss <= meter.rss < 1e9


def test_nobody_outlives_the_meter() -> None:
    leaver = "import subprocess; subprocess.Popen(['sleep', '60'], start_new_session=True)"
    before = {seen.pid for seen in descendants(os.getpid())}
    with Meter(patience=0.5):
        subprocess.run([sys.executable, "-c", leaver], check=True)
    assert {seen.pid for seen in descendants(os.getpid())} <= before


def test_an_order_to_end_takes_everyone_along() -> None:
    begin = "from meter import Meter; import subprocess"
    script = f"{begin}\nwith Meter(0.2): print(subprocess.Popen(['sleep', '60']).pid, flush=True); input()"
    folder = str(Path(harness.__file__).parent)
    with subprocess.Popen([sys.executable, "-c", script], cwd=folder, stdin=-1, stdout=-1, text=True) as outer:
        assert outer.stdout is not None
        sleeper = Path(f"/proc/{int(outer.stdout.readline())}")
        assert sleeper.exists()
        outer.terminate()
        assert outer.wait(20.0) == 143
    assert not sleeper.exists()


def test_a_child_that_fails_says_why() -> None:
    with pytest.raises(ChildError, match="no such thing"):
        metered([sys.executable, "-c", "raise SystemExit('no such thing')"])
    with pytest.raises(ChildError, match="not done after 1 s"):
        metered([sys.executable, "-c", "import time; time.sleep(60)"], timeout=1.0)


RATES = {"shoal, a": 1.0, "shoal, b": 9.0, "peer, slow": 2.0, "peer, fast": 5.0, "other, only": 3.0}


def side(name: str) -> Side:
    return Side(name, name.partition(",")[0], sys.executable, "none.py")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who was measured; a side without a rate fails."""
    names: list[str] = []

    def measure(side: Side, settings: dict[str, Any]) -> dict[str, Any]:
        names.append(side.name)
        if side.name not in RATES:
            raise ChildError("it does not run")
        return {"rate": RATES[side.name]}

    monkeypatch.setattr(harness, "measure", measure)
    return names


def test_the_fastest_of_a_sweep_is_kept(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    kept, runs = swept([side(name) for name in (*RATES, "peer, broken")], {})
    assert [each.name for each in kept] == ["shoal, a", "shoal, b", "peer, fast", "other, only"]
    assert asked == ["peer, slow", "peer, fast", "peer, broken"]
    assert set(runs) == {"peer, slow", "peer, fast"}
    assert "peer, broken left out: it does not run" in capsys.readouterr().out


def test_runs_take_turns(asked: list[str]) -> None:
    results = repeated([side("shoal, a"), side("peer, broken"), side("peer, fast")], {}, repeats=2)
    assert asked == ["shoal, a", "peer, broken", "peer, fast", "shoal, a", "peer, fast"]
    assert {name: len(runs) for name, runs in results.items()} == {"shoal, a": 2, "peer, fast": 2}
    with pytest.raises(ChildError):
        repeated([side("shoal, broken")], {}, repeats=1)


def test_limits_by_the_ways_to_train() -> None:
    first = {"env": 2e-6, "inference": 1e-6, "decision": 3e-6, "autograd": 9e-6, "by_hand": None}
    parts = least(first, {**first, "env": 4e-6, "autograd": 7e-6})
    assert parts == {**first, "autograd": 7e-6}
    assert limits_of(parts, passes=1) == {"autograd": pytest.approx(harness.cores() / 10e-6)}
    quick = limits_of({**parts, "decision": 0.5e-6, "by_hand": 1e-6}, passes=2)
    assert quick["autograd"] == pytest.approx(harness.cores() / 17e-6)
    assert quick["by_hand"] == pytest.approx(harness.cores() / 4.5e-6)


LEARNER = """import json, time
began = time.time()
steps = [(began + i, 40 * i) for i in range(12)]
print(json.dumps({"points": steps, "updates": [(t, n / 4) for t, n in steps], "version": "1"}))
time.sleep(0.6)
"""


def test_who_replays_is_judged_by_updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "peers").mkdir()
    (tmp_path / "peers" / "learner.py").write_text(LEARNER)
    monkeypatch.setattr(harness, "HERE", tmp_path)
    run = harness.measure(Side("peer, a", "peer", sys.executable, "learner.py"), {"batch": 32})
    assert run["rate"] == pytest.approx(40.0)
    assert run["updates"] == pytest.approx(10.0)
    assert run["trained"] == pytest.approx(8.0)


def test_every_update_has_its_steps_beside_it() -> None:
    settings = {"num_envs": 8, "unroll": 4, "updates": 8, "cores": 2}
    most = limit_of({"env": 0.5e-3, "inference": 0.25e-3, "update": 17e-3}, settings)
    assert most == pytest.approx(2 / 20e-3)  # 4 steps of 0.75 ms, and an update
