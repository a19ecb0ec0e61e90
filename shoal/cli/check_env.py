"""`shoal check-env`."""

from __future__ import annotations

from shoal.base.errors import ShoalError


def run(env: str, overrides: list[str]) -> None:
    """Run the conformance suite and print a line per check."""
    from shoal.api.experiment import EnvConfig
    from shoal.base.config import load_layers
    from shoal.testing.env import main_check

    checks = main_check(EnvConfig.parse({"id": env, **load_layers(None, overrides)}, at="env"))
    for check in checks:
        print(f"{'ok  ' if check.passed else 'FAIL'}  {check.name}{': ' + check.detail if check.detail else ''}")
    failed = sum(not check.passed for check in checks)
    if failed:
        raise ShoalError(f"{env} breaks {failed} of {len(checks)} checks; training on it would go wrong")
    print(f"{env} keeps all {len(checks)} checks")
