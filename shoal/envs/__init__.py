"""Environments: adapters that turn other people's environments into an `Env`, and toy environments with known answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.api.env import Env
    from shoal.api.experiment import EnvConfig

AGENT = "agent"
"""The one group, and its one agent, of a single-agent environment."""

ENVS = {
    "shoal/chain": "shoal.envs.toys.single_agent:Chain",
    "shoal/cut": "shoal.envs.toys.single_agent:Cut",
    "shoal/recall": "shoal.envs.toys.single_agent:Recall",
    "shoal/target": "shoal.envs.toys.single_agent:Target",
    "shoal/masked": "shoal.envs.toys.single_agent:Masked",
    "shoal/signal": "shoal.envs.toys.signal:Signal",
    "shoal/deep-sea": "shoal.envs.native.deep_sea:DeepSea",
    "shoal/two-step": "shoal.envs.native.two_step:TwoStep",
    "shoal/multi-cartpole": "shoal.envs.native.multi_cartpole:MultiCartPole",
    "shoal/memory-corridor": "shoal.envs.native.memory_corridor:MemoryCorridor",
    "shoal/foraging": "shoal.envs.native.foraging:Foraging",
    "shoal/connect-four": "shoal.envs.native.connect_four:ConnectFour",
    "shoal/simple": "shoal.envs.mpe.spread:Simple.batch",
    "shoal/spread": "shoal.envs.mpe.spread:Spread.batch",
    "shoal/speaker-listener": "shoal.envs.mpe.talk:SpeakerListener.batch",
    "shoal/reference": "shoal.envs.mpe.talk:Reference.batch",
    "shoal/crypto": "shoal.envs.mpe.talk:Crypto.batch",
    "shoal/tag": "shoal.envs.mpe.chase:Tag.batch",
    "shoal/world-comm": "shoal.envs.mpe.chase:WorldComm.batch",
    "shoal/adversary": "shoal.envs.mpe.rivals:Adversary.batch",
    "shoal/push": "shoal.envs.mpe.rivals:Push.batch",
    "shoal/formation": "shoal.envs.mpe.formation:Formation.batch",
    "shoal/line": "shoal.envs.mpe.formation:Line.batch",
    "shoal/treasure": "shoal.envs.mpe.treasure:Treasure.batch",
}
"""Shoal's own environments: id -> `module:Class`, imported only when chosen."""


def make_env(config: EnvConfig, num_envs: int, *, first_slot: int = 0, render: bool = False) -> Env:
    """Build `num_envs` copies of the configured environment.

    `first_slot` is the run-wide number of the first copy: what a copy lives through follows from the seed and its own
    number, not from how copies are split over actors. `render`: build them so that they can be rendered.
    """
    from shoal.envs.factory import build_env

    return build_env(config, num_envs, first_slot=first_slot, render=render)
