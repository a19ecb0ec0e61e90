"""The dashboard and the alert rules that are shipped: made by code, answered by a real Prometheus, checked by promtool."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.cli.grafana import FOLDER
from tests.monitoring.watching import NO_PROMETHEUS, NO_PROMTOOL, prometheus, training, until

ROOT = Path(__file__).parents[2]
RULES, RULE_TESTS = FOLDER / "alert-rules.yaml", Path(__file__).with_name("alert_rules_test.yaml")


def panels() -> list[dict[str, Any]]:
    """All that show something."""
    board = json.loads((FOLDER / "dashboard.json").read_text())
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def test_the_dashboard_is_what_the_code_makes() -> None:
    pytest.importorskip("grafana_foundation_sdk", reason="for developers")
    code = "import grafana_dashboard; print(grafana_dashboard.make(), end='')"
    made = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "tools", capture_output=True, text=True, check=True)
    assert made.stdout == (FOLDER / "dashboard.json").read_text(), "run tools/grafana_dashboard.py"


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    board = json.loads((FOLDER / "dashboard.json").read_text())
    for place in (panel["gridPos"] for panel in board["panels"]):
        rows, columns = range(place["y"], place["y"] + place["h"]), range(place["x"], place["x"] + place["w"])
        cells = {(y, x) for y in rows for x in columns}
        assert not cells & taken
        assert columns.stop <= 24
        taken |= cells


@pytest.mark.parametrize(("options", "name"), [([], "dashboard.json"), (["--rules"], "alert-rules.yaml")])
def test_the_command_prints_them(options: list[str], name: str) -> None:
    argv = [sys.executable, "-m", "shoal.cli", "grafana", *options]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout == (FOLDER / name).read_text()


RUNS = (
    ("connect-four", "env.num_envs=16", "evaluation={every: 2s, episodes: 4, against: [random]}"),
    ("cartpole-dqn", "stop.steps=null", "stop.return=null"),
)
"""Together they have all that a panel may show: policies, opponents, scores, replay."""


@NO_PROMETHEUS
@pytest.mark.timeout(180)
def test_every_panel_has_data(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client", reason="an extra: prometheus")
    words = [(*run, "stop.seconds=150", "--trial", "live") for run in RUNS]
    with prometheus(tmp_path, "500ms") as server, training(tmp_path, *words[0]), training(tmp_path, *words[1]):
        until(lambda: len(server.query("rate(shoal_updates_total[3s]) > 0")) == 2, "both runs learn")
        until(lambda: server.query("shoal_evaluation_win_ratio"), "a version was evaluated")
        until(lambda: server.query("shoal_memory_bytes"), "memory was measured")
        expressions = {
            f"{panel['title']}, {target['refId']}": target["expr"] for panel in panels() for target in panel["targets"]
        }
        found = {
            title: server.query(expression.replace("$instance", ".*").replace("$__rate_interval", "3s"))
            for title, expression in expressions.items()
        }
    assert len(found) >= 30
    assert not [title for title, series in found.items() if not series]
    runs = {"connect-four/live", "cartpole-dqn/live"}
    assert {series["metric"]["run"] for series in found["Steps per second, A"]} == runs
    ratios = found["Games won, A"] + found["Disk free, A"] + found["Waiting, A"] + found["Sample rings, A"]
    assert all(0 <= float(series["value"][1]) <= 1 for series in ratios)
    update, since = found["Seconds per update, A"][0], found["Since the last update, A"][0]
    assert 0 < float(update["value"][1]) < 60
    assert -1 < float(since["value"][1]) < 60


# ---------------------------------------------------------------- alerts


def promtool(*words: str, cwd: Path) -> None:
    done = subprocess.run(["promtool", *words], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr


@NO_PROMTOOL
def test_the_rules_are_sound(tmp_path: Path) -> None:
    promtool("check", "rules", str(RULES), cwd=tmp_path)


@NO_PROMTOOL
def test_each_alert_fires_when_it_should(tmp_path: Path) -> None:
    shutil.copy(RULES, tmp_path)
    shutil.copy(RULE_TESTS, tmp_path)
    promtool("test", "rules", RULE_TESTS.name, cwd=tmp_path)


def test_each_alert_is_tested() -> None:
    alerts = [rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    fired = {
        case["alertname"]
        for test in yaml.safe_load(RULE_TESTS.read_text())["tests"]
        for case in test["alert_rule_test"]
        if case["exp_alerts"]
    }
    assert fired == set(alerts)
