"""The conformance suite of `Env`: any environment in, checks out. `shoal check-env` runs it on the settings of a user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from shoal.api.env import Env
from shoal.api.experiment import EnvConfig
from shoal.api.worker import Heartbeat
from shoal.testing import env_arrays, env_time
from shoal.testing.check import Check, describe_error, run_check, words
from shoal.testing.env_time import Trial
from shoal.testing.recording import Recording

COPIES = (1, 3)
MAKING = 60.0
"""Seconds that an environment may take to be made, on top of `env.timeout`."""
RUNS = "builds and runs"
RECORDED: tuple[Callable[[Recording], str], ...] = (
    env_arrays.spaces_are_supported,
    env_arrays.every_answer_speaks_of_all_groups,
    env_arrays.arrays_have_the_declared_shapes_and_dtypes,
    env_arrays.terminated_truncated_and_acting_are_bools,
    env_arrays.observations_lie_in_their_spaces,
    env_arrays.rewards_are_finite,
    env_arrays.action_masks_are_bool_and_allow_an_action,
    env_arrays.the_state_comes_always_or_never,
    env_time.an_end_shows_the_last_observation,
    env_time.an_agent_ends_once,
    env_time.episodes_record_the_rewards_that_were_seen,
    env_time.idle_calls_are_no_steps,
)
REPEATED: tuple[Callable[[Trial], str], ...] = (
    env_time.equal_seeds_reproduce_everything,
    env_time.different_seeds_differ,
    env_time.copies_differ,
    env_time.snapshots_continue_identically,
    env_time.images_are_rgb_or_none,
)


def check_env(make: Callable[[int], Env], *, steps: int = 200, seed: int = 0) -> list[Check]:
    """Check the environments that `make(num_envs)` builds, with one copy and with three, against the contract of Env.

    Play is random within the masks. An environment that raises fails the first check, with the exception and its place.
    """
    found: dict[str, Check] = {}
    for copies in COPIES:
        for check in _check_copies(make, copies, steps, seed):
            known = found.get(check.name)
            # The first failure stands; else the last remark, which comes from the larger batch.
            if known is None or known.passed:
                count = "1 copy" if copies == 1 else f"{copies} copies"
                found[check.name] = check if check.passed else replace(check, detail=f"with {count}: {check.detail}")
    return list(found.values())


def main_check(config: EnvConfig, heartbeat: Heartbeat | None = None) -> list[Check]:
    """Check a configured environment in every form it has: as a loop over single copies, and as a batch."""
    from shoal.envs.factory import forms_of

    checks: list[Check] = []
    for form in forms_of(config) if config.vector == "auto" else (config.vector,):
        chosen = config.model_copy(update={"vector": form})
        found = check_env(lambda copies, chosen=chosen: _make(chosen, copies, heartbeat))  # type: ignore[misc]
        checks += [replace(check, name=f"{form}: {check.name}") for check in found]
    return checks


def _make(config: EnvConfig, copies: int, heartbeat: Heartbeat | None) -> Env:
    """An environment of which every call is a sign of life."""
    from shoal.envs import make_env

    if heartbeat is None:
        return make_env(config, copies, render=True)
    heartbeat.begin(MAKING, in_env=True)
    env = make_env(config, copies, render=True)
    for name in ("reset", "send", "recv", "render"):
        setattr(env, name, _announced(getattr(env, name), heartbeat))
    env.between = heartbeat.between
    return env


def _announced(method: Callable[..., Any], heartbeat: Heartbeat) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        heartbeat.beat()
        return method(*args)

    return call


def _check_copies(make: Callable[[int], Env], copies: int, steps: int, seed: int) -> list[Check]:
    try:
        trial = Trial(make, copies, steps, seed)
    except Exception as error:
        return [Check(RUNS, False, describe_error(error))]
    try:
        return _check_trial(trial)
    finally:
        trial.close()


def _check_trial(trial: Trial) -> list[Check]:
    recording = trial.first
    checks = [_runs(trial)]
    if recording.steps:
        checks += [run_check(words(check), lambda check=check: check(recording)) for check in RECORDED]  # type: ignore[misc]
    if recording.error is None:
        checks += [run_check(words(check), lambda check=check: check(trial)) for check in REPEATED]  # type: ignore[misc]
    return checks


def _runs(trial: Trial) -> Check:
    if trial.first.error is not None:
        taken = max(0, len(trial.first.steps) - 1)
        return Check(RUNS, False, f"after {taken} steps: {describe_error(trial.first.error)}")
    built = trial.env.num_envs
    wrong = built != trial.copies
    return Check(RUNS, not wrong, f"{trial.copies} copies were requested and num_envs is {built}" if wrong else "")
