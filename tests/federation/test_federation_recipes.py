"""Recipes of federations, to their bars: parent and children as people start them, on one machine."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from shoal.recipes import find
from tests.federation.ends import Federation, command


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("recipe", ["cartpole-a4q", "lunarlander-a4c"])
def test_two_children_reach_the_bar(tmp_path: Path, recipe: str) -> None:
    text = find(recipe).read_text()
    bar = float(re.findall(r"return: (\d+)", text)[-1])
    made = Federation(tmp_path, "anna", "bert", recipe=text + "name: toy\n")
    try:
        parent, children = made.parent(), [made.child(name) for name in ("anna", "bert")]
        assert parent.ends(1700) == 0, parent.why()
        assert f"stop.return = {bar:g} reached" in parent.why()
        for child in children:
            assert child.ends(60) == 0, child.why()
        stopped = next(event for event in parent.lines("events.jsonl") if event["kind"] == "stop")
        done = command(tmp_path, "evaluate", str(parent.folder), "--episodes", "100", "--json")
        score = json.loads(done.stdout)["mean_return"]
        print(f"{recipe}: {score:.1f} after {stopped['steps']:,} steps")
        assert score >= bar - 5, "on other seeds than those that confirmed it"
    finally:
        made.close()
