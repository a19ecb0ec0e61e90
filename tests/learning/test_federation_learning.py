"""A parent and three children on loopback: the bar is reached with all three."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shoal.recipes import find
from tests.federation.ends import Federation, command


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_three_children_reach_the_bar(tmp_path: Path) -> None:
    made = Federation(tmp_path, "anna", "bert", "carl", recipe=find("cartpole-a4c").read_text() + "name: toy\n")
    try:
        parent = made.parent("evaluation.every=5s", "federation.every=10 updates")
        children = [made.child(name, "federation.every=10 updates") for name in ("anna", "bert", "carl")]
        assert parent.ends(800) == 0, parent.why()
        assert "stop.return = 475 reached" in parent.why()
        rows = parent.lines("metrics.jsonl")
        assert max(row.get("federation/children", 0) for row in rows) == 3
        done = command(made.place, "evaluate", str(parent.folder), "--episodes", "100", "--json")
        print(parent.why().splitlines()[-2], done.stdout)
        assert json.loads(done.stdout)["mean_return"] >= 475
        for child in children:
            child.ends(60)
    finally:
        made.close()
