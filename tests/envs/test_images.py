"""`env.images`: frames against a slow reference, stacks over the ends of episodes, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict
from zoo_worlds import Beat, InTurn, Together

from shoal.api.env import Array, Env
from shoal.api.experiment import EnvConfig, Experiment, ImagesConfig
from shoal.base.errors import InputError
from shoal.envs import make_env
from shoal.envs.images import LUMA, ImageResizer
from shoal.envs.pettingzoo_loop import PettingZooLoop
from shoal.testing.env import check_env

SHAPE = (13, 7, 3)


def space(*shape: int, dtype: Any = np.uint8) -> Box:
    return Box(0, 255, shape, dtype)


def slowly(picture: Array, height: int, width: int, grey: bool) -> Array:
    """Box by box, pixel by pixel."""
    tall, wide = picture.shape[0] // height, picture.shape[1] // width
    out = np.zeros((height, width, 1 if grey else picture.shape[2]))
    for y in range(height):
        for x in range(width):
            top, left = y * picture.shape[0] // height, x * picture.shape[1] // width
            mean = picture[top : top + tall, left : left + wide].reshape(-1, picture.shape[2]).mean(0)
            out[y, x] = mean @ LUMA if grey else mean
    return out


@pytest.mark.parametrize("grey", [True, False])
@pytest.mark.parametrize("size", [[13, 7], [5, 3], [4, 7], [1, 1]])
def test_a_pixel_is_the_mean_of_its_box(size: list[int], grey: bool) -> None:
    picture = np.random.default_rng(0).integers(0, 256, SHAPE, np.uint8)
    pictures = ImageResizer(space(*SHAPE), ImagesConfig(size=size, grey=grey), "w")
    frame = pictures.frame(picture)
    assert frame.dtype == np.uint8
    assert frame.shape == pictures.space.shape
    assert np.abs(frame - slowly(picture, *size, grey)).max() <= 0.51


def test_white_stays_white() -> None:
    pictures = ImageResizer(space(457, 120, 3), ImagesConfig(size=[60, 40], grey=True), "w")
    assert (pictures.frame(np.full((457, 120, 3), 255, np.uint8)) == 255).all()


def test_a_picture_of_another_size_is_an_error() -> None:
    pictures = ImageResizer(space(*SHAPE), ImagesConfig(grey=True), "w")
    with pytest.raises(ValueError, match=r"has shape \(13, 8, 3\)"):
        pictures.frame(np.zeros((13, 8, 3), np.uint8))


@pytest.mark.parametrize(
    ("seen", "settings", "words"),
    [
        (space(4), {}, "shows bytes"),
        (space(8, 8, 3, dtype=np.float32), {}, "shows bytes"),
        (space(8, 8, 4), {"grey": True}, "4 channels and not red, green and blue"),
        (space(8, 8, 3), {"size": [9, 4]}, "larger than the 8 x 8 pixels"),
    ],
)
def test_what_does_not_fit_is_explained(seen: Box, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        ImageResizer(seen, ImagesConfig(**settings), "w")
    assert words.replace("shows bytes", "show bytes") in str(caught.value)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Acrobot-v1", "shoal/spread"])
def test_other_worlds_have_no_pictures(env_id: str) -> None:
    with pytest.raises(InputError, match=r"env.images is for PettingZoo games"):
        make_env(EnvConfig(id=env_id, images=ImagesConfig(grey=True)), 1)


# ---------------------------------------------------------------- stacks


class Filmed:
    """Shows what the script shows as a grey image of that brightness."""

    def observation_space(self, agent: str) -> Any:
        return space(4, 4, 3)

    def see(self, agent: str) -> Any:
        number = self.possible_agents.index(agent)  # type: ignore[attr-defined]
        return np.full((4, 4, 3), 10 * number + self.time, np.uint8)  # type: ignore[attr-defined]


class FilmedTogether(Filmed, Together):
    pass


class FilmedInTurn(Filmed, InTurn):
    pass


class FilmedMasked(FilmedTogether):
    """A mask beside the image."""

    def observation_space(self, agent: str) -> Any:
        return Dict({"observation": space(4, 4, 3), "action_mask": Box(0, 1, (100,), np.int8)})

    def see(self, agent: str) -> Any:
        return {"observation": super().see(agent), "action_mask": np.ones(100, np.int8)}


def film(game: Any, count: int, stack: int = 3) -> list[tuple[Array, Array | None]]:
    """Agents' stacks `[agents, stack]` and final ones, after reset and each step: all pixels of a frame are alike."""
    env: Env = PettingZooLoop([game], "film", images=ImagesConfig(size=[2, 2], grey=True, stack=stack))
    assert env.groups["p"].observation_space == space(2, 2, stack)
    answers = [env.reset(0)]
    told = []
    for _ in range(count + 1):
        turn = answers[-1].turns["p"]
        final = None if turn.final_observation is None else turn.final_observation[0, :, 0, 0].copy()
        told.append((turn.observation[0, :, 0, 0].copy(), final))
        answers.append(env.step({"p": np.zeros((1, 2), np.int64)}))
    return told


@pytest.mark.parametrize("kind", [FilmedTogether, FilmedMasked])
def test_stacks_do_not_reach_over_the_end_of_an_episode(kind: Any) -> None:
    beats = [Beat(), Beat(), Beat(truncated=("p_0", "p_1"))]
    told = film(kind(beats, ["p_0", "p_1"]), 4)
    first = [stack[0].tolist() for stack, _ in told]
    assert first == [[0, 0, 0], [0, 0, 1], [0, 1, 2], [0, 0, 0], [0, 0, 1]]
    assert told[0][0][1].tolist() == [10, 10, 10]
    final = told[3][1]
    assert final is not None
    assert final.tolist() == [[1, 2, 3], [11, 12, 13]]


def test_a_dead_agent_keeps_its_last_stack_and_comes_back_afresh() -> None:
    beats = [Beat(terminated=("p_0",)), Beat(), Beat(terminated=("p_1",))]
    told = film(FilmedTogether(beats, ["p_0", "p_1"]), 3)
    assert [stack[0].tolist() for stack, _ in told] == [[0, 0, 0], [0, 0, 1], [0, 0, 1], [0, 0, 0]]
    assert [stack[1].tolist() for stack, _ in told][:3] == [[10, 10, 10], [10, 10, 11], [10, 11, 12]]


def test_in_turn_a_stack_holds_what_the_agent_saw_when_it_acted() -> None:
    beats = [Beat("p_0"), Beat("p_1"), Beat("p_0"), Beat("p_1"), Beat("p_0", truncated=("p_0", "p_1"))]
    told = film(FilmedInTurn(beats, ["p_0", "p_1"]), 4)
    assert told[4][0][0].tolist()[-2:] == [2, 4]


def test_a_game_with_smaller_pictures_keeps_the_contract() -> None:
    settings = EnvConfig(
        id="butterfly/pistonball_v6",
        kwargs={"n_pistons": 2, "max_cycles": 20},
        images=ImagesConfig(size=[60, 40], grey=True, stack=2),
    )
    checks = check_env(lambda copies: make_env(settings, copies), steps=26)
    assert not [check for check in checks if not check.passed]
    assert make_env(settings, 1).groups["piston"].observation_space == space(60, 40, 2)


def test_the_old_name_of_the_setting_is_an_error_that_names_the_new_one() -> None:
    with pytest.raises(InputError, match=r"^env.pictures was renamed: write env.images$"):
        Experiment.parse({"env": {"id": "butterfly/pistonball_v6", "pictures": {"grey": True}}})
    assert Experiment.parse({"env": {"id": "CartPole-v1", "pictures": None}}).env.images is None, "as older runs say"
