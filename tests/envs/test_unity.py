"""Unity builds as environments: against a scripted player, which is a process and speaks the real protocol over real gRPC."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from outside_games import executable

from shoal.api.env import Env, Step
from shoal.api.experiment import EnvConfig
from shoal.base.errors import InputError, ShoalError
from shoal.envs import make_env
from shoal.testing.check import require
from shoal.testing.env import check_env

pytest.importorskip("grpc")
Make = Callable[..., Env]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Builds an environment of scripted players: `args` as one line, further settings by name."""
    file = executable(tmp_path, "unity_player.py", "Game.x86_64")
    opened: list[Env] = []

    def build(args: str = "", copies: int = 1, **kwargs: Any) -> Env:
        config = EnvConfig(id=f"unity:{file}", kwargs={"args": args.split(), **kwargs})
        opened.append(make_env(config, copies))
        return opened[-1]

    yield build
    for env in opened:
        env.close()


def named(step: Step, group: str = "Guess") -> np.ndarray:
    """What a perfect player does: name the number that is shown."""
    seen = step.turns[group].observation
    return (seen["vector"] if isinstance(seen, dict) else seen)[..., :3].argmax(-1)


def play(env: Env, steps: int, group: str = "Guess") -> list[Step]:
    """Perfect play; every Step as it was."""
    from shoal.testing.recording import copy_step

    taken = [copy_step(env.reset(0))]
    for _ in range(steps):
        taken.append(copy_step(env.step({group: named(taken[-1], group)})))
    return taken


def test_agents_of_one_behaviour_are_copies(make: Make) -> None:
    env = make("--agents 3", copies=3)
    assert env.groups["Guess"].agents == ("Guess_0",)
    assert env.groups["Guess"].action_space == Discrete(3)
    steps = play(env, 10)
    assert [len(step.episodes) for step in steps] == [0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 3]
    assert {episode.returns["Guess"].item() for episode in steps[-1].episodes} == {5.0}
    assert env.footprint().games == 1  # type: ignore[union-attr]


def test_terminal_and_deciding_in_one_message(make: Make) -> None:
    end = play(make(), 5)[-1].turns["Guess"]
    assert end.terminated.all()
    assert end.acting.all()
    assert end.reward.item() == 1.0, "the first reward of the next episode is nobody's"
    assert end.final_observation is not None
    assert end.final_observation.sum() == end.observation.sum() == 1.0


def test_max_step_reached_is_a_truncation(make: Make) -> None:
    end = play(make("--cut"), 5)[-1].turns["Guess"]
    assert end.truncated.all()
    assert not end.terminated.any()


def test_a_decision_whose_agent_ended_in_the_same_message_is_nobodys(make: Make) -> None:
    steps = play(make("--stale --agents 2", areas=1), 10)
    assert [len(step.episodes) for step in steps][5::5] == [1, 1]
    assert [episode.returns["Guess"].tolist() for step in steps for episode in step.episodes] == [[5.0, 5.0]] * 2


def test_messages_without_decisions_are_passed_over(make: Make) -> None:
    steps = play(make("--gap 3"), 11)
    assert [len(step.episodes) for step in steps[1:]] == [0, 0, 0, 0, 1] * 2 + [0]
    assert all(step.turns["Guess"].acting.all() for step in steps), "the next who decides is waited for"


def test_a_copy_whose_next_agent_comes_later_is_idle(make: Make) -> None:
    """The other copy of the same build goes on."""
    env = make("--agents 2 --gap 3 --uneven", copies=2)
    steps = play(env, 10)
    ended = next(i for i, step in enumerate(steps) if step.episodes)
    row = steps[ended].episodes[0].row
    assert not steps[ended].turns["Guess"].acting[row].any()
    assert steps[ended + 1].advanced == 1
    assert steps[ended + 2].advanced == 2


@pytest.mark.parametrize(
    "args",
    [
        "--agents 3 --gap 1",
        pytest.param("--behaviours Red?team=0 Red?team=1 Blue --gap 1", marks=pytest.mark.slow),
        pytest.param("--cut --masked --agents 3 --gap 3", marks=pytest.mark.slow),
    ],
)
def test_the_contract_is_kept(make: Make, args: str) -> None:
    require(check_env(lambda copies: make(args, copies, reseed=True), steps=30))


def test_without_reseeding_repetition_is_not_promised(make: Make) -> None:
    checks = {check.name: check for check in check_env(lambda copies: make(copies=copies), steps=10)}
    assert checks["equal seeds reproduce everything"].passed
    assert "does not promise" in checks["equal seeds reproduce everything"].detail


def test_teams_are_sides_of_one_group(make: Make) -> None:
    env = make("--behaviours Duel?team=0 Duel?team=1 --agents 2")
    assert list(env.groups) == ["Duel"]
    assert env.groups["Duel"].agents == ("Duel_team0_0", "Duel_team0_1", "Duel_team1_0", "Duel_team1_1")
    steps = play(env, 5, "Duel")
    assert steps[-1].episodes[0].returns["Duel"].tolist() == [5.0] * 4


def test_areas_divide_the_agents_of_a_build(make: Make) -> None:
    env = make("--behaviours Duel?team=0 Duel?team=1 --agents 2", copies=3, num_areas=2)
    assert env.groups["Duel"].agents == ("Duel_team0_0", "Duel_team0_1", "Duel_team1_0", "Duel_team1_1")
    assert env.footprint().games == 2  # type: ignore[union-attr]
    steps = play(env, 5, "Duel")
    assert sorted(episode.row for episode in steps[-1].episodes) == [0, 1, 2]


def test_areas_that_do_not_divide_the_agents(make: Make) -> None:
    with pytest.raises(InputError, match="3 agents of 'Guess', which do not divide.*env.kwargs.agents.Guess"):
        make("--agents 3", areas=2)


def test_rewards_of_groups_are_each_members(make: Make) -> None:
    env = make("--agents 2 --groups --grouped-reward")
    assert env.game_return == "mean"
    assert play(env, 5)[-1].episodes[0].returns["Guess"].tolist() == [5.0, 5.0]


def test_masks_say_what_is_allowed(make: Make) -> None:
    env = make("--masked")
    step = env.reset(0)
    for _ in range(5):
        mask = step.turns["Guess"].action_mask
        assert mask is not None
        assert mask.sum() == 1, "the player forbids all but one"
        step = env.step({"Guess": mask.argmax(-1)})
    assert step.episodes[0].returns["Guess"].item() == 5.0


def test_a_mask_that_was_not_expected(make: Make) -> None:
    env = make("--masked", masks=False)
    with pytest.raises(ShoalError, match="set masks=true"):
        env.reset(0)


@pytest.mark.parametrize("where", ["first", "last"])
def test_images_are_read_mapped_and_stacked(make: Make, where: str) -> None:
    env = make(f"--images {where}")
    space = env.groups["Guess"].observation_space
    shape = (4, 6, 8) if where == "first" else (6, 8, 4)
    assert isinstance(space, Dict)
    assert space["camera"] == Box(0, 255, shape, np.uint8)
    turn = env.reset(0).turns["Guess"]
    image = turn.observation["camera"][0, 0]
    image = image if where == "first" else image.transpose(2, 0, 1)
    cue = turn.observation["vector"].argmax(-1).item()
    assert [channel.max() for channel in image] == [channel.min() for channel in image] == [cue, 15, 40, 50]


@pytest.mark.parametrize(
    ("kind", "space", "act"),
    [
        ("continuous", Box(-1.0, 1.0, (1,), np.float32), lambda cue: (cue - 1.0)[..., None].astype(np.float32)),
        ("branches", MultiDiscrete([3, 2]), lambda cue: np.stack([cue, np.ones_like(cue)], -1)),
        ("hybrid", MultiDiscrete([5, 3]), lambda cue: np.stack([np.full_like(cue, 4), cue], -1)),
    ],
)
def test_all_kinds_of_actions(make: Make, kind: str, space: Any, act: Callable[[np.ndarray], np.ndarray]) -> None:
    env = make(f"--actions {kind}", bins=5)
    assert env.groups["Guess"].action_space == space
    step = env.reset(0)
    for _ in range(5):
        step = env.step({"Guess": act(named(step))})
    assert step.episodes[0].returns["Guess"].item() == 5.0


def test_parameters_and_stages_reach_the_game(make: Make) -> None:
    env = make(parameters={"bonus": [0.5, 2.0], "unused": 1.0})
    assert env.set_stage(1)
    assert play(env, 5)[-1].episodes[0].returns["Guess"].item() == 15.0
    assert not make(parameters={"bonus": 1.0}).set_stage(1)


def test_statistics_become_metrics_of_the_episode(make: Make) -> None:
    env = make("--length 20", look=1)
    assert play(env, 20)[-1].episodes[0].metrics["score"] == 20.0


def test_behaviours_that_appear_late(make: Make) -> None:
    args = "--behaviours Early Late --late 20"
    env = make(args, agents={"Late": 1})
    assert list(env.groups) == ["Early", "Late"]
    env = make("--behaviours Early Late --late 30", look=3)
    with pytest.raises(ShoalError, match="'Late' appeared late: name it in env.kwargs.agents"):
        play(env, 40, "Early")


def test_a_behaviour_that_never_appears(make: Make) -> None:
    with pytest.raises(ShoalError, match="'Ghost' of env.kwargs.agents did not appear.*seen: Guess"):
        make(agents={"Ghost": 1}, start_timeout=4.0)


def test_more_agents_than_places(make: Make) -> None:
    env = make("--agents 2", agents={"Guess": 1})
    with pytest.raises(ShoalError, match="more than 1 agents of 'Guess' live at once: set env.kwargs.agents.Guess"):
        env.reset(0)


def test_seeds_come_from_the_reset_where_players_are_started_anew(make: Make) -> None:
    def seen(env: Env, seed: int) -> list[bytes]:
        steps = [env.reset(seed)]
        shown = [steps[0].turns["Guess"].observation.tobytes()]
        return shown + [
            env.step({"Guess": np.zeros((1, 1), np.int64)}).turns["Guess"].observation.tobytes() for _ in range(20)
        ]

    env = make("--numbers 50", reseed=True)
    assert seen(env, 1) == seen(env, 1) != seen(env, 2)


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"no_graphics": False}, "no_graphics = false needs a screen"),
        ({"width": 80}, "width and height go together"),
        ({"timescale": 2.0}, "did you mean 'time_scale'"),
    ],
)
def test_wrong_settings(make: Make, kwargs: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        make(**kwargs)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        make_env(EnvConfig(id=f"unity:{tmp_path}/Nothing"), 1)
    (tmp_path / "Text.x86_64").write_text("")
    with pytest.raises(InputError, match="may not be executed: chmod"):
        make_env(EnvConfig(id=f"unity:{tmp_path}/Text"), 1)
