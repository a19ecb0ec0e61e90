"""Checks of an Env over time: ends, episode records, seeds, snapshots. Some need one recording, others build environments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from shoal.api.env import Array, Env, Step
from shoal.base.errors import InputError
from shoal.base.tree import tree_leaves
from shoal.envs.action_log import NotRestoredError
from shoal.testing.check import Broken, expect
from shoal.testing.recording import Recording, first_difference, play
from shoal.testing.sampler import ActionSampler

# ---------------------------------------------------------------- over one recording


class _Moment(NamedTuple):
    """One step of a recording, seen by env copy; arrays `[num_envs]`, but for `lived`."""

    time: int
    step: Step
    idle: Array
    """The copy's episode had ended and nobody acted: this call only starts the next one."""
    may_end: Array
    """Nobody is left of those who acted: the episode is over, unless others wait for their first turn."""
    must_end: Array
    """Nobody is left at all."""
    lived: dict[str, Array]
    """Group -> `[num_envs, agents]`: had not ended before this step, or its next episode had begun."""


def _moments(recording: Recording) -> Iterator[_Moment]:
    """Agents may be born late or not at all, so where not all have ended it is `episodes` that says whether a copy has."""
    idle = np.zeros(recording.num_envs, bool)
    shapes = {name: (recording.num_envs, len(group.agents)) for name, group in recording.groups.items()}
    ended, dead = ({name: np.zeros(shape, bool) for name, shape in shapes.items()} for _ in range(2))
    acted = {name: turn.acting.copy() for name, turn in recording.steps[0].turns.items()}
    for time, step in enumerate(recording.steps[1:], start=1):
        lived = {name: ~flags for name, flags in dead.items()}
        for name, turn in step.turns.items():
            ended[name] |= turn.terminated | turn.truncated
        must_end = np.logical_and.reduce([flags.all(axis=1) for flags in ended.values()])
        may_end = np.logical_and.reduce([(ended[name] | ~acted[name]).all(axis=1) for name in ended])
        yield _Moment(time, step, idle, may_end, must_end, lived)
        over = must_end.copy()
        over[[episode.row for episode in step.episodes]] = True
        silent = np.logical_and.reduce([~turn.acting.any(axis=1) for turn in step.turns.values()])
        begun = idle | (over & ~silent)
        idle = over & silent
        for name, turn in step.turns.items():
            acted[name] = turn.acting | (acted[name] & ~over[:, None])
            ended[name] &= ~(turn.acting | over[:, None])
            dead[name] = (dead[name] | turn.terminated | turn.truncated) & ~(turn.acting | begun[:, None])


def an_end_shows_the_last_observation(recording: Recording) -> str:
    """An ended agent does not act (next-step autoreset), or `final_observation` has what it saw last (same-step)."""
    seen = False
    for where, _, turn in recording.turns():
        ended = turn.terminated | turn.truncated
        seen = seen or bool(ended.any())
        lost = (ended & turn.acting).any() and turn.final_observation is None
        expect(not lost, f"{where}: an agent ended and acts again at once: set final_observation, or acting to False")
    return "" if seen else f"no episode ended within {len(recording.steps) - 1} steps: run more to check the ends"


def an_agent_ends_once(recording: Recording) -> str:
    """Who has ended is not flagged again before it acts again."""
    for time, step, _, _, _, lived in _moments(recording):
        for name, turn in step.turns.items():
            again = (turn.terminated | turn.truncated) & ~lived[name]
            if again.any():
                row, slot = np.argwhere(again)[0]
                agent = recording.groups[name].agents[slot]
                raise Broken(
                    f"after {time} steps '{agent}' of copy {row} ends once more: flag an end in its own step only"
                )
    return ""


def episodes_record_the_rewards_that_were_seen(recording: Recording) -> str:
    """Each end of a copy has one Episode, with the sum of its rewards and the number of its steps."""
    returns = {name: np.zeros((recording.num_envs, len(group.agents))) for name, group in recording.groups.items()}
    lengths = np.zeros(recording.num_envs, np.int64)
    for time, step, idle, may_end, must_end, _ in _moments(recording):
        lengths += ~idle
        for name, turn in step.turns.items():
            returns[name] += turn.reward
        recorded = sorted(episode.row for episode in step.episodes)
        ended = np.flatnonzero(must_end).tolist()
        expect(
            set(ended) <= set(recorded) <= set(np.flatnonzero(may_end)) and len(recorded) == len(set(recorded)),
            f"after {time} steps copies {ended} ended and `episodes` speaks of {recorded}: record each once",
        )
        for episode in step.episodes:
            row, length = episode.row, lengths[episode.row]
            expect(
                episode.length == length,
                f"after {time} steps an Episode of length {episode.length} took {length} steps",
            )
            for name, sums in returns.items():
                close = np.allclose(episode.returns[name], sums[row], rtol=1e-4, atol=1e-4, equal_nan=True)
                expect(
                    close,
                    f"after {time} steps an Episode returns {episode.returns[name]}; the rewards sum to {sums[row]}",
                )
                sums[row] = 0.0
            lengths[row] = 0
    return ""


def idle_calls_are_no_steps(recording: Recording) -> str:
    """`advanced` counts the copies that stepped; the call that only resets an ended copy brings no reward."""
    for time, step, idle, *_ in _moments(recording):
        due = int((~idle).sum())
        expect(step.advanced == due, f"after {time} steps `advanced` is {step.advanced}: {due} copies really stepped")
        for name, turn in step.turns.items():
            expect(not turn.reward[idle].any(), f"group '{name}' is rewarded in the idle call {time}: make it 0")
    return ""


# ---------------------------------------------------------------- with environments of their own


class Trial:
    """Environments of one kind, to be built and played again and again."""

    def __init__(self, make: Callable[[int], Env], copies: int, steps: int, seed: int) -> None:
        self.copies, self.steps, self.seed = copies, steps, seed
        self._make = make
        self._built: list[Env] = []
        self.env = self.build()
        self.first = self.play(self.env, seed)

    def build(self) -> Env:
        """One more environment."""
        env = self._make(self.copies)
        self._built.append(env)
        return env

    def sampler(self, purpose: int = 0) -> ActionSampler:
        """The same random player at each call."""
        return ActionSampler(self.env.groups, self.copies, self.seed + purpose)

    def play(self, env: Env, seed: int) -> Recording:
        """Reset and play."""
        return play(env, lambda: env.reset(seed), self.sampler(), self.steps)

    def close(self) -> None:
        """Close every environment."""
        for env in self._built:
            env.close()


def equal_seeds_reproduce_everything(trial: Trial) -> str:
    """The same environment reset again, and a new one, live through the same bits."""
    if not trial.env.repeats:
        return "not checked: this environment does not promise to repeat itself"
    remedy = "draw all chance from the seed given to reset (gymnasium: super().reset(seed=seed), then self.np_random)"
    for whose, env in (("the same environment, reset again,", trial.env), ("a new environment", trial.build())):
        again = trial.play(env, trial.seed)
        if again.error is not None:
            raise again.error
        difference = first_difference(trial.first, again)
        expect(difference is None, f"{whose} differs under an equal seed, first in {difference}: {remedy}")
    return ""


def different_seeds_differ(trial: Trial) -> str:
    """A remark only: an environment without chance does not differ."""
    other = trial.play(trial.build(), trial.seed + 1)
    same = first_difference(trial.first, other) is None
    return "the seed changes nothing: right for an environment without chance" if same else ""


def copies_differ(trial: Trial) -> str:
    """A remark only: an environment may have one start."""
    for turn in trial.first.steps[0].turns.values():
        for _, leaf in tree_leaves(turn.observation):
            if len({row.tobytes() for row in leaf}) > 1:
                return ""
    return "all copies begin alike: right for an environment with one start" if trial.copies > 1 else ""


def snapshots_continue_identically(trial: Trial) -> str:
    """Where there are snapshots: another environment, restored, goes on as the first one did."""
    env, steps = trial.build(), max(1, trial.steps // 4)
    before = play(env, lambda: env.reset(trial.seed), trial.sampler(), steps)
    tree = env.snapshot()
    if tree is None:
        return "this environment has no snapshots"
    for path, leaf in tree_leaves(tree):
        plain = isinstance(leaf, bool | int | float)
        arrays = isinstance(leaf, np.ndarray) and not leaf.dtype.hasobject
        expect(
            plain or arrays,
            f"the snapshot holds a {type(leaf).__name__} at '{path}': keep arrays and numbers, they can be saved",
        )
    other = trial.build()
    other.reset(trial.seed + 1)
    went_on = play(env, lambda: before.steps[-1], trial.sampler(1), steps)
    try:
        other.restore(tree)
    except NotRestoredError:  # which the check of equal seeds names
        return "this environment does not repeat itself, so it cannot be taken up in the middle of an episode"
    restored = play(other, lambda: before.steps[-1], trial.sampler(1), steps)
    difference = first_difference(went_on, restored)
    expect(
        difference is None,
        f"a restored environment goes on differently, first in {difference}: copy every array into the snapshot",
    )
    return ""


def images_are_rgb_or_none(trial: Trial) -> str:
    """`render` gives uint8 `[height, width, 3]`, or None."""
    trial.env.reset(trial.seed)
    try:
        image = trial.env.render(0)
    except InputError as error:
        return f"not checked: {error}"
    if image is None:
        return "this environment draws nothing"
    if not isinstance(image, np.ndarray):
        raise Broken(f"render gives a {type(image).__name__}: return a uint8 array [height, width, 3], or None")
    good = image.ndim == 3 and image.shape[2] == 3 and image.dtype == np.uint8
    expect(good, f"render gives shape {image.shape} and dtype {image.dtype}: return uint8 [height, width, 3], or None")
    return ""
