"""`shoal check-env`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.base.errors import ShoalError

if TYPE_CHECKING:
    from shoal.api.experiment import EnvConfig
    from shoal.api.worker import Heartbeat
    from shoal.testing.check import Check


def _check(heartbeat: Heartbeat, config: EnvConfig) -> list[Check]:
    from shoal.testing.env import main_check

    return main_check(config, heartbeat)


def run(env: str, overrides: list[str]) -> None:
    """Run the conformance suite and print a line per check."""
    from shoal.api.experiment import EnvConfig
    from shoal.base.config import load_layers
    from shoal.launchers.errand import Errand, said_once
    from shoal.launchers.links import Limits

    config = EnvConfig.parse({"id": env, **load_layers(None, overrides)}, at="env")
    limits = Limits(config.timeout, config.timeout)
    checks = Errand(f"the check of {env}", limits, said_once(f"checking {env} ...")).run(_check, config)
    for check in checks:
        print(f"{'ok  ' if check.passed else 'FAIL'}  {check.name}{': ' + check.detail if check.detail else ''}")
    failed = sum(not check.passed for check in checks)
    if failed:
        raise ShoalError(f"{env} breaks {failed} of {len(checks)} checks; training on it would go wrong")
    print(f"{env} keeps all {len(checks)} checks")
