"""`shoal plan`."""

from __future__ import annotations

from typing import Any

from shoal.base.errors import InputError, ShoalError
from shoal.base.importing import importing
from shoal.cli.output import print_json
from shoal.recipes import find


def run(recipe: str, overrides: list[str], *, json: bool, on: str, address: str | None) -> None:
    """Expand the experiment and show it; for a cluster, also what fits where."""
    if address and on != "ray":
        raise InputError("--address is for --on ray")
    path = find(recipe)
    with importing():
        from shoal.api.experiment import load_experiment
        from shoal.program.expand import expand
        from shoal.program.report import plan_of
        from shoal.runs.train import check_launcher

    check_launcher(on)
    experiment, fit = load_experiment(path, overrides), None
    if on == "ray":
        from shoal.launchers.ray.cluster import plan_fit

        experiment, fit = plan_fit(experiment, address)
    plan = plan_of(expand(experiment, exact=on != "ray"))
    if fit is not None:
        plan["cluster"] = {"places": fit.places, "no_place": fit.homeless}
    if json:
        print_json(plan)
    else:
        _show(plan, [] if fit is None else fit.lines())
    if fit is not None and fit.homeless:
        process, why = next(iter(fit.homeless.items()))
        count = f"{len(fit.homeless)} of {len(fit.homeless) + len(fit.places)}"
        raise ShoalError(
            f"{count} worker processes find no place; {process}: {why}: ask for less in placement.cluster, or add a machine"
        )


def _threads(count: int) -> str:
    return f"; learns with {count} threads" if count > 1 else ""


def _show(plan: dict[str, Any], cluster: list[str]) -> None:
    from omegaconf import OmegaConf

    workers = ", ".join(f"{count} {name}{'s' * (count > 1)}" for name, count in plan["workers"].items())
    print(f"workers   {workers}")
    for name, process in plan["processes"].items():
        print(f"process   {name}: {', '.join(process['workers'])}{_threads(process['threads'])}")
    for name, policy in plan["policies"].items():
        print(f"policy    {name}: plays {', '.join(policy['agents'])}")
        print(f"          sees {policy['observation_space']}, does {policy['action_space']}")
        print(f"          {policy['parameters']:,} parameters, {policy['bytes_per_version']:,} bytes a version")
        size = f"{policy['lanes']} lanes x {policy['rows_per_fragment']} rows a fragment"
        print(f"          {size}, {policy['batch']:,} decisions a batch")
        if policy["sequences_of_replay"]:
            print(
                f"          replay of {policy['sequences_of_replay']:,} sequences, {policy['bytes_of_replay']:,} bytes"
            )
        if (there := policy["on_device"])["device"] != "cpu":
            parameters, batch, kept = (there[f"bytes_of_{key}"] / 1e6 for key in ("parameters", "batch", "replay"))
            replay = f"{kept:.1f} MB of replay" if kept else "replay stays on the CPU"
            print(
                f"          on {there['device']}: {parameters:.1f} MB of parameters, gradients and optimiser, {batch:.1f} MB a "
                f"batch; {replay}, activations come on top"
            )
        for note in policy["notes"]:
            print(f"          {note}")
    if (game := plan["games"]) is not None:
        print(f"games     {game['count']} processes: {game['threads']} threads, {game['memory_bytes'] / 1e6:,.0f} MB")
    kept = any(policy["sequences_of_replay"] for policy in plan["policies"].values())
    print(f"memory    {plan['memory_bytes'] / 1e6:.1f} MB of streams{' and replay' if kept else ''}")
    for line in cluster:
        print(f"cluster   {line}")
    print("settings")
    for line in OmegaConf.to_yaml(OmegaConf.create(plan["settings"])).splitlines():
        print(f"          {line}")
