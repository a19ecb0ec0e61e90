"""Games against named opponents: who plays which side, what counts as won, and that no game is replayed unsaid."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from scipy import stats

from shoal.api.evaluation import Match, Scores, Tally, wilson_interval
from shoal.api.experiment import Experiment
from shoal.base.errors import InputError
from shoal.evaluation.evaluator import Watch
from shoal.evaluation.opponents import Past, joined, plies_of, spread
from shoal.evaluation.recorder import Record, Recorder
from shoal.evaluation.seating import make_evaluator, make_matches
from shoal.evaluation.sides import sides_of
from shoal.program.expand import expand
from shoal.rollout.plans import Plans
from shoal.streams.primitives import Mailbox
from shoal.streams.transports.memory import MemoryMailbox

PAST = {
    "agents": {"player_0": "learner", "*": "rival"},
    "policies": {"learner": {}, "rival": {"past": {"of": "learner"}}},
}


def experiment(**sections: Any) -> Experiment:
    tree: dict[str, Any] = {
        "env": {"id": "shoal/connect-four", "num_envs": 4}, "model": {"name": "mlp", "hidden": [8]},
        "algorithm": {"name": "ppo", "unroll": 8, "minibatch": 16},
    }  # fmt: skip
    return Experiment.parse({**tree, **sections})


def play(
    against: list[str], episodes: int, *, plies: int | None = None, past: Past | None = None, explore: bool = False,
    **sections: Any,
) -> tuple[Scores, list[Record]]:  # fmt: skip
    """Networks as they begin, against one opponent or more; what was played is recorded."""
    program = expand(experiment(**sections), against=against)
    plans, records = Plans(program), list[Record]()
    mailboxes: dict[str, Mailbox] = {name: MemoryMailbox(plan.algorithm.flat.nbytes, 1) for name, plan in plans.items()}
    for name, mailbox in mailboxes.items():
        mailbox.publish(0, plans[name].algorithm.flat.block.numpy())
    watch, steps = Watch(1, min(episodes, 16), explore=explore, thoughts=False), plies_of(program, plies)
    if against:
        players: Any = make_matches(program, plans, mailboxes, episodes, watch, past=past or {}, plies=steps)
    else:
        players = make_evaluator(program, plans, mailboxes, episodes, watch, plies=steps)
    with closing(players):
        seats = players.first.seats
        recorder = Recorder(players.env, seats, episodes, records.append, scored=list(plans))
        scores = players.evaluate(episodes, seed=7, watcher=recorder if len(against) < 2 else None)
    return scores, sorted(records, key=lambda record: record.number)


def moves(record: Record) -> tuple[int, ...]:
    acting, action = record.arrays["player/acting"], record.arrays["player/action"]
    return tuple(action[acting].tolist())


# ---------------------------------------------------------------- what counts as won


@pytest.mark.parametrize(("wins", "trials"), [(0, 5), (5, 5), (1, 1), (50, 100), (97, 100), (1, 1000)])
def test_the_interval_is_wilsons(wins: int, trials: int) -> None:
    expected = stats.binomtest(wins, trials).proportion_ci(0.95, method="wilson")
    assert wilson_interval(wins, trials) == pytest.approx((expected.low, expected.high), abs=1e-6)


@pytest.mark.parametrize(
    ("own", "others", "result"),
    [
        ([1.0], [-1.0], "win"),
        ([-1.0], [0.0], "loss"),
        ([0.0], [0.0], "draw"),
        ([0.1 + 0.2], [0.3], "draw"),
        ([3.0], [-1.0, -1.0, -1.0], "win"),
        ([2.0], [1.0, 1.0, 1.0], "win"),
        ([-3.0, -3.0, 6.0], [0.0], "draw"),
    ],
)
def test_the_side_with_the_higher_mean_wins(own: list[float], others: list[float], result: str) -> None:
    mine, theirs = [f"a{i}" for i in range(len(own))], [f"b{i}" for i in range(len(others))]
    players = dict.fromkeys(mine, "learner") | dict.fromkeys(theirs, "random")
    match = Match("random", players, dict(zip(mine + theirs, own + others, strict=True)), mine)
    assert match.result == result
    assert match.total == pytest.approx(sum(own))


def test_a_tally_counts() -> None:
    def game(earned: float) -> Match:
        return Match("x", {"a": "learner", "b": "x"}, {"a": earned, "b": -earned}, ["a"])

    tally = Tally.of([game(1.0), game(1.0), game(0.0), game(-1.0)])
    assert (tally.wins, tally.draws, tally.losses, tally.matches) == (2, 1, 1, 4)
    assert tally.win_rate == 0.5
    assert tally.mean_return == 0.25


# ---------------------------------------------------------------- who plays which side


@pytest.mark.parametrize(
    ("sections", "sides"),
    [
        ({}, ["player:own player", "player player:own"]),
        (PAST, ["learner:own rival"]),
        ({**PAST, "deal": "shuffled"}, ["learner:own rival", "rival learner:own"]),
        ({"agents": {"player_0": "a", "*": "b"}}, ["a:own b", "a b:own"]),
        (
            {"agents": {"player_0": "a", "*": "b"}, "deal": "shuffled"},
            ["a:own b", "b a:own", "a b:own", "b:own a"],
        ),
        (
            {"env": "shoal/tag", "agents": {"adversary_*": "hunters", "*": "prey"}},
            ["hunters:own hunters:own hunters:own prey", "hunters hunters hunters prey:own"],
        ),
    ],
)
def test_the_sides_of_a_game(sections: dict[str, Any], sides: list[str]) -> None:
    found = sides_of(expand(experiment(**sections)))
    said = [
        " ".join(f"{place.policy}{':own' * place.own}" for places in side.values() for place in places)
        for side in found
    ]
    assert sorted(said) == sorted(sides)


@pytest.mark.parametrize("sections", [{}, {**PAST, "deal": "shuffled"}])
def test_every_side_is_played_equally_often_with_equal_openings(sections: dict[str, Any]) -> None:
    scores, records = play(["random"], 40, **sections)
    own = Counter(match.own[0] for match in scores.matches)
    assert own == {"player_0": 20, "player_1": 20}
    assert len(scores.returns) == len(scores.matches) == 40
    assert scores.returns == [match.total for match in scores.matches]
    for match, record in zip(scores.matches, records, strict=True):
        assert match.players[match.own[0]] == ("learner" if sections else "player")
        assert set(match.players.values()) == {match.players[match.own[0]], "random"}
        assert match.returns == dict(zip(["player_0", "player_1"], record.episode.returns["player"], strict=True))
    played = [moves(record) for record in records]
    assert all(played[i][:2] == played[i + 1][:2] for i in range(0, 40, 2)), "one opening, from both sides"
    assert len({game[:2] for game in played}) > 10
    assert not scores.repeated


def test_itself_is_an_even_opponent_that_counts_for_no_score() -> None:
    scores, _ = play(["random", "self"], 20)
    tallies = scores.tallies
    assert list(tallies) == ["random", "self"]
    assert tallies["self"].wins == tallies["self"].losses, "equal openings from both sides"
    assert len(scores.returns) == 20
    assert scores.mean == pytest.approx(tallies["random"].mean_return)
    assert set(scores.by_policy) == {"player", "random"}


def test_players_of_the_past_take_turns() -> None:
    program = expand(experiment())
    block = Plans(program)["player"].algorithm.flat.block.numpy()
    scores, _ = play(["past"], 24, past={version: {"player": block} for version in (0, 10, 30)})
    met = Counter(tuple(sorted(match.players.values())) for match in scores.matches)
    assert met == {("past@0", "player"): 8, ("past@10", "player"): 8, ("past@30", "player"): 8}
    own = Counter(
        (match.players[other], match.own[0]) for match in scores.matches for other in match.players.keys() - match.own
    )
    assert set(own.values()) == {4}


def test_other_policies_of_the_run_are_replaced_too() -> None:
    """Of two teams each is evaluated, and the opponent plays in the other's place; who plays nobody in a game earns nothing."""
    tag = {"env": {"id": "shoal/tag", "num_envs": 4}, "agents": {"adversary_*": "hunters", "*": "prey"}}
    scores, _ = play(["random"], 4, **tag, algorithm={"name": "ppo", "unroll": 25, "minibatch": 100})
    hunting, fleeing = scores.matches[:2]
    assert set(hunting.players.items()) == {
        *((f"adversary_{i}", "hunters") for i in range(3)),
        ("agent_0", "random:prey"),
    }
    assert hunting.own == ["adversary_0", "adversary_1", "adversary_2"]
    assert fleeing.players["agent_0"] == "prey"
    assert fleeing.players["adversary_0"] == "random:hunters"


def test_spread_and_joined() -> None:
    assert spread([0, 1, 2, 3, 4, 5, 6, 7, 8], 5) == [0, 2, 4, 6, 8]
    assert spread([3, 9], 5) == [3, 9]
    assert spread([], 5) == []
    one, two = np.zeros(1), np.ones(1)
    assert joined({"a": {0: one, 20: two}, "b": {0: two, 15: one}}) == {
        0: {"a": one, "b": two},
        20: {"a": two, "b": one},
    }


# ---------------------------------------------------------------- replays


def test_a_game_that_is_replayed_is_found() -> None:
    scores, records = play([], 12)
    assert scores.repeated
    assert scores.cancels
    assert len({moves(record) for record in records}) == 1
    scores, records = play(["self"], 12, plies=0)
    assert scores.repeated
    assert len({moves(record) for record in records}) == 1


@pytest.mark.parametrize("against", [[], ["self"]])
def test_openings_make_games_differ(against: list[str]) -> None:
    scores, records = play(against, 24, plies=3)
    assert not scores.repeated
    assert len({moves(record) for record in records}) >= 10


def test_so_do_drawn_actions() -> None:
    scores, records = play(["self"], 12, plies=0, explore=True)
    assert not scores.repeated
    assert len({moves(record) for record in records}) == 12


def test_episodes_with_random_beginnings_are_no_replays() -> None:
    scores, _ = play([], 6, env={"id": "CartPole-v1", "num_envs": 4})
    assert not scores.repeated
    assert not scores.cancels


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("against", "sections", "words"),
    [
        (["random"], {"env": "CartPole-v1"}, "one agent"),
        (["rondom"], {}, "there is no such run; choose from: random, past, self"),
        (["tests.launchers.duel:nothing"], {}, "has no 'nothing'"),
        (["nothing.py:play"], {}, "there is no file"),
        (None, {"evaluation": {"every": "1s", "against": "past"}}, "no policy keeps its past"),
    ],
)
def test_mistakes_are_one_line(against: list[str] | None, sections: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        expand(experiment(**sections), against=against)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_itself_alone_is_no_opponent_of_evaluations_beside_training() -> None:
    with pytest.raises(InputError, match="a score against itself says nothing; add random or past"):
        experiment(evaluation={"every": "1s", "against": ["self"]})
