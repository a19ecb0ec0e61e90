"""Whenever it dies: what a league knows is what its journal says, each match once, and the next life goes on from there."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.api.experiment import Experiment
from shoal.api.league import LIVE, MATCH, LeagueConfig
from shoal.base.faults import Fault, Faults
from shoal.checkpoints.store import CheckpointStore
from shoal.checkpoints.worker_state import state_of
from shoal.league.journal import Journal
from shoal.league.league import League
from shoal.league.payoffs import Payoffs
from shoal.league.schemes import scheme_of
from shoal.league.standings import Standings
from tests.workers.test_league import experiment, standings

CONFIG = LeagueConfig.parse({"match": "uniform", "freeze": {"steps": 100}, "keep": 3, "games": 4})
ROOT = Path(__file__).parents[2]
EVENTS = 30
"""Of a league's life, in the test of every write."""


def league(folder: Path, faults: Faults | None = None) -> League:
    """A life of it: reads the journal, and goes on."""
    journal = Journal(folder) if faults is None else Journal(folder, faults)
    journal.open()
    found = League(Standings(CONFIG, equal=True), scheme_of(CONFIG), journal)
    found.begin()
    found.thin(0)
    return found


def live_on(found: League, first: int) -> int:
    """Hear, freeze and look, from an event on that may be in the journal or not; the number of the one that it died in."""
    for number in range(first, EVENTS):
        try:
            if number % 5 == 0:
                if found.standings.newest(0) != (0, number // 5):  # a player is frozen once, whoever remembers it
                    found.freeze(0, number // 5, steps=100 * number, version=number, reason="it is time")
            elif found.matches < 10 * (number - number // 5):
                found.hear(matches(number))
            found.look(found.standings.pairs())
        except RuntimeError:
            return number
    return EVENTS


def matches(number: int) -> np.ndarray:
    dice = np.random.default_rng(number)
    made = np.zeros(10, MATCH)
    made["own"], made["member"] = LIVE, dice.integers(0, number // 5 + 1, 10)
    made["earned"] = dice.integers(-1, 2, 10)
    made["against"], made["episode"], made["slot"] = -made["earned"], np.arange(10), number
    return made


def known(found: League) -> tuple[object, ...]:
    """Members, payoffs and ratings, but for how sums were rounded."""
    found.count()
    now = found.standings
    points, games = (np.round(part, 9).tolist() for part in now.payoffs.of(now.held))
    return now.held, dict(now.frozen), found.matches, points, games, np.round(now.ratings().points, 9).tolist()


def test_it_may_die_before_every_write(tmp_path: Path) -> None:
    whole = league(tmp_path / "whole")
    assert live_on(whole, 0) == EVENTS
    assert len(whole.standings.held) == 3
    writes = whole.journal._writes
    assert writes > 30
    for write in range(1, writes + 1):
        folder = tmp_path / str(write)
        died = live_on(league(folder, Faults([Fault("league", "write", write, "raise")], "league", "league")), 0)
        assert died < EVENTS
        again = league(folder)
        assert live_on(again, died) == EVENTS
        assert known(again) == known(whole), f"killed before write {write}"
        read = league(folder)
        assert known(read) == known(again), "what grew piece by piece is what the journal says"
        places = read.journal.matches()[["slot", "episode"]]
        assert len(np.unique(places)) == len(places), "nothing is counted twice"


def test_who_should_begin_anew_does_so_in_the_next_life(tmp_path: Path) -> None:
    """Killed between the two: the member is there, and the player goes on from where it began, once."""
    config = LeagueConfig.parse({"match": {"name": "psro", "start": "cold", "solver": "uniform"}})

    def life() -> League:
        journal = Journal(tmp_path)
        journal.open()
        found = League(Standings(config, equal=True), scheme_of(config), journal)
        found.begin()
        return found

    first = life()
    first.freeze(0, 0, steps=0, version=0, reason="its first version")
    assert life().begin_late() == [], "the first version is the one that it was made as"
    first.freeze(0, 1, steps=10, version=1, reason="it is time")
    assert life().begin_late() == [0]
    assert life().begin_late() == []


# ---------------------------------------------------------------- whole runs


def settings(**more: Any) -> Experiment:
    return experiment(stop={"updates": 24}, checkpoint={"every": "2 updates"}, name="kuhn", **more)


ALONE = """
import os, signal, sys
import shoal
from shoal.league.journal import Journal
from tests.workers.test_league_crashes import settings

def strike(journal):
    journal._writes += 1
    if journal._writes == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)

Journal._strike = strike
shoal.train(settings(), trial="one", root=sys.argv[2], on="inline", quiet=True)
"""
"""A run of one process that is killed before a write of its journal."""


def resumed(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """The matches of which the checkpoint knew, and those of the run that went on from it."""
    store, journal = CheckpointStore(folder / "checkpoints"), Journal(folder / "league")
    kept = state_of(store.latest(), "league")
    assert kept is not None
    before = journal.matches()[: kept["matches"]]
    assert len(before) == kept["matches"], "what a checkpoint knew of was written"
    shoal.resume("kuhn", "one", root=folder.parents[1], on="inline", quiet=True)
    return before, journal.matches()


def check(folder: Path) -> None:
    config = experiment().league
    assert config is not None
    found = standings(folder, config)
    numbers = sorted(number for _, number in found.frozen)
    assert numbers == list(range(len(numbers)))
    assert len(found.held) == 3
    for _, number in found.frozen:
        assert (folder / "league" / f"main-{number}.safetensors").is_file()
    once = Payoffs()
    once.add(Journal(folder / "league").matches())
    assert (once.played == found.payoffs.played).all()


def kill_and_resume(tmp_path: Path, write: int) -> bool:
    """False: it ended before it came to that write."""
    words = [sys.executable, "-c", ALONE, str(write), str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    folder = tmp_path / "kuhn/one"
    if done.returncode and CheckpointStore(folder / "checkpoints").versions():
        before, after = resumed(folder)
        assert (after[: len(before)] == before).all()
        assert len(after) > len(before)
        check(folder)
    return done.returncode != 0


def test_a_whole_run_is_killed_and_goes_on(tmp_path: Path) -> None:
    assert kill_and_resume(tmp_path, 40)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_whole_run_is_killed_at_every_write(tmp_path: Path) -> None:
    writes = 1
    while kill_and_resume(tmp_path / str(writes), writes):
        writes += 1
    print(f"killed at each of {writes - 1} writes")
    assert writes > 50


ROLES = ["league@write=15:kill", "trainer@update=5:kill"]
MORE = [
    "actor-0@step=300:kill",
    "actor-1@step=300:kill",
    "league@write=40:kill,league@write=3:kill",
    "league@step=40:kill",
]


def kill_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    monkeypatch.setenv("SHOAL_FAULT", fault)
    folder = shoal.train(settings(placement={"actors": 2}), root=tmp_path, on="local", quiet=True).folder
    assert "was started again" in (folder / "events.jsonl").read_text()
    check(folder)
    matches = Journal(folder / "league").matches()
    trained = matches[matches["measured"] == 0]
    if not fault.startswith("actor"):  # one that dies counts its episodes anew
        assert len(np.unique(trained[["slot", "episode"]])) == len(trained)


@pytest.mark.parametrize("fault", ROLES)
def test_each_role_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    kill_role(tmp_path, monkeypatch, fault)


@pytest.mark.slow
@pytest.mark.parametrize("fault", MORE)
def test_the_others_are_killed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    kill_role(tmp_path, monkeypatch, fault)
