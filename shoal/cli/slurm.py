"""`shoal slurm submit`, `status`, `logs` and `cancel`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.base.errors import InputError

if TYPE_CHECKING:
    from shoal.launchers.slurm.jobs import Record
    from shoal.launchers.slurm.script import Job, Part

slurm = typer.Typer(help="Train on a cluster that Slurm shares out.", no_args_is_help=True, rich_markup_mode=None)

Which = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN|JOB", help="EXPERIMENT/TRIAL, EXPERIMENT, or a job's number; left out, the newest job."
    ),
]
FOLLOW_SECONDS = 1.0


@slurm.command()
def submit(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE|FILE.yaml", help="A recipe, or your own file.")],
    overrides: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings on top.")] = None,
    nodes: Annotated[int, typer.Option(min=1, help="How many nodes; with --gpu-nodes, those without GPUs.")] = 1,
    cpus_per_node: Annotated[int, typer.Option(min=1, help="CPUs of each node to use.")] = 1,
    gpus_per_node: Annotated[int, typer.Option(min=0, help="GPUs of each node, or of each of --gpu-nodes.")] = 0,
    gpu_nodes: Annotated[int, typer.Option(min=0, help="Nodes with GPUs, for training, beside --nodes.")] = 0,
    cpus_per_gpu_node: Annotated[int | None, typer.Option(min=1, help="Left out, --cpus-per-node.")] = None,
    partition: Annotated[str | None, typer.Option(help="Partition of the nodes.")] = None,
    gpu_partition: Annotated[str | None, typer.Option(help="Left out, --partition.")] = None,
    account: Annotated[str | None, typer.Option(help="Who pays.")] = None,
    time: Annotated[str | None, typer.Option(help="Limit of one slot, as Slurm writes it: 4:00:00, 2-12.")] = None,
    container: Annotated[str | None, typer.Option(help="Apptainer image with shoal in it, for all nodes.")] = None,
    trial: Annotated[str | None, typer.Option(help="Name of this run; left out, one is made up.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the job; left out, the experiment's.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a --trial that exists.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the script, submit nothing.")] = False,
) -> None:
    """Start a Ray cluster inside a batch job and train on it, over as many time slots as it takes."""
    from shoal.launchers.slurm.script import Job, Part, write
    from shoal.monitoring.trial_name import propose_name

    train_nodes = Part(gpu_nodes, cpus_per_gpu_node or cpus_per_node, gpus_per_node, gpu_partition or partition)
    rest = Part(nodes, cpus_per_node, 0 if gpu_nodes else gpus_per_node, partition)
    _check_parts(train_nodes, gpu_partition, cpus_per_gpu_node)
    experiment = _experiment(recipe, overrides or [], whole=container is None)
    _check_trial(experiment, trial, resume)
    job = Job(
        recipe, experiment, trial or propose_name(), tuple(overrides or ()), (train_nodes, rest) if gpu_nodes else (rest,),
        name=name or experiment, account=account, time=time, container=container,
    )  # fmt: skip
    if dry_run:
        print(write(job), end="")
        return
    _submit(job)


def _check_parts(train_nodes: Part, gpu_partition: str | None, cpus_per_gpu_node: int | None) -> None:
    if train_nodes.nodes and not train_nodes.gpus:
        raise InputError("--gpu-nodes needs --gpus-per-node: how many GPUs has each?")
    if not train_nodes.nodes and (gpu_partition or cpus_per_gpu_node):
        raise InputError("--gpu-partition and --cpus-per-gpu-node need --gpu-nodes: how many?")


def _experiment(recipe: str, overrides: list[str], *, whole: bool) -> str:
    """Its name. A mistake is found now and not after hours in the queue; what only a container holds cannot be built here."""
    from shoal.api.experiment import load_experiment
    from shoal.recipes import find

    experiment = load_experiment(find(recipe), overrides)
    if whole:
        from shoal.program.expand import expand

        expand(experiment)
    return experiment.name


def _check_trial(experiment: str, trial: str | None, resume: bool) -> None:
    from shoal.base.files import check_name
    from shoal.monitoring.run_folder import DEFAULT_ROOT, RunFolder

    if resume and trial is None:
        raise InputError("--resume needs --trial: which run should go on?")
    if trial is None:
        return
    path = DEFAULT_ROOT / experiment / check_name("--trial", trial)
    if resume:
        RunFolder.open(DEFAULT_ROOT, experiment, trial)
    elif path.exists():
        raise InputError(f"{path} exists already: continue it with --resume, or choose another --trial")


def _submit(job: Job) -> None:
    from importlib.util import find_spec

    from shoal.cli.output import command
    from shoal.launchers.slurm import jobs

    if job.container is None and find_spec("ray") is None:
        raise InputError(
            "Ray is not installed in this Python: pip install 'shoal[cluster]', or name a --container that has it"
        )
    record = jobs.submit(job)
    count = sum(part.nodes for part in job.parts)
    print(f"job {record.number} trains {record.run} on {count} node{'s' * (count > 1)}")
    print(f"watch:  {command()} slurm logs {record.run} --follow    end it: {command()} slurm cancel {record.run}")


@slurm.command()
def status(
    which: Annotated[
        str | None, typer.Argument(metavar="RUN|JOB", help="As in `logs`; left out, every job that Slurm knows of.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show what Slurm says of the jobs that were submitted from this folder."""
    from dataclasses import asdict

    from shoal.cli.output import print_json
    from shoal.launchers.slurm import jobs

    if which is None:
        known = jobs.records()
        found = jobs.states(known) if known else {}
        rows = [(record, found[record.number]) for record in known if record.number in found]
    else:
        rows = [(record := jobs.find(which), jobs.state_of(record))]
    documents = [{"job": record.number, "run": record.run, **asdict(state)} for record, state in rows]
    if json:
        print_json(documents)
    elif documents:
        _print_table([list(documents[0]), *([str(cell) for cell in row.values()] for row in documents)])
    else:
        print("Slurm knows of no job from this folder")


def _print_table(rows: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@slurm.command()
def logs(
    which: Which = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on printing until the job ends.")] = False,
) -> None:
    """Print what a job printed, through all its restarts."""
    from shoal.launchers.slurm import jobs

    record = jobs.find(which)
    if not follow and not record.output.exists():
        state = jobs.state_of(record)
        print(f"job {record.number} of {record.run} has printed nothing yet: {state.state}, {state.where}")
        return
    place = _print_from(record.output, 0)
    while follow and _live(record):
        time.sleep(FOLLOW_SECONDS)
        place = _print_from(record.output, place)
    _print_from(record.output, place)


def _live(record: Record) -> bool:
    from shoal.launchers.slurm.jobs import state_of

    return state_of(record).live


def _print_from(path: Path, place: int) -> int:
    """Print what lies behind `place`; gives the new place."""
    if not path.exists():
        return place
    with open(path, "rb") as file:
        file.seek(place)
        data = file.read()
    sys.stdout.write(data.decode(errors="replace"))
    sys.stdout.flush()
    return place + len(data)


@slurm.command()
def cancel(
    which: Which = None,
    now: Annotated[bool, typer.Option("--now", help="At once, without a checkpoint.")] = False,
) -> None:
    """End a job. A running one saves a checkpoint first, and is not requeued."""
    from shoal.launchers.slurm import jobs

    record = jobs.find(which)
    print(f"job {record.number} of {record.run} is {jobs.cancel(record, now=now)}")
