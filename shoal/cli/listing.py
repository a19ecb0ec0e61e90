"""`shoal list`."""

from __future__ import annotations

from typing import Any

from shoal.cli.output import print_json
from shoal.recipes import describe, names


def run(*, json: bool) -> None:
    """Everything that can be named in an experiment."""
    listing = _listing()
    if json:
        print_json(listing)
        return
    for kind, entries in listing.items():
        print(f"{kind}:")
        width = max(map(len, entries), default=0)
        for name, text in entries.items():
            print(f"  {name:<{width}}  {text}".rstrip())
    print("Your own go by module:Class or file.py:Class.")


def _listing() -> dict[str, dict[str, str]]:
    import gymnasium

    from shoal.algorithms import ALGORITHMS
    from shoal.base.table import import_target
    from shoal.envs.factory import family_extras
    from shoal.envs.registry import ENVS, OUTSIDE
    from shoal.envs.wrappers import WRAPPERS
    from shoal.models import MODELS

    families = {f"{name}/NAME": f'pip install "shoal[{extra}]"' for name, extra in family_extras().items()}
    ids = {name: "gymnasium" for name in sorted(gymnasium.registry) if "/" not in name}
    return {
        "recipes": {name: describe(name) for name in names()},
        "algorithms": {name: _summary(ALGORITHMS.load(name).Config) for name in ALGORITHMS.entries},
        "models": {"auto": "Chosen by the observation space."}
        | {name: _summary(MODELS.load(name)) for name in MODELS.entries},
        "environments": dict.fromkeys(ENVS, "shoal")
        | {f"{kind}:FILE": f"a game of {kind}'s" for kind in OUTSIDE}
        | families
        | ids,
        "wrappers": {name: _summary(import_target(target, key="env.wrappers")) for name, target in WRAPPERS.items()},
    }


def _summary(cls: Any) -> str:
    return (cls.__doc__ or "").strip().splitlines()[0]
