"""Games of one move, made by both at once: `shoal/rps`, `shoal/blotto`."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import product

import numpy as np

from shoal.api.env import Array
from shoal.envs.games.rules import OVER, Rules
from shoal.envs.games.table_env import TableEnv

Moves = tuple[int, ...]


class Matrix(Rules):
    """Two players, one move each, nobody sees the other's; `pays[first, second]` is what the first earns, and the second loses."""

    players, simultaneous = 2, True
    pays: Array

    def start(self) -> Moves:
        return ()

    def mover(self, state: Moves) -> int:
        return OVER if len(state) == 2 else len(state)

    def legal(self, state: Moves) -> list[int]:
        return list(range(self.actions))

    def follow(self, state: Moves, action: int) -> Moves:
        return (*state, action)

    def payoff(self, state: Moves) -> tuple[float, ...]:
        won = float(self.pays[state])
        return won, -won

    def knows(self, state: Moves, player: int) -> Hashable:
        return state[player : player + 1]

    def see(self, state: Moves, player: int) -> Array:
        """Which player it is."""
        return np.eye(2)[player]

    def describe(self, seen: Array) -> str:
        return "both move at once"


class RockPaperScissors(Matrix):
    """The winner earns 1. Biased, as in OpenSpiel but for the scale, wins pay 0.05 to 0.5, and (1/16, 10/16, 5/16) is best."""

    actions = 3
    BIASED = np.array([[0, -0.25, 0.5], [0.25, 0, -0.05], [-0.5, 0.05, 0]])

    def __init__(self, biased: float = False) -> None:
        plain = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
        self.pays = self.BIASED if biased else plain

    def action_names(self) -> list[str]:
        return ["rock", "paper", "scissors"]


class Blotto(Matrix):
    """Both share out so many coins over fields; whoever has more of them with more coins wins 1."""

    def __init__(self, coins: float = 10, fields: float = 3) -> None:
        shares = [share for share in product(range(int(coins) + 1), repeat=int(fields)) if sum(share) == coins]
        self.shares = np.array(shares)
        self.actions = len(shares)
        fields_won = np.sign(self.shares[:, None] - self.shares[None]).sum(axis=2)
        self.pays = np.sign(fields_won).astype(float)

    def action_names(self) -> list[str]:
        return ["-".join(map(str, share)) for share in self.shares.tolist()]


class RpsEnv(TableEnv):
    """Rock, paper, scissors; `biased`: what wins pays differently."""

    rules = RockPaperScissors

    def __init__(self, num_envs: int, *, first_slot: int = 0, biased: bool = False) -> None:
        super().__init__(num_envs, biased, first_slot=first_slot)


class BlottoEnv(TableEnv):
    """Colonel Blotto with so many `coins` and `fields`."""

    rules = Blotto

    def __init__(self, num_envs: int, *, first_slot: int = 0, coins: int = 10, fields: int = 3) -> None:
        super().__init__(num_envs, coins, fields, first_slot=first_slot)
