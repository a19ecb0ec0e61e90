"""A sweep: every combination of a grid with every seed is a member, and each is trained to its end."""

from __future__ import annotations

import itertools
import re
from typing import Any

from shoal.api.population import SweepConfig
from shoal.base.config import load_layers
from shoal.base.errors import InputError
from shoal.base.files import NAME
from shoal.population.settings import as_word
from shoal.population.state import Member, State
from shoal.population.strategy import Decision
from shoal.population.turn import Turn

LONGEST = 60
"""Characters of a member's name; what would be longer is numbered."""


class Sweep:
    """The strategy: nothing is decided but who there is."""

    def __init__(self, config: SweepConfig, seed: int) -> None:
        self._members = members_of(config, seed)

    def decide(self, state: State) -> list[Decision]:
        """Members that there are not yet."""
        return [
            {"kind": "member", "member": name, "words": words, "reason": "of the grid"}
            for name, words in self._members.items()
            if name not in state.members
        ]

    def turns(self, state: State) -> list[Turn]:
        """Each to its end."""
        return [Turn(member.name, member.words) for member in state.waiting() if member.name in self._members]

    def over(self, state: State) -> str | None:
        """Every run has ended, well or not."""
        living = [member for member in state.living() if member.name in self._members]
        if living:
            return None
        failed = sum(member.state == "failed" for member in state.members.values())
        return f"all {len(self._members)} runs have ended" + (f", {failed} failed" if failed else "")

    def line(self, member: Member) -> str:
        """Its name says it."""
        return "" if member.name[0] != "m" else ", ".join(member.words)


def members_of(config: SweepConfig, seed: int) -> dict[str, list[str]]:
    """Name -> settings on top: combination by combination, all seeds of each."""
    combinations = [
        [as_word(key, value) for key, value in zip(config.grid, values, strict=True)]
        for values in itertools.product(*config.grid.values())
    ]
    everyone = [[*words, f"seed={number}"] for words in combinations for number in range(seed, seed + config.seeds)]
    if "seed" in config.grid:
        raise InputError("sweep.grid: seeds are not of the grid: say how many with --seeds, from `seed` on")
    names = [_name(words) for words in everyone]
    if len(set(names)) < len(names) or any(name is None for name in names):
        names = [f"m{number}" for number in range(len(everyone))]
    return {str(name): words for name, words in zip(names, everyone, strict=True)}


def _name(words: list[str]) -> str | None:
    """`lr-0.001-seed-1`; None: it would be too long, or cannot name a folder."""
    parts = [
        re.sub(r"[^A-Za-z0-9._]+", "-", f"{word.partition('=')[0].rpartition('.')[2]}-{word.partition('=')[2]}")
        for word in words
    ]
    name = "-".join(part.strip("-") for part in parts)
    return name if len(name) <= LONGEST and NAME.fullmatch(name) else None


def split_words(words: list[str]) -> tuple[list[str], dict[str, list[Any]]]:
    """What a command says: settings, and the grid, `key=a,b` with commas outside of brackets."""
    plain, grid = [], {}
    for word in words:
        key, sign, text = word.partition("=")
        values = _split(text)
        if sign and len(values) > 1:
            grid[key] = [load_layers(None, [f"value={value}"])["value"] for value in values]
        else:
            plain.append(word)
    return plain, grid


def _split(text: str) -> list[str]:
    parts, depth, quote = [""], 0, ""
    for sign in text:
        if quote or sign in "'\"":
            quote = "" if sign == quote else quote or sign
        depth += (sign in "[{(") - (sign in "]})") if not quote else 0
        if sign == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]
