"""Policies as strategies on a game's table: asked at all that a player may know what they do how often."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np

from shoal.api.env import Array
from shoal.api.experiment import Experiment
from shoal.api.policy import Policy
from shoal.api.policy_spec import Source
from shoal.envs import make_env
from shoal.envs.games.table import Table
from shoal.envs.games.table_env import TableEnv
from shoal.monitoring.run_folder import RunFolder
from shoal.rollout.plans import load_source
from shoal.streams.inference import Ask, appraise
from shoal.testing.exploitability import Strategy, exploitability, mixture


def strategy_of(policy: Policy, table: Table) -> Strategy:
    """How often a policy does what, by all that each player may know. It has no memory: the games show all that counts."""
    found = []
    for seen, legal in zip(table.seen, table.legal, strict=True):
        shares = np.zeros(legal.shape)
        for action in range(table.actions):
            taken = np.where(legal[:, action], action, legal.argmax(axis=1))
            ask = Ask(seen, np.ones(len(seen), bool), np.zeros((len(seen), policy.noise_size), np.float32), None, legal)
            log_prob = appraise(policy, ask, taken)["log_prob"]
            shares[:, action] = np.where(legal[:, action], np.exp(log_prob), 0.0)
        found.append(shares / shares.sum(axis=1, keepdims=True))
    return found


def mixed(table: Table, strategies: list[Strategy], weights: Array) -> Strategy:
    """Somebody who draws one of them before each game."""
    return [mixture(table, [each[player] for each in strategies], weights, player) for player in range(table.players)]


def strategy_of_source(source: Source, table: Table) -> Strategy | None:
    """That of a policy of another run, or of a mixture; None: it cannot be asked, or remembers more than the game shows."""
    if source.mixture:
        parts = [strategy_of_source(each, table) for _, each in source.mixture]
        known = [part for part in parts if part is not None]
        weights = np.array([share for share, _ in source.mixture])
        return mixed(table, known, weights / weights.sum()) if len(known) == len(parts) else None
    policy = load_source(source).eval()
    if policy.agents or policy.initial_state(1) is not None:
        return None
    try:
        return strategy_of(policy, table)
    except KeyError:  # it says no probabilities
        return None


def exact_exploitability(run: Path, source: Source) -> float | None:
    """Of a policy, in the game that a run plays; None: the game is not played from a table, or the policy cannot be asked."""
    with closing(make_env(Experiment.parse(RunFolder(run).read_config()).env, 1)) as env:
        strategy = strategy_of_source(source, env.table) if isinstance(env, TableEnv) else None
        return None if strategy is None or not isinstance(env, TableEnv) else exploitability(env.table, strategy)
