"""The ids of Shoal's own environments. Light to import."""

from __future__ import annotations

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
    "shoal/rps": "shoal.envs.games.matrix:RpsEnv",
    "shoal/blotto": "shoal.envs.games.matrix:BlottoEnv",
    "shoal/kuhn": "shoal.envs.games.poker:KuhnPoker",
    "shoal/leduc": "shoal.envs.games.poker:LeducPoker",
    "shoal/tic-tac-toe": "shoal.envs.games.tic_tac_toe:TicTacToeEnv",
    "shoal/goofspiel": "shoal.envs.games.goofspiel:GoofspielEnv",
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

OUTSIDE = {"unity": "shoal.envs.unity.env:make", "godot": "shoal.envs.godot.env:make"}
"""Games that run as processes of their own, as in `unity:path/to/Build.x86_64`: the word before the colon -> who makes an Env."""


def outside_of(env_id: str) -> tuple[str, str] | None:
    """Kind and target of such an id; None: it is another."""
    kind, colon, target = env_id.partition(":")
    return (kind, target) if colon and kind in OUTSIDE else None
