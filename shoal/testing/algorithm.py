"""The conformance suite of `Algorithm`: any algorithm in, checks out. It learns from random experience of its own policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shoal.algorithms.learner import SoloLearner
from shoal.api.algorithm import Algorithm, Differentiable, NonFiniteError, Optimiser, Task, Update
from shoal.api.fragment import Fragment
from shoal.api.metric import METRICS
from shoal.base.config import Config, Named
from shoal.base.tree import tree_leaves
from shoal.testing.check import Broken, Check, describe_error, expect, run_check, words
from shoal.testing.experience import batch_of, fragment_of

MLP: Mapping[str, Any] = {"name": "mlp", "hidden": [16]}


@dataclass(frozen=True)
class Trial:
    """How to build the algorithm, and what for."""

    kind: type[Algorithm]
    config: Config
    model: Named
    task: Task
    masked: bool

    def build(self, seed: int = 0) -> Algorithm:
        """One more, equal to all others of this seed, whatever torch's global generator has drawn before."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(np.random.default_rng().integers(2**31))
            return self.kind(self.config, self.model, replace(self.task, seed=self.task.seed + seed))

    def batch(self, algorithm: Algorithm, seed: int = 0) -> Fragment:
        """Experience of its policy as it is now."""
        return batch_of(algorithm, self.task, seed=seed, masked=self.masked)


def check_algorithm(
    kind: type[Algorithm],
    task: Task,
    *,
    config: Config | Mapping[str, Any] | None = None,
    model: Named | Mapping[str, Any] = MLP,
    masked: bool = False,
) -> list[Check]:
    """Check an algorithm against its contract. Keep the task small: it is built and updated about twenty times.

    `config` and `model` are what an experiment's sections would be. `masked`: let random action masks forbid about half.
    """
    settings = config if isinstance(config, Config) else kind.Config.parse(dict(config or {}))
    section = model if isinstance(model, Named) else Named.parse(dict(model))
    trial = Trial(kind, settings, section, task, masked)
    try:
        trial.build()
    except Exception as error:
        return [Check("it can be built", False, describe_error(error))]
    return [run_check(words(check), lambda check=check: check(trial)) for check in CHECKS]  # type: ignore[misc]


# ---------------------------------------------------------------- what it states


def its_needs_make_sense(trial: Trial) -> str:
    """Counts are not negative, and replay is large enough for what it is to give."""
    needs = trial.build().needs
    least = {"unroll": 1, "bootstrap": 0, "burn_in": 0, "max_lag": 0}
    for name, low in least.items():
        value = getattr(needs, name)
        expect(isinstance(value, int) and value >= low, f"needs.{name} is {value!r}: make it {low} or more")
    if needs.replay is not None:
        replay = needs.replay
        expect(min(replay.sequences, replay.updates) >= 1, f"{replay}: draw and update at least once")
        expect(
            replay.capacity >= max(replay.warmup, replay.sequences * needs.unroll),
            f"needs.replay keeps {replay.capacity} rows, fewer than one batch or the warm-up needs: raise the capacity",
        )
    expect(
        not needs.global_state or trial.task.state_space is not None,
        "needs.global_state is set: give the Task a `state_space`",
    )
    return ""


def the_policy_lies_in_its_block(trial: Trial) -> str:
    """`flat` holds all parameters and buffers of `policy`: it is what is published."""
    algorithm = trial.build()
    for name, tensor in algorithm.policy.state_dict().items():
        expect(
            _inside(tensor, algorithm.flat.block),
            f"policy.{name} is not in `flat`: build Flat(policy) last, after all modules are part of the policy",
        )
    return ""


# ---------------------------------------------------------------- update


def an_update_changes_parameters_and_keeps_them_finite(trial: Trial) -> str:
    """It learns from valid rows, and metrics and priorities are numbers."""
    algorithm = trial.build()
    before = algorithm.flat.parameters.clone()
    for number in range(2):
        batch = trial.batch(algorithm, number)
        update = algorithm.update(batch, SoloLearner())
        _expect_sound(algorithm, batch, update)
    expect(
        not torch.equal(before, algorithm.flat.parameters),
        "two updates left the policy as it was: pass the loss to learner.step, and never set a gradient to None",
    )
    missing = [name for name in algorithm.key_metrics if f"train/{name}" not in update.metrics]
    expect(not missing, f"key_metrics names {missing}, which update does not give as train/...")
    _expect_finite(algorithm, "after an update on finite experience")
    return ""


def _expect_sound(algorithm: Algorithm, batch: Fragment, update: Update) -> None:
    for name, metric in update.metrics.items():
        fine = isinstance(metric, tuple(METRICS.values())) and math.isfinite(metric.value)
        expect(fine, f"metric '{name}' is {metric!r}: make it a finite Mean, Total, Last or Largest")
    replay = algorithm.needs.replay
    if replay is None or replay.priorities is None:
        expect(update.priorities is None, "update gives priorities, which needs.replay does not request")
        return
    lanes = len(batch.lanes)
    if update.priorities is None or tuple(update.priorities.shape) != (lanes,):
        raise Broken(f"needs.replay requests priorities: let update give one for each of the {lanes} lanes")
    fine = bool(update.priorities.isfinite().all()) and bool((update.priorities >= 0).all())
    expect(fine, "priorities must be finite and not negative")


def equal_seeds_give_equal_bits(trial: Trial) -> str:
    """And other seeds other parameters. Nothing is drawn from a global generator."""
    one, two, other = trial.build(), trial.build(), trial.build(seed=1)
    expect(
        _same(one, two),
        "equal seeds start from different parameters: torch.manual_seed(derive_seed(task.seed, ...)) first",
    )
    expect(
        not torch.equal(one.flat.parameters, other.flat.parameters),
        "another task.seed starts from the same parameters: seed torch by it before the networks are built",
    )
    for number in range(2):
        batch = trial.batch(one, number)
        for algorithm, noise in ((one, 1), (two, 2)):
            _update(algorithm, batch, noise)
        expect(
            _same(one, two),
            f"update {number} on equal batches gives different bits: draw from shoal.base.seeding.generator alone",
        )
    return ""


def a_state_dict_goes_on_equally(trial: Trial) -> str:
    """Whoever loads it makes the same next update."""
    one, other = trial.build(), trial.build(seed=1)
    _update(one, trial.batch(one, 0), 1)
    _update(other, trial.batch(other, 5), 1)
    saved = {name: value.clone() for name, value in one.state_dict().items()}
    other = _loaded(trial, other, saved)
    expect(_same(one, other), "state_dict changes on its way through load_state_dict: load every entry")
    batch = trial.batch(one, 1)
    for algorithm in (one, other):
        _update(algorithm, batch, 1)
    expect(
        _same(one, other),
        "the update after load_state_dict differs: save optimisers, targets and counters as well",
    )
    return ""


def _loaded(trial: Trial, used: Algorithm, saved: dict[str, Tensor]) -> Algorithm:
    """A new one that goes on from `saved`; the used one loads it too, which must not fail."""
    used.load_state_dict({name: value.clone() for name, value in saved.items()})
    fresh = trial.build()
    fresh.load_state_dict({name: value.clone() for name, value in saved.items()})
    expect(_same(used, fresh), "load_state_dict leaves something of the algorithm that loads: overwrite all of it")
    return fresh


def a_batch_with_nan_is_refused(trial: Trial) -> str:
    """NonFiniteError, parameters and statistics stay finite, and the next batch is learned from."""
    for what in ("reward", "observation"):
        algorithm = trial.build()
        batch = trial.batch(algorithm)
        if not _poison(batch, what):
            continue
        try:
            _update(algorithm, batch, 1)
        except NonFiniteError:
            pass
        else:
            raise Broken(f"a NaN {what} went unnoticed: let it flow into the loss; learner.step raises NonFiniteError")
        _expect_finite(algorithm, f"after a batch with a NaN {what}")
        _update(algorithm, trial.batch(algorithm, 1), 1)
        _expect_finite(algorithm, f"after the batch behind a NaN {what}")
    return ""


def _poison(batch: Fragment, what: str) -> bool:
    """NaN in one valid row; False: there are no floats."""
    row, lane = batch.valid.nonzero()[0].tolist()
    leaves = [leaf for _, leaf in tree_leaves(getattr(batch, what)) if leaf.is_floating_point()]
    for leaf in leaves:
        leaf[row, lane] = math.nan
    return bool(leaves)


# ---------------------------------------------------------------- prepare, optimisers


def prepare_is_pure(trial: Trial) -> str:
    """Equal fragments give equal fragments, before and after an update; what goes in stays as it was."""
    algorithm = trial.build()
    played = fragment_of(algorithm, trial.task, seed=0, masked=trial.masked)
    given = played.map(np.copy)
    one = algorithm.prepare(given).map(np.copy)
    _expect_equal(given, played, "prepare changed the fragment it was given: copy before you write")
    for field, (left, right) in _columns(one, played).items():
        same = left.shape == right.shape and left.dtype == right.dtype
        expect(same, f"prepare made {field} {left.shape} {left.dtype}: keep {right.shape} {right.dtype}")
    _update(algorithm, trial.batch(algorithm), 1)
    two = algorithm.prepare(played.map(np.copy))
    _expect_equal(one, two, "prepare gives something else the second time: let it depend on the fragment alone")
    return ""


def _expect_equal(one: Fragment, two: Fragment, text: str) -> None:
    for left, right in _columns(one, two).values():
        expect(left.tobytes() == right.tobytes(), text)


def _columns(one: Fragment, two: Fragment) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    left, right = dict(tree_leaves(vars(one))), dict(tree_leaves(vars(two)))
    return {path: (left[path], right[path]) for path in left.keys() & right.keys()}


def all_that_learns_belongs_to_an_optimiser(trial: Trial) -> str:
    """Every parameter with a gradient lies in the block of one of `optimisers`: replicas share those blocks, and no others."""
    algorithm, learner = trial.build(), _Recorder()
    algorithm.update(trial.batch(algorithm), learner)
    expect(learner.used, "update never called learner.step")
    listed = algorithm.optimisers
    unlisted = [used for used in learner.used if not any(used is known for known in listed)]
    expect(not unlisted, f"update steps {len(unlisted)} optimiser(s) that `optimisers` does not list: add them")
    blocks = [optimiser.flat.block for optimiser in listed]
    for leaf in learner.leaves:
        expect(
            any(_inside(leaf, block) for block in blocks),
            f"a parameter of shape {tuple(leaf.shape)} gets a gradient and lies in no optimiser's block: "
            "build Flat after all modules are in place, or detach it",
        )
    return ""


class _Recorder(SoloLearner):
    """Remembers which optimisers step, and which leaves their losses reach."""

    def __init__(self) -> None:
        super().__init__()
        self.used: list[Optimiser] = []
        self.leaves: list[Tensor] = []

    def step(self, loss: Tensor | Differentiable, optimiser: Optimiser, weight: float = 1.0) -> float:
        self.used.append(optimiser)
        if isinstance(loss, Tensor):
            self.leaves.extend(_leaves_of(loss))
        return super().step(loss, optimiser, weight)


def _leaves_of(loss: Tensor) -> Iterator[Tensor]:
    """The leaves of a graph that gradients would reach."""
    todo, seen = [loss.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)  # of AccumulateGrad nodes alone
        if leaf is not None:
            yield leaf
        todo.extend(following for following, _ in node.next_functions)


CHECKS: tuple[Callable[[Trial], str], ...] = (
    its_needs_make_sense,
    the_policy_lies_in_its_block,
    an_update_changes_parameters_and_keeps_them_finite,
    equal_seeds_give_equal_bits,
    a_state_dict_goes_on_equally,
    a_batch_with_nan_is_refused,
    prepare_is_pure,
    all_that_learns_belongs_to_an_optimiser,
)


# ---------------------------------------------------------------- the parts


def _update(algorithm: Algorithm, batch: Fragment, noise: int) -> Update:
    """On a copy of the batch, with torch's global generator at another place for another `noise`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(noise)
        return algorithm.update(batch.map(torch.clone), SoloLearner())


def _same(one: Algorithm, two: Algorithm) -> bool:
    left, right = one.state_dict(), two.state_dict()
    return left.keys() == right.keys() and all(_equal(left[name], right[name]) for name in left)


def _equal(one: Tensor, two: Tensor) -> bool:
    return one.shape == two.shape and one.dtype == two.dtype and one.numpy().tobytes() == two.numpy().tobytes()


def _inside(tensor: Tensor, block: Tensor) -> bool:
    start, stop = block.data_ptr(), block.data_ptr() + block.nbytes
    return not tensor.numel() or start <= tensor.data_ptr() < stop


def _expect_finite(algorithm: Algorithm, when: str) -> None:
    for name, value in algorithm.state_dict().items():
        expect(bool(value.isfinite().all()), f"{name} is not finite {when}")
