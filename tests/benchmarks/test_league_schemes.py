"""The table of all schemes: every one is a run that can be made, and what is printed is what was found with these settings."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import league_schemes
from league_schemes import GAMES, SCHEMES, Job, folder_of, key_of, settings_of, table

from shoal.api.experiment import Experiment
from shoal.program.expand import expand

SMALL = replace(
    GAMES["kuhn"],
    env={"id": "shoal/kuhn", "num_envs": 16},
    league={"freeze": {"steps": 500}, "keep": 4, "games": 10},
    steps=1_000,
)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("game", GAMES)
def test_every_scheme_is_a_run(game: str, scheme: str) -> None:
    program = expand(Experiment.parse(settings_of(GAMES[game], SCHEMES[scheme], 1)))
    assert (program.experiment.league is None) == (SCHEMES[scheme].match is None)


def keep(root: Path, job: Job, **figures: float) -> None:
    values = settings_of(GAMES[job.game], SCHEMES[job.scheme], job.seed)
    facts = {"key": key_of(values), "steps": 7_000, "core_minutes": 1.5, "members": 3, "date": "2026-11-18"}
    place = folder_of(root, job.game, job.scheme, job.seed)
    place.mkdir(parents=True)
    (place / "result.json").write_text(json.dumps({"last": 1.0, "uniform": 1.0, "mixture": 1.0, **facts, **figures}))


def test_the_table_is_of_each_schemes_own_answer(tmp_path: Path) -> None:
    for seed, (last, mixture) in enumerate([(0.3, 0.04), (0.3, 0.05)], 1):
        keep(tmp_path, Job("kuhn", "psro, nash", seed), last=last, mixture=mixture)
    keep(tmp_path, Job("kuhn", "uniform", 1), uniform=0.01)
    text, held = table(tmp_path, ["kuhn"], list(SCHEMES), [1, 2])
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert len(rows[0]) == len(rows[1]) == 9
    assert rows[2] == ["kuhn", "uniform", "members evenly", "0.010, -", "1.000", "0.010", "3", "7,000", "1.5"]
    assert rows[3] == ["kuhn", "psro, nash", "mixture", "0.040, 0.050", "0.300", "1.000", "3", "7,000", "1.5"]
    assert held == {"kuhn": True}
    assert table(tmp_path, ["kuhn"], ["uniform"], [1, 2])[1] == {"kuhn": False}, "a seed is missing"


def test_what_was_found_with_other_settings_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job("kuhn", "latest", 1)
    keep(tmp_path, job)
    assert job.result(tmp_path) is not None
    monkeypatch.setitem(GAMES, "kuhn", SMALL)
    assert job.result(tmp_path) is None


@pytest.mark.slow
def test_runs_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GAMES, "kuhn", SMALL)
    for scheme in ("self-play, entropy 0.1", "psro, nash"):
        league_schemes.train(tmp_path, "kuhn", scheme, 1)
        found = Job("kuhn", scheme, 1).result(tmp_path)
        assert found is not None
        assert 0.0 < found["last"] < 1.0
        assert (found["mixture"] is None) == (SCHEMES[scheme].match is None)
    started: list[Job] = []
    monkeypatch.setattr(Job, "start", lambda job, root, minutes: started.append(job))
    league_schemes.make([Job("kuhn", "psro, nash", 1)], tmp_path, 1.0, 2)
    assert started == []
