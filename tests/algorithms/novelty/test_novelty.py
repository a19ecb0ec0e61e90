"""Never give up: ladders, rewards and targets against slow numpy, arms in acting, columns of real runs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import shoal
from shoal.algorithms import ALGORITHMS
from shoal.algorithms.learner import SoloLearner
from shoal.algorithms.novelty.arms import discounts, weights
from shoal.algorithms.novelty.config import NGUConfig, NoveltyConfig
from shoal.algorithms.novelty.explorer import CuriousExplorer
from shoal.algorithms.novelty.learning import intrinsic, relabelled
from shoal.algorithms.novelty.ngu import NGU
from shoal.algorithms.q_learning.dqn import DQN
from shoal.algorithms.q_learning.ladder import Ladder, LadderExplorer
from shoal.api.algorithm import Task
from shoal.api.experiment import Experiment
from shoal.api.fragment import Fragment
from shoal.api.policy import Request
from shoal.base.config import Named
from shoal.base.errors import InputError
from tests.algorithms.batches import GROUP, GRU, MLP
from tests.algorithms.q_learning.test_q_learning import batch_of
from tests.algorithms.q_learning.test_q_learning import weights as stored

ARMS = 5


def make(model: Named = MLP, *, novelty: dict[str, Any] | None = None, **settings: Any) -> NGU:
    asked = {"arms": ARMS, "weight": 0.5, "gamma": 0.95, "gamma_last": 0.8, **(novelty or {})}
    config = NGUConfig(**{"unroll": 6, "batch": 24, "novelty": asked, **settings})  # type: ignore[arg-type]
    return NGU(config, model, Task(GROUP, 4, 1))


def curious_batch(algorithm: NGU) -> Fragment:
    """One row more than without novelty: row t+1 of a row that counts was decided on."""
    batch = batch_of(algorithm, masked=True)
    random = np.random.default_rng(5)
    rows, lanes = batch.valid.shape
    batch.valid[-algorithm.needs.bootstrap :] = False
    arm = np.repeat(random.integers(0, ARMS, (1, lanes)), rows, 0)
    arm[4:, 0], arm[2:, 1], arm[5:, 2] = 1, 4, 0  # new episodes begin there
    batch.extras["arm"] = torch.from_numpy(arm.astype(np.float32))
    batch.extras["novelty"] = torch.from_numpy(random.gamma(1.0, size=(rows, lanes)).astype(np.float32))
    return batch


@pytest.mark.parametrize(("novelty", "kind"), [(None, DQN), (False, DQN), (True, NGU), ({"arms": 3}, NGU)])
def test_the_section_chooses(novelty: Any, kind: type) -> None:
    cls = ALGORITHMS.load("dqn")
    config = cls.Config.parse({"name": "dqn", "unroll": 6, "batch": 24, "novelty": novelty})
    assert type(cls(config, MLP, Task(GROUP, 4, 1))) is kind


# ---------------------------------------------------------------- ladders


def test_ladders_of_weights_and_discounts() -> None:
    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    n = 32
    slow = [0.0 if i == 0 else 0.3 if i == n - 1 else 0.3 * sigmoid(10 * (2 * i - (n - 2)) / (n - 2)) for i in range(n)]
    assert weights(n, 0.3) == pytest.approx(slow)
    assert weights(2, 0.3) == [0.0, 0.3]
    found = discounts(n, 0.997, 0.99)
    slow = [1 - math.exp(((n - 1 - i) * math.log(1 - 0.997) + i * math.log(1 - 0.99)) / (n - 1)) for i in range(n)]
    assert found == pytest.approx(slow)
    assert (found[0], found[-1]) == pytest.approx((0.997, 0.99))
    assert found == sorted(found, reverse=True)


# ---------------------------------------------------------------- learning


def test_the_reward_for_novelty_is_that_of_the_next_observation() -> None:
    novelty = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    ends = torch.zeros(2, 4, 1, dtype=torch.bool)
    ends[0, 1], ends[1, 2] = True, True
    assert intrinsic(novelty, ends[0], ends[1])[:3, 0].tolist() == [2.0, 0.0, 0.0]


def test_some_lanes_get_another_arm_for_all_their_rows() -> None:
    arm = torch.arange(4000).remainder(ARMS).float().expand(3, 4000)
    found = relabelled(arm, ARMS, 0.5, np.random.default_rng(0))
    assert found.dtype == torch.int64
    assert (found == found[0]).all()
    kept = float((found[0] == arm[0].long()).float().mean())
    assert kept == pytest.approx(0.5 + 0.5 / ARMS, abs=0.03)
    assert torch.equal(relabelled(arm, ARMS, 0.0, np.random.default_rng(0)), arm.long())


def slow_targets(algorithm: NGU, batch: Fragment) -> dict[tuple[int, int], list[float]]:
    """Row by row and reward by reward, straight from the definitions. `batch`: as it was noted."""
    settings, config = algorithm.settings, algorithm.novelty
    beta, gamma = weights(ARMS, config.weight), discounts(ARMS, config.gamma, config.gamma_last)
    arm = batch.extras["arm"].long()
    seen = (batch.observation, batch.state, batch.first, arm)
    with torch.no_grad():
        online, target = (policy.parts(*seen)[0].numpy() for policy in (algorithm.policy, algorithm.target.module))
    separate = config.heads == "separate"
    found = {}
    for row, lane in np.argwhere(batch.valid.numpy()):
        way = int(arm[row, lane])
        totals, discount, at, more = np.zeros(2 if separate else 1), 1.0, row, 1.0
        for _ in range(settings.n_step):
            ended = bool(batch.terminated[at, lane] or batch.truncated[at, lane])
            world, new = float(batch.reward[at, lane]), 0.0 if ended else float(batch.extras["novelty"][at + 1, lane])
            totals += discount * (np.array([world, new]) if separate else np.array([world + beta[way] * new]))
            discount *= gamma[way]
            more = 0.0 if batch.terminated[at, lane] else 1.0
            at += 1
            if ended:
                break
        chooser = (online if settings.double else target)[at, lane]
        blended = chooser[:, 0] + (beta[int(arm[at, lane])] * chooser[:, 1] if separate else 0.0)
        best = max(np.flatnonzero(batch.action_mask[at, lane]), key=lambda choice: blended[choice])
        found[row, lane] = (totals + more * discount * target[at, lane, best]).tolist()
    return found


@pytest.mark.parametrize("heads", ["joint", "separate"])
@pytest.mark.parametrize("settings", [{}, {"n_step": 3}, {"double": False, "n_step": 2, "dueling": True}])
@pytest.mark.parametrize("model", [MLP, GRU], ids=["mlp", "gru"])
def test_targets(heads: str, settings: dict[str, Any], model: Named) -> None:
    algorithm = make(model, novelty={"heads": heads, "relabel": 0.0}, **settings)
    with torch.no_grad():
        algorithm.target.flat.parameters.mul_(-1.5)
    noted = curious_batch(algorithm)
    slow = slow_targets(algorithm, noted)
    assert len(slow) >= 16
    batch = algorithm._prepared(noted)
    found_values = algorithm._evaluate(batch)
    target = algorithm.targets(batch, found_values)
    for (row, lane), expected in slow.items():
        assert target[row, lane].reshape(-1).tolist() == pytest.approx(expected, abs=1e-5)
    metrics = algorithm.update(noted, SoloLearner()).metrics
    assert metrics["train/target_mean"].value == pytest.approx(np.mean(list(slow.values())), abs=1e-5)


def test_a_version_carries_statistics_and_state_goes_on() -> None:
    one, other = make(), make()
    one.update(curious_batch(one), SoloLearner())
    other.flat.load(one.flat.block)
    assert float(other.policy.curious.surprise.updates) == 1
    assert torch.equal(other.policy.curious.surprise.moments.mean, one.policy.curious.surprise.moments.mean)
    assert float(other.policy.curious.surprise.moments.mean.abs().max()) > 0
    again = make()
    again.load_state_dict({name: value.clone() for name, value in one.state_dict().items()})
    for algorithm in (one, again):
        algorithm.update(curious_batch(algorithm), SoloLearner())
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), again.state_dict().values(), strict=True))


def test_losses_beside_do_not_move_the_values_networks() -> None:
    """The networks are disjoint: with one optimiser the losses only add up."""
    algorithm = make()
    batch = algorithm._prepared(curious_batch(algorithm))
    loss, metrics = algorithm._beside(batch, SoloLearner())
    assert loss is not None
    assert set(metrics) == {"train/surprise_loss", "train/inverse_loss", "train/inverse_right", "train/intrinsic_mean"}
    assert algorithm.flat.gradients is not None
    algorithm.flat.gradients.zero_()
    loss.backward()
    moved = {
        name.split(".")[0] for name, p in algorithm.policy.named_parameters() if p.grad is not None and p.grad.any()
    }
    assert moved == {"curious"}


# ---------------------------------------------------------------- acting


def test_arms_decide_and_evaluation_plays_arm_0() -> None:
    algorithm = make(epsilon=0.0)
    with torch.no_grad():
        algorithm.flat.parameters.normal_()
    rows = 200
    seen, first = torch.randn(rows, 3), torch.ones(rows, dtype=torch.bool)
    arm = torch.arange(rows).remainder(ARMS)
    request = Request(seen, first, torch.rand(rows, 2), None, None, arm.float().unsqueeze(-1))
    with torch.no_grad():
        taken, found_values = algorithm.policy.act(request, explore=True), algorithm.policy.act(request, explore=False)
        by_arm = [
            algorithm.policy.values(seen[None], None, first[None], torch.full((1, rows), a))[0][0] for a in range(ARMS)
        ]
    assert taken.action.tolist() == [int(by_arm[int(a)][i].argmax()) for i, a in enumerate(arm)]
    assert found_values.action.tolist() == by_arm[0].argmax(-1).tolist()
    assert len({tuple(values.argmax(-1).tolist()) for values in by_arm}) > 1
    assert {name: tuple(extra.shape) for name, extra in taken.extras.items()} == {
        "embedding": (rows, 32),
        "surprise": (rows,),
    }
    assert found_values.extras == {}


def test_separate_values_are_added_up_by_the_weight_of_the_arm() -> None:
    algorithm = make(novelty={"heads": "separate"})
    seen, first = torch.randn(1, 9, 3), torch.ones(1, 9, dtype=torch.bool)
    for arm, weight in enumerate(weights(ARMS, 0.5)):
        ways = torch.full((1, 9), arm)
        with torch.no_grad():
            parts = algorithm.policy.parts(seen, None, first, ways)[0]
            values = algorithm.policy.values(seen, None, first, ways)[0]
        assert torch.allclose(values, parts[..., 0] + weight * parts[..., 1])


def explorer(*, ladder: bool = False, **settings: Any) -> CuriousExplorer:
    lanes = np.arange(4)
    below = LadderExplorer(Ladder(), lanes, 4) if ladder else None
    return CuriousExplorer(NoveltyConfig(arms=3, **settings), lanes, 2, seed=1, ladder=below)


def test_novelty_within_the_episode_is_multiplied_by_bounded_surprise() -> None:
    exploring = explorer(neighbours=1, limit=4.0)
    knobs = exploring.begin(np.arange(4))
    place = np.ones((4, 2), np.float32)
    surprise = np.array([0.2, 2.5, 9.0, 3.0], np.float32)
    acting = np.array([True, True, True, False])
    noted = exploring.shape({"embedding": place, "surprise": surprise}, knobs, acting)
    assert noted["novelty"].tolist() == [1.0, 2.5, 4.0, 0.0]
    assert noted["arm"].tolist() == knobs[:, 0].tolist()
    again = exploring.shape({"embedding": place, "surprise": surprise}, knobs, np.ones(4, bool))["novelty"]
    assert (again[:3] < 0.2).all()
    assert again[3] == 3.0, "it did not act before, so nothing was remembered"
    exploring.begin(np.array([1]))
    assert exploring.shape({"embedding": place, "surprise": surprise}, knobs, np.ones(4, bool))["novelty"][1] == 2.5


def test_returns_reach_the_arm_that_was_played() -> None:
    """Arm 2 pays: after every arm had its turn, all lanes play it."""
    exploring = explorer(controller={"bonus": 0.0})
    knobs = exploring.begin(np.arange(4))
    for _ in range(3):
        for row in (2, 0, 3, 1):
            exploring.end(np.array([row]), np.array([float(knobs[row, 0] == 2)]))
            knobs[row] = exploring.begin(np.array([row]))
    assert knobs[:, 0].tolist() == [2.0] * 4
    told = exploring.metrics()
    assert [told[f"arm/{arm}/return"].value for arm in range(3)] == [0.0, 0.0, 1.0]
    assert sum(told[f"arm/{arm}/episodes"].value for arm in range(3)) == 12


def test_without_a_controller_lanes_keep_their_arms_and_a_ladder_stands_before_the_arm() -> None:
    exploring = explorer(ladder=True, controller=False)
    knobs = exploring.begin(np.arange(4))
    assert knobs[:, 1].tolist() == [0.0, 1.0, 2.0, 0.0]
    assert knobs[:, 0].tolist() == pytest.approx([0.4, 0.4 ** (1 + 7 / 3), 0.4 ** (1 + 14 / 3), 0.4**8])
    noted = exploring.shape(
        {"embedding": np.zeros((4, 2), np.float32), "surprise": np.ones(4, np.float32)}, knobs, np.ones(4, bool)
    )
    assert noted["epsilon"].tolist() == knobs[:, 0].tolist()
    exploring.end(np.array([3]), np.array([7.0]))
    assert {"arm/0/return", "ladder/4", "novelty"} <= set(exploring.metrics())


# ---------------------------------------------------------------- runs


def experiment(**sections: Any) -> Experiment:
    tree: dict[str, Any] = {
        "env": {"id": "CartPole-v1", "num_envs": 8},
        "algorithm": {
            "name": "dqn", "unroll": 4, "batch": 32, "warmup": 100, "updates": 2, "n_step": 2, "novelty": {"arms": 6},
        },
        "model": {"name": "mlp", "hidden": [16]},
        "stop": {"updates": 30},
        "placement": {},
        "name": "curious",
    }  # fmt: skip
    for name, values in sections.items():
        tree[name] = {**tree[name], **values}
    return Experiment.parse(tree)


@pytest.mark.parametrize("model", ["mlp", "gru"])
@pytest.mark.parametrize("placement", [{"actors": 2}, {"actors": 2, "inference": "worker"}])
def test_equal_bits_in_processes(tmp_path: Path, placement: dict[str, Any], model: str) -> None:
    settings = {"epsilon": {"base": 0.4, "alpha": 7}, "burn_in": 2 * (model == "gru")}
    tree = experiment(placement=placement, model={"name": model}, algorithm=settings)
    inline = shoal.train(tree, root=tmp_path / "inline", quiet=True, on="inline")
    local = shoal.train(tree, root=tmp_path / "local", quiet=True, on="local")
    one, two = stored(inline.folder), stored(local.folder)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert int(one["agent/updates"]) > 0


def test_what_counts_was_noted(tmp_path: Path) -> None:
    """An arm holds for its episode, also into the row whose novelty is the reward; a row that nobody decided on would differ."""
    tree = experiment(
        algorithm={"name": "tests.algorithms.novelty.watched_novelty:WatchedNovelty"}, stop={"updates": 60}
    )
    folder = shoal.train(tree, root=tmp_path, quiet=True, on="inline").folder
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    seen = [row for row in rows if "train/arm_off" in row]
    assert len(seen) > 40
    assert max(row["train/arm_off"] for row in seen) == 0
    assert max(row["train/novelty_least"] for row in seen) > 0
    assert max(row["train/arms_seen"] for row in seen) == 6
    assert any("rollout/arm/0/return" in row for row in rows)


def test_squeezed_values_are_not_added_up() -> None:
    """Separate heads are summed by weight, which squeezed values cannot be."""
    NGUConfig.parse({"rescale": True, "novelty": {"heads": "joint"}})
    with pytest.raises(InputError, match="heads = joint"):
        NGUConfig.parse({"rescale": True, "novelty": {"heads": "separate"}})
