"""The commands and their options; the work of each is in a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.arguments import (
    Address,
    Device,
    Json,
    Openings,
    Overrides,
    Recipe,
    Run,
    Runs,
    Stochastic,
    Wandb,
    WorkingDir,
    spelled,
)
from shoal.cli.credentials import credentials
from shoal.cli.federation_commands import child, parent
from shoal.cli.games import exploit, play, tournament
from shoal.cli.many_runs import Parallel, lineage, sweep, tune
from shoal.cli.slurm import slurm
from shoal.cli.train_command import TrainCommand

app = typer.Typer(
    name="shoal",
    help="Train reinforcement-learning agents, one or many.\n\n"
    "Exit codes: 0 done, 1 the run failed, 2 wrong input, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(slurm, name="slurm")
app.add_typer(credentials, name="credentials")
app.command()(parent)
app.command()(child)
app.command()(sweep)
app.command()(tune)
app.command()(lineage)


@app.command(cls=TrainCommand)
def train(
    recipe: Recipe,
    overrides: Overrides = None,
    trial: Annotated[str | None, typer.Option(help="Name of this run; left out, one is made up.")] = None,
    seed: Annotated[int | None, typer.Option(help="Everything random follows from it.")] = None,
    on: Annotated[
        str,
        typer.Option(
            help="Who runs the workers: local (processes of this machine), inline (this one thread) or ray (a cluster)."
        ),
    ] = "local",
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last whole checkpoint of --trial.")] = False,
    address: Address = None,
    working_dir: WorkingDir = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Leave once the run has begun: it goes on by itself.")
    ] = False,
    parallel: Parallel = None,
    device: Device = None,
    wandb: Wandb = None,
    prometheus: Annotated[
        str | None, typer.Option(metavar="[PORT]", help="Serve the run's numbers to Prometheus; 0: at any free port.")
    ] = None,
) -> None:
    """Train, until a stop rule ends it."""
    from shoal.cli.train import run

    cluster = {"address": address, "working_dir": working_dir, "detach": detach}
    watched = spelled(wandb=wandb, device=device)
    if prometheus is not None:
        watched.append(f"log.prometheus.port={prometheus}" if prometheus else "log.prometheus={}")
    options = {"trial": trial, "seed": seed, "on": on, "resume": resume, "parallel": parallel}
    run(recipe, [*(overrides or []), *watched], **options, cluster=cluster)  # type: ignore[arg-type]


@app.command()
def demo(
    overrides: Overrides = None,
    trial: Annotated[str | None, typer.Option(help="Name of this run; left out, one is made up.")] = None,
    seed: Annotated[int | None, typer.Option(help="Everything random follows from it.")] = None,
) -> None:
    """See a team learn within a minute: trained live, evaluated in mpe2, with a video and a learning curve."""
    from shoal.cli.demo import run

    run(overrides or [], trial=trial, seed=seed)


@app.command()
def attach(run: Run, address: Address = None) -> None:
    """Stay with a run that a cluster trains, as if started here: Ctrl-C stops it."""
    from shoal.cli.train import attach as work

    work(run, address)


@app.command()
def evaluate(
    run: Run,
    overrides: Overrides = None,
    episodes: Annotated[int, typer.Option(min=1, help="Greedy episodes to play, against each opponent.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Seed of those episodes.")] = 0,
    checkpoint: Annotated[str, typer.Option(metavar="TAG|N", help="`latest`, a tag, or a version.")] = "latest",
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHO",
            help="An opponent: random, past, self, RUN[:POLICY][@TAG] or file.py:function; may be given again. "
            "Default: random and past for self-play, otherwise everyone plays as in training.",
        ),
    ] = None,
    openings: Openings = None,
    stochastic: Stochastic = False,
    wandb: Wandb = None,
    json: Json = False,
) -> None:
    """Play fresh greedy episodes with a trained policy, against opponents if you like."""
    from shoal.cli.evaluate import run as work

    options = {"episodes": episodes, "seed": seed, "checkpoint": checkpoint, "openings": openings}
    work(run, overrides or [], json=json, wandb=wandb, stochastic=stochastic, against=against or None, **options)


@app.command()
def checkpoints(run: Run, json: Json = False) -> None:
    """List the checkpoints of a run: steps, time, size, tags, and whether every bit is as it was saved."""
    from shoal.cli.checkpoints import run as work

    work(run, json=json)


@app.command()
def tag(
    run: Run,
    name: Annotated[str, typer.Argument(metavar="NAME", help="`best`, or a name of your own.")],
    checkpoint: Annotated[str, typer.Option(metavar="TAG|N", help="`latest`, another tag, or a version.")] = "latest",
    remove: Annotated[bool, typer.Option("--remove", help="Take the name away; the checkpoint stays for now.")] = False,
) -> None:
    """Give a checkpoint a name: it is kept until the name is taken away."""
    from shoal.cli.tag import run as work

    work(run, name, checkpoint=checkpoint, remove=remove)


@app.command()
def rollout(
    run: Run,
    overrides: Overrides = None,
    checkpoint: Annotated[str, typer.Option(metavar="TAG|N", help="`latest`, or a version.")] = "latest",
    episodes: Annotated[int, typer.Option(min=1, help="Episodes to write.")] = 10,
    video: Annotated[bool, typer.Option("--video", help="An mp4 of each episode as well.")] = False,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where to; left out, rollouts/VERSION-SEED in the run folder.")
    ] = None,
    stochastic: Stochastic = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of those episodes.")] = 0,
    against: Annotated[
        str | None,
        typer.Option(metavar="WHO", help="An opponent, as for `evaluate`. Default: everyone plays as in training."),
    ] = None,
    openings: Openings = None,
) -> None:
    """Write every step of fresh episodes to files for numpy and pandas, and videos of them."""
    from shoal.cli.rollout import run as work

    options = {"checkpoint": checkpoint, "out": out, "seed": seed, "against": against, "openings": openings}
    work(run, overrides or [], episodes=episodes, video=video, stochastic=stochastic, **options)


@app.command()
def status(run: Run, json: Json = False) -> None:
    """Show where a live run stands and what its workers do, or how an ended one ended."""
    from shoal.cli.status import run as work

    work(run, json=json)


@app.command()
def runs(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORD",
            help="algorithm=ppo, state=finished, name~cart, steps>10000, algorithm.lr=0.001, or part of a name.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List runs, newest first: algorithm, environment, state, steps, best and last return, score, age."""
    from shoal.cli.runs import run

    run(words or [], json=json)


@app.command()
def dashboard(
    root: Annotated[Path, typer.Argument(metavar="[ROOT]", help="The folder that holds the runs.")] = Path("runs"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8420,
    open_: Annotated[bool, typer.Option("--open", help="Open it in your browser.")] = False,
    control: Annotated[
        bool, typer.Option("--control", help="Let the page pause, stop, save, evaluate and change live runs.")
    ] = False,
    listen: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Beyond this machine only with a certificate, or with --insecure.")
    ] = "127.0.0.1",
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE.pem", help="A certificate: the page is encrypted.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE.pem", help="Its key.")] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Beyond this machine without encryption: others may read along.")
    ] = False,
) -> None:
    """Show runs in your browser, live and finished: curves, workers, evaluations, videos, logs."""
    from shoal.cli.dashboard import run

    where = {"address": listen, "port": port, "cert": tls_cert, "key": tls_key, "insecure": insecure}
    run(root, control=control, show=open_, **where)


@app.command()
def plot(
    runs: Runs,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Which number of metrics.jsonl; several times for a panel each."),
    ] = None,
    x: Annotated[str, typer.Option("--x", help="Over steps, seconds or updates.")] = "steps",
    out: Annotated[Path, typer.Option(metavar="FILE.png", help="Where to draw it; .svg and .pdf work as well.")] = Path(
        "plot.png"
    ),
) -> None:
    """Draw learning curves; the trials of an experiment become one line with a band."""
    from shoal.cli.plot import run

    run(runs, metrics=metric or ["rollout/ep_rew_mean"], axis=x, out=out)


@app.command()
def compare(runs: Runs, json: Json = False) -> None:
    """Print what runs or experiments took and reached, and the settings in which they differ."""
    from shoal.cli.compare import run

    run(runs, json=json)


@app.command()
def league(
    run: Run,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Draw ratings and payoffs as well; .svg and .pdf work too.")
    ] = None,
    json: Json = False,
) -> None:
    """Show the league of a run: who is how strong, with intervals, and what members earn against each other."""
    from shoal.cli.league import run as work

    work(run, json=json, plot=plot)


app.command()(tournament)
app.command()(play)
app.command()(exploit)


@app.command()
def reproduce(
    run: Run,
    trial: Annotated[str | None, typer.Option(help="Name of the new run; left out, RUN's with -again.")] = None,
    on: Annotated[str | None, typer.Option(help="Who runs the workers; left out, as RUN was run.")] = None,
) -> None:
    """Start a run again from its folder; of an exact run, check that all numbers are equal."""
    from shoal.cli.reproduce import run as work

    work(run, trial=trial, on=on)


@app.command()
def wandb_push(run: Run, wandb: Wandb = None) -> None:
    """Send an ended run to Weights & Biases, from its folder: what is there already stays as it is."""
    from shoal.cli.wandb_push import run as work

    work(run, mode=wandb)


@app.command()
def pause(run: Run) -> None:
    """Let a live run wait: its processes stay, nothing is sampled or learned."""
    from shoal.cli.orders import run as work

    work(run, "pause")


@app.command()
def unpause(run: Run) -> None:
    """Let a paused run go on."""
    from shoal.cli.orders import run as work

    work(run, "unpause")


@app.command()
def stop(run: Run) -> None:
    """End a live run as Ctrl-C would: with a checkpoint to go on from."""
    from shoal.cli.orders import run as work

    work(run, "stop")


@app.command()
def plan(
    recipe: Recipe,
    overrides: Overrides = None,
    on: Annotated[str, typer.Option(help="For whom: with ray, also what fits where and what does not.")] = "local",
    address: Address = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Show what would run: workers, batch sizes, memory, every setting. Starts nothing."""
    from shoal.cli.plan import run

    placed = spelled(device=device)
    run(recipe, [*(overrides or []), *placed], json=json, on=on, address=address)


@app.command()
def grafana(
    rules: Annotated[bool, typer.Option("--rules", help="The alert rules, for Prometheus, in its place.")] = False,
) -> None:
    """Print the dashboard that shows runs in Grafana, or rules that alert when one is in trouble."""
    from shoal.cli.grafana import run

    run(rules=rules)


@app.command(name="list")
def list_(json: Json = False) -> None:
    """List recipes, algorithms, environments and models."""
    from shoal.cli.listing import run

    run(json=json)


@app.command()
def check_env(
    env: Annotated[
        str, typer.Argument(metavar="ENV", help="A Gymnasium id, or your own module:factory or file.py:factory.")
    ],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings of `env`, e.g. kwargs.size=3.")
    ] = None,
) -> None:
    """Check an environment against the contract that training relies on."""
    from shoal.cli.check_env import run

    run(env, overrides or [])
