"""An algorithm and a model of your own, in one file.

The algorithm is advantage-weighted regression on fresh experience: make likelier what went better than expected, by a
factor that grows with how much better. The model sees its observation through random sines. Both have settings of their
own, which are checked like Shoal's.

    python examples/own_algorithm.py
    shoal train cartpole algorithm.name=examples/own_algorithm.py:Weighted model.name=examples/own_algorithm.py:Sines
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from gymnasium import Space
from pydantic import Field
from torch import Tensor, nn

import shoal
from shoal.algorithms.actor_critic.policy import ActorCritic
from shoal.algorithms.learner import Adam
from shoal.algorithms.returns import gae
from shoal.api.algorithm import Algorithm, Learner, Needs, Task, Update
from shoal.api.fragment import Fragment
from shoal.api.metric import Mean
from shoal.api.policy import Model
from shoal.base.config import Config, Count, Named
from shoal.base.flat import Flat
from shoal.base.seeding import derive_seed


class SinesConfig(Config):
    """Random frequencies, then one dense layer."""

    waves: Count = Field(64, ge=1)
    """How many sines."""
    scale: float = Field(1.0, gt=0)
    """How fast they turn: higher sees finer differences."""


class Sines(Model):
    """`[R, B, n]` -> `[R, B, 64]`."""

    Config = SinesConfig
    features = 64

    def __init__(self, observation_space: Space[Any], config: SinesConfig) -> None:
        super().__init__(observation_space, config)
        assert observation_space.shape is not None
        self.register_buffer("turns", torch.randn(observation_space.shape[0], config.waves) * config.scale)
        self.dense = nn.Linear(2 * config.waves, self.features)

    def forward(self, observation: Tensor, state: None, first: Tensor) -> tuple[Tensor, None]:
        angle = observation @ self.turns
        return torch.tanh(self.dense(torch.cat([angle.sin(), angle.cos()], -1))), None


class WeightedConfig(Config):
    """Advantage-weighted regression."""

    lr: float = Field(2e-3, gt=0)
    """Learning rate of Adam."""
    unroll: Count = Field(64, ge=1)
    """Decisions per lane in one batch."""
    gamma: float = Field(0.98, ge=0, le=1)
    """Discount."""
    beta: float = Field(0.5, gt=0)
    """Advantages, in units of their spread, are divided by it: lower trusts the best decisions more."""
    passes: Count = Field(8, ge=1)
    """Steps along the gradient for each batch."""


class Weighted(Algorithm):
    Config = WeightedConfig
    policy: ActorCritic
    key_metrics = ("policy_loss", "value_loss", "weight")

    def __init__(self, config: WeightedConfig, model: Named, task: Task) -> None:
        self.config = config
        self.needs = Needs(unroll=config.unroll)
        torch.manual_seed(derive_seed(task.seed, "initial weights"))
        self.policy = ActorCritic(task.group, model, shared=None, normalise=False, squash=False)
        self.flat = Flat(self.policy, gradients=True)
        self.optimiser = Adam(self.flat, lr=config.lr, max_grad_norm=0.5)
        self.optimisers = (self.optimiser,)

    def update(self, batch: Fragment, learner: Learner) -> Update:
        weight = target = None
        for _ in range(self.config.passes):
            seen = self.policy.evaluate(batch.observation, batch.state, batch.first, batch.action, batch.action_mask)
            if weight is None or target is None:
                weight, target = self._weigh(batch, seen.value.detach())
            valid = batch.valid
            policy_loss = -(weight * seen.log_prob)[valid].mean()
            value_loss = (seen.value - target)[valid].square().mean()
            learner.step(policy_loss + 0.5 * value_loss, self.optimiser, int(valid.sum()))
        named = {"policy_loss": policy_loss, "value_loss": value_loss, "weight": weight[valid].mean()}
        return Update({f"train/{name}": Mean(float(number.detach())) for name, number in named.items()})

    def _weigh(self, batch: Fragment, value: Tensor) -> tuple[Tensor, Tensor]:
        """How much each decision counts, and what values should become."""
        ends = (batch.terminated, batch.truncated, batch.valid)
        advantage = gae(batch.reward, value, *ends, gamma=self.config.gamma, lam=0.95)
        spread = advantage[batch.valid].std() + 1e-6
        return (advantage / spread / self.config.beta).clamp(max=3.0).exp(), advantage + value

    def state_dict(self) -> dict[str, Tensor]:
        state = {f"policy.{name}": tensor for name, tensor in self.policy.state_dict().items()}
        return state | {f"optimiser.{name}": tensor for name, tensor in self.optimiser.state_dict().items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for owner, name in ((self.policy, "policy."), (self.optimiser, "optimiser.")):
            owner.load_state_dict({k.removeprefix(name): v for k, v in state.items() if k.startswith(name)})


def main() -> None:
    parser = argparse.ArgumentParser(description="An algorithm and a model of your own.")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--root", default="runs")
    options = parser.parse_args()
    experiment = shoal.Experiment.parse(
        {
            "env": {"id": "CartPole-v1", "num_envs": 16},
            "algorithm": {"name": f"{__file__}:Weighted"},
            "model": {"name": f"{__file__}:Sines"},
            "stop": {"steps": options.steps},
            "name": "own",
        }
    )
    outcome = shoal.train(experiment, root=options.root, quiet=True)
    scores, _ = shoal.evaluate(str(outcome.folder), episodes=20)
    print(f"greedy return {scores.mean:.1f} after {outcome.steps:,} steps")


if __name__ == "__main__":
    main()
