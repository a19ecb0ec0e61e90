"""`shoal plan`."""

from __future__ import annotations

from typing import Any

from shoal.cli.output import print_json
from shoal.recipes import find


def run(recipe: str, overrides: list[str], *, json: bool) -> None:
    """Expand the experiment and show it."""
    path = find(recipe)
    from shoal.api.experiment import load_experiment
    from shoal.launchers.program import expand, plan_of

    plan = plan_of(expand(load_experiment(path, overrides)))
    if json:
        print_json(plan)
    else:
        _show(plan)


def _show(plan: dict[str, Any]) -> None:
    from omegaconf import OmegaConf

    workers = ", ".join(f"{count} {name}{'s' * (count > 1)}" for name, count in plan["workers"].items())
    print(f"workers   {workers}")
    for name, policy in plan["policies"].items():
        print(f"policy    {name}: plays {', '.join(policy['agents'])}")
        print(f"          sees {policy['observation_space']}, does {policy['action_space']}")
        print(f"          {policy['parameters']:,} parameters, {policy['bytes_per_version']:,} bytes a version")
        size = f"{policy['lanes']} lanes x {policy['rows_per_fragment']} rows a fragment"
        print(f"          {size}, {policy['batch']:,} decisions a batch")
    print(f"memory    {plan['memory_bytes'] / 1e6:.1f} MB of streams")
    print("settings")
    for line in OmegaConf.to_yaml(OmegaConf.create(plan["settings"])).splitlines():
        print(f"          {line}")
