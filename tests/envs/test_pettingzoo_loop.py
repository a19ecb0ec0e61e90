"""PettingZoo games as an Env: who acts, who ended and when, masks, groups, global state, seeds, faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from zoo_worlds import DUEL, PLAYERS, Beat, InTurn, Masks, Together, make_duel, make_together

from shoal.api.env import Step
from shoal.base.errors import InputError, ShoalError
from shoal.base.seeding import derive_seed
from shoal.envs.pettingzoo_loop import PettingZooLoop
from shoal.testing.env import check_env
from shoal.testing.recording import copy_step


def loop(*games: Any, first_slot: int = 0) -> PettingZooLoop:
    return PettingZooLoop(list(games), "script", first_slot=first_slot)


def steps(env: PettingZooLoop, count: int, group: str = "p") -> list[Step]:
    """The answer to reset and to `count` steps; all play action 1."""
    shape = env.num_envs, len(env.groups[group].agents)
    taken = [copy_step(env.reset(0))]
    return taken + [copy_step(env.step({group: np.ones(shape, np.int64)})) for _ in range(count)]


def column(answers: list[Step], field: str, group: str = "p") -> list[list[Any]]:
    """One field of the first copy, step by step."""
    return [np.asarray(getattr(step.turns[group], field))[0].tolist() for step in answers]


# ---------------------------------------------------------------- time


def test_turns_one_step_is_one_agents_action() -> None:
    answers = steps(loop(make_duel()), 5)
    assert column(answers, "acting") == [[True, False], [False, True]] * 3
    assert column(answers, "reward") == [[0, 0], [1, 0], [2, 5], [0, 7], [3, 4], [1, 0]]
    assert [step.advanced for step in answers] == [0, 1, 1, 1, 1, 1]
    ends = [(column(answers, "terminated")[i], column(answers, "truncated")[i]) for i in range(6)]
    assert ends == [([False, False],) * 2] * 4 + [([True, False], [False, True])] + [([False, False],) * 2]
    end = answers[4]
    assert end.turns["p"].final_observation is not None
    assert end.turns["p"].final_observation[0, :, 0].tolist() == [4, 14]
    assert end.turns["p"].observation[0, :, 0].tolist() == [0, 10]
    (episode,) = end.episodes
    assert (episode.row, episode.length) == (0, 4)
    assert episode.returns["p"].tolist() == [6, 16]


def test_actions_reach_whose_turn_it_is() -> None:
    game = make_duel()
    env = loop(game)
    env.reset(0)
    for actions in ([3, 4], [5, 6], [7, 8]):
        env.step({"p": np.array([actions])})
    assert game.played == [("p_0", 3), ("p_1", 6), ("p_0", 7)]


def test_only_the_living_act_in_a_parallel_game() -> None:
    script = [
        Beat(rewards={"p_1": 4}, terminated=("p_1",), metrics={"p_1": {"place": 2}}),
        Beat(born=("p_2",)),
        Beat(terminated=("p_0",), truncated=("p_0",), metrics={"p_0": {"place": 4, "kills": 1}}),
        Beat(born=("p_1",)),
        Beat(truncated=("p_1", "p_2"), metrics={"p_2": {"kills": 3}}),
    ]
    game = Together(script, PLAYERS, start=["p_0", "p_1"])
    answers = steps(loop(game), 5)
    dead, born, back = [True, False, False], [True, False, True], [False, True, True]
    assert column(answers, "acting") == [
        [True, True, False], dead, born, [False, False, True], back, [True, True, False],
    ]  # fmt: skip
    terminated, truncated = column(answers, "terminated"), column(answers, "truncated")
    assert terminated[1:] == [[False, True, False], [False] * 3, [True, False, False], [False] * 3, [False] * 3]
    assert truncated[1:] == [[False] * 3, [False] * 3, [True, False, False], [False] * 3, [False, True, True]]
    assert answers[1].turns["p"].observation[0, 1, 0] == answers[2].turns["p"].observation[0, 1, 0] == 11
    assert [set(actions) for actions in game.played] == [
        {"p_0", "p_1"}, {"p_0"}, {"p_0", "p_2"}, {"p_2"}, {"p_1", "p_2"},
    ]  # fmt: skip
    assert [len(step.episodes) for step in answers] == [0, 0, 0, 0, 0, 1]
    episode = answers[5].episodes[0]
    assert episode.length == 5
    assert episode.returns["p"].tolist() == [0, 4, 0]
    assert episode.metrics == {"place": 3.0, "kills": 2.0}


@pytest.mark.parametrize("dead_first", [True, False])
def test_an_end_is_flagged_when_it_happens_and_once(dead_first: bool) -> None:
    script = [Beat("p_0", terminated=("p_1",)), Beat("p_0"), Beat("p_0", rewards={"p_0": 2}, truncated=("p_0",))]
    answers = steps(loop(InTurn(script, ["p_0", "p_1"], dead_first=dead_first)), 3)
    assert column(answers, "terminated") == [[False, False], [False, True], [False, False], [False, False]]
    assert column(answers, "truncated")[3] == [True, False]
    assert [len(step.episodes) for step in answers] == [0, 0, 0, 1]


def test_the_script_games_keep_the_contract() -> None:
    birth = [Beat(born=("p_1",)), Beat(terminated=("p_0",)), Beat(truncated=("p_1",))]
    makers = [
        make_duel,
        make_together,
        lambda: Together(birth, PLAYERS, start=["p_0"]),  # p_2 never comes
        lambda: Masks([[1, 0, 1], [0, 1, 0], [1, 1, 1]], "info"),
    ]
    for make in makers:
        broken = [
            check for check in check_env(lambda n, make=make: loop(*[make() for _ in range(n)])) if not check.passed
        ]
        assert not broken


def test_copies_are_seeded_by_their_number_and_episode() -> None:
    games = [make_together(2), make_together(2)]
    env = loop(*games, first_slot=5)
    for seed in (7, 8):
        env.reset(seed)
        for _ in range(2):
            env.step({"p": np.zeros((2, 2), np.int64)})
    for copy, game in enumerate(games):
        assert game.seeds == [derive_seed(seed, "episode", 5 + copy, n) for seed in (7, 8) for n in (0, 1)]
    env.close()
    assert all(game.closed for game in games)


# ---------------------------------------------------------------- groups


class Spaces(Together):
    """Agents with observations of the sizes given."""

    def __init__(self, sizes: dict[Any, int]) -> None:
        super().__init__([], list(sizes))
        self.sizes = sizes

    def observation_space(self, agent: str) -> Any:
        return Box(0.0, 1.0, (self.sizes[agent],), np.float32)


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ({"speaker_0": 3, "listener_0": 11}, {"speaker": ("speaker_0",), "listener": ("listener_0",)}),
        ({"piston_1": 3, "piston_10": 3}, {"piston": ("piston_1", "piston_10")}),
        ({"archer_0": 3, "knight_0": 3}, {"agents": ("archer_0", "knight_0")}),
        ({"red_tank_0": 3, "red_jet_1": 3}, {"red": ("red_tank_0", "red_jet_1")}),
        ({"agent_0": 3, "agent_1": 4}, {"agent_0": ("agent_0",), "agent_1": ("agent_1",)}),
        ({"a_0": 3, "b_0": 4, "a_1": 3}, {"a": ("a_0", "a_1"), "b": ("b_0",)}),
        ({0: 3, 1: 3}, {"agents": ("0", "1")}),
        ({"team a/3": 3}, {"team_a": ("team a/3",)}),
    ],
)
def test_agents_with_equal_spaces_form_a_group(sizes: dict[Any, int], groups: dict[str, tuple[str, ...]]) -> None:
    assert {name: group.agents for name, group in loop(Spaces(sizes)).groups.items()} == groups


def test_equal_observations_with_other_actions_are_another_group() -> None:
    class Hands(Spaces):
        def action_space(self, agent: str) -> Any:
            return Discrete(2 if agent == "a_0" else 3)

    assert list(loop(Hands({"a_0": 2, "b_0": 2})).groups) == ["a", "b"]


# ---------------------------------------------------------------- masks


@pytest.mark.parametrize("where", ["observation", "info", "extra"])
def test_masks(where: str) -> None:
    masks = [[1, 0, 1], [0, 1, 0], [1, 1, 1]]
    env = loop(Masks(masks, where))
    space = env.groups["a"].observation_space
    assert isinstance(space, Dict) == (where == "extra")
    first = copy_step(env.reset(0))
    second = copy_step(env.step({"a": np.array([[0, 2]])}))
    third = copy_step(env.step({"a": np.array([[1, 1]])}))
    for step, mask in zip((first, second, third), (masks[0], masks[1], masks[0]), strict=True):
        assert step.turns["a"].action_mask is not None
        assert step.turns["a"].action_mask.dtype == bool
        assert step.turns["a"].action_mask[0].tolist() == [[bool(each) for each in mask]] * 2
    seen = second.turns["a"].observation
    if where == "extra":
        assert set(seen) == {"observation", "extra"}
        seen = seen["observation"]
    assert seen[0].tolist() == [[1, 1]] * 2


def test_who_waits_may_do_anything() -> None:
    """A game may give those who wait an empty mask; no policy could choose from it."""
    from pettingzoo.classic.connect_four.connect_four import env

    answer = PettingZooLoop([env()], "four").reset(0)
    assert answer.turns["player"].acting.tolist() == [[True, False]]
    assert answer.turns["player"].action_mask is not None
    assert answer.turns["player"].action_mask.all()


# ---------------------------------------------------------------- global state


class Watched(Together):
    def state(self) -> np.ndarray:
        return np.array([self.time, len(self.agents)], np.float64)


def test_the_global_state_is_that_of_the_row() -> None:
    games = [Watched([Beat()] * (n - 1) + [Beat(terminated=("p_0",))], ["p_0"]) for n in (2, 3)]
    answers = steps(loop(*games), 3)
    assert [step.state.tolist() for step in answers if step.state is not None] == [
        [[0, 1], [0, 1]],
        [[1, 1], [1, 1]],
        [[0, 1], [2, 1]],  # the first copy has begun again
        [[1, 1], [0, 1]],
    ]
    assert [None if step.final_state is None else step.final_state.tolist() for step in answers] == [
        None,
        None,
        [[2, 0], [2, 1]],  # what the first copy left; the second goes on
        [[1, 1], [3, 0]],
    ]
    assert answers[0].state is not None
    assert answers[0].state.dtype == np.float32
    assert loop(make_together()).reset(0).state is None


# ---------------------------------------------------------------- faults


class Leaving(Together):
    def step(self, actions: Any) -> Any:
        seen, *rest = super().step(actions)
        self.agents = ["p_0"]
        return seen, *rest


class Blind(Together):
    def step(self, actions: Any) -> Any:
        _, *rest = super().step(actions)
        return {}, *rest


class Undead(InTurn):
    def _was_dead_step(self, action: Any) -> None:
        return None


class Raising(Together):
    def step(self, actions: Any) -> Any:
        raise RuntimeError("the board\nis broken")


class Rich(Together):
    def step(self, actions: Any) -> Any:
        seen, _, *rest = super().step(actions)
        return seen, {"p_0": "much"}, *rest


class Shifty(Together):
    def see(self, agent: str) -> Any:
        return np.zeros(3, np.float32) if self.time else super().see(agent)


QUIET = [Beat()] * 3


@pytest.mark.parametrize(
    ("game", "words"),
    [
        (Leaving(QUIET, ["p_0", "p_1"]), ["'p_1' left `agents`", "neither terminated nor truncated"]),
        (Blind(QUIET, ["p_0"]), ["'p_0'", "no observation"]),
        (Together([Beat(born=("ghost",))], ["p_0"]), ["ghost"]),
        (Undead([Beat("p_0", terminated=("p_0",))], ["p_0"]), ["step(None)", "_was_dead_step"]),
        (Raising(QUIET, ["p_0"]), ["RuntimeError: the board is broken"]),
        (Rich(QUIET, ["p_0"]), ["could not convert string to float: 'much'"]),
        (Shifty(QUIET, ["p_0"]), ["the observation has shape (3,)", "the space says (1,)"]),
    ],
)
def test_a_fault_names_the_game_the_copy_and_the_cause(game: Any, words: list[str]) -> None:
    env = loop(game, first_slot=3)
    env.reset(0)
    with pytest.raises(ShoalError) as caught:
        env.step({"p": np.zeros((1, len(game.possible_agents)), np.int64)})
    text = str(caught.value)
    assert text.startswith("script, copy 3: ")
    assert "\n" not in text
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    ("game", "words"),
    [
        (Masks([None, [1, 1, 1], [1, 1, 1]], "info"), "came with step() but not with reset()"),
        (Masks([[1, 1, 1], [1, 1], [1, 1]], "info"), "action_mask has 2 entries where the action space has 3"),
    ],
)
def test_a_wrong_mask_is_refused(game: Any, words: str) -> None:
    env = loop(game)
    env.reset(0)
    with pytest.raises(ShoalError) as caught:
        env.step({"a": np.zeros((1, 2), np.int64)})
    assert words in str(caught.value)


def test_a_game_without_agents_is_refused() -> None:
    with pytest.raises(InputError, match="possible_agents"):
        loop(Together([], []))
    empty = Together(QUIET, ["p_0"])
    empty.start = []
    with pytest.raises(ShoalError, match="nobody to act"):
        loop(empty).reset(0)


def test_copies_that_differ_are_refused() -> None:
    with pytest.raises(InputError, match="its copies differ"):
        loop(make_together(), Together(QUIET, ["p_0"]))
    with pytest.raises(InputError, match="its copies differ"):
        loop(Spaces({"a": 2}), Spaces({"a": 3}))


def test_pictures() -> None:
    class Painted(Together):
        render_mode = "rgb_array"

        def render(self) -> Any:
            return np.full((2, 3, 3), self.time, np.uint8)

    env = loop(Painted(QUIET, ["p_0"]))
    steps(env, 2)
    picture = env.render(0)
    assert picture is not None
    assert picture.tolist() == np.full((2, 3, 3), 2).tolist()
    assert loop(InTurn(DUEL, ["p_0", "p_1"])).render(0) is None


def test_a_game_made_parallel_is_looked_at_once_a_step() -> None:
    from mpe2.simple_spread_v3 import parallel_env

    game = parallel_env()
    observe, looks = game.unwrapped.observe, []
    game.unwrapped.observe = lambda agent: looks.append(agent) or observe(agent)
    env = loop(game)
    env.reset(0)
    looks.clear()
    env.step({"agent": np.zeros((1, 3), np.int64)})
    assert looks == ["agent_0", "agent_1", "agent_2"]
