"""The Experiment: one typed tree that says everything about a run. Loaded from YAML or built in Python."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from shoal.api.cluster import ClusterConfig
from shoal.api.env import Reduction
from shoal.api.federation import FederationConfig
from shoal.api.league import LeagueConfig
from shoal.api.population import PopulationConfig, SweepConfig, TuneConfig
from shoal.base.config import Cadence, Config, Count, Duration, Named, Target, as_named, load_layers, named_by_default
from shoal.base.table import target_of


class ImagesConfig(Config):
    """How a PettingZoo game's images are made smaller before anybody sees them."""

    size: list[Annotated[Count, Field(ge=1)]] | None = Field(None, min_length=2, max_length=2)
    """Height and width to shrink to: each pixel is the mean of a box. Left out: as they are."""
    grey: bool = False
    """Brightness instead of red, green and blue."""
    stack: Count = Field(1, ge=1)
    """How many of the last images an agent sees, side by side in the channels; an episode begins with its first, repeated."""


def _as_wrapper(value: Any) -> Any:
    if isinstance(value, dict) and len(value) != 1:
        raise ValueError("should be one name with its value, as in frame_stack: 4; give each an entry of its own")
    return target_of(value) if callable(value) else value


class EnvConfig(Config):
    """The environment, and how many copies of it."""

    id: Target
    """A Gymnasium id (`CartPole-v1`), a PettingZoo game (`classic/go_v5`), a game (`unity:FILE`), or a `file.py:factory`."""
    num_envs: Count = Field(16, ge=1)
    """Copies in the whole run."""
    kwargs: dict[str, Any] = {}
    """Passed to the environment's constructor."""
    wrappers: list[Annotated[str | dict[str, Any], BeforeValidator(_as_wrapper)]] = []
    """Innermost first: Gymnasium wrappers around every copy, `module:Class`; then names, as in `frame_stack: 4`: `shoal list`."""
    images: ImagesConfig | None = None
    """Shrink, grey and stack the images of a PettingZoo game."""
    clip_reward: float | None = Field(None, gt=0)
    """Bound on the size of each reward that is learnt from; scores stay the environment's own. Left out: none."""
    game_return: Literal["sum", "mean"] | None = None
    """How the game states the return of an episode, over its agents; left out: as the environment says, else a sum."""
    timeout: Duration = 60.0
    """How long a step or reset of one copy may take; where actors have processes of their own, one that hangs is killed."""
    background: bool | None = None
    """Step every Env of an actor's ring in a thread of its own: for environments that sleep, wait or compute outside Python. Left
    out: where there is a ring, and a probe finds that they wait."""
    vector: Literal["auto", "native", "loop", "processes"] = "auto"
    """How copies are stepped: `native` by its own vector implementation, `loop` one by one, `auto` native if it exists, `processes`
    in a process each: for slow ones, of which none waits for another."""


class ActorRange(Config):
    """As many actors as a cluster has room for: they come and go with its machines. Read by `--on ray`."""

    min: Count = Field(ge=1)
    """So many the run begins with, and each update learns from as many fragments."""
    max: Count = Field(ge=1)
    """No more than these."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.max < self.min:
            raise ValueError(f"max = {self.max} is less than min = {self.min}")
        return self


def _as_threads(value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value == "auto" or (number and float(value).is_integer()):
        return value
    raise ValueError("should be a whole number, or auto")


class PlacementConfig(Config):
    """What runs where, and how far sampling may run ahead of learning. `auto` leaves it to a short probe."""

    actors: Annotated[Count, Field(ge=1)] | ActorRange | None = None
    """Actor workers, or `{min, max}`; copies are split over them. Left out with `trainers` and `together`: chosen by a probe."""
    envs_per_actor: Count | None = Field(None, ge=1)
    """Env copies of each actor, where `actors` is a range; `env.num_envs` is then that of `max` actors."""
    ring: Count = Field(1, ge=1)
    """Envs per actor that take turns: while one waits for its decisions or its environment, the others go on."""
    inference: Literal["inline", "worker"] = "inline"
    """Where policies decide: `inline` in the actor's own process, `worker` in policy workers that batch for many actors."""
    policy_workers: Count = Field(1, ge=1)
    """Policy workers per policy, where inference is theirs."""
    buffers: Count = Field(0, ge=0)
    """Buffer workers per policy that replays, with a process and a share of what is kept each; 0: replay lives in the trainer."""
    slack: float = Field(2.0, gt=0)
    """Where buffer workers replay: rounds that learning may be ahead of or behind its updates per round, before one side waits."""
    trainers: Count | None = Field(None, ge=1)
    """Replicas of each trainer; each learns from its share of the actors."""
    agree: Annotated[Named | None, BeforeValidator(as_named)] = None
    """How replicas agree: `allreduce` (one gradient, in step), `hogwild` (one memory) or `average` (mixed every K updates)."""
    together: bool | None = None
    """Actors live in the process of their trainer, and take turns with it; otherwise in processes of their own."""
    device: str = "cpu"
    """Where trainers learn: `cpu`, `cuda` (replicas are dealt over all there are), `cuda:1`, `mps`, or `auto`: by a probe."""
    replay_device: Literal["cpu", "trainer"] = "cpu"
    """Where a trainer on a device keeps what it replays: in the memory of the CPU, or on that device (`trainer`)."""
    threads: Annotated[Annotated[Count, Field(ge=1)] | Literal["auto"], BeforeValidator(_as_threads)] = "auto"
    """Threads with which a trainer learns; actors have one. `auto`: 1, unless the probe of a shape finds that more are worth it."""
    policy_device: str = "cpu"
    """Where policy workers decide, by the same names; `auto`: where trainers learn."""
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"
    """What networks of trainers and policy workers multiply in: `fp32`, `tf32` (CUDA alone) or `bf16`. All else is float32."""
    compile: bool = False
    """Networks of trainers and policy workers, and losses, run by torch.compile. On a CPU that needs a C++ compiler."""
    deterministic: bool = False
    """Operators of accelerators repeat themselves to the bit, or the run ends where torch has no way to. CPUs do so anyway."""
    max_lag: Count | None = Field(None, ge=0)
    """How many versions old experience may be: 0 waits for every update, 1 samples during one. Default: the algorithm's own."""
    exact: bool | None = None
    """Equal bits whoever runs it: rounds act with the version due, fragments are ordered by actor. Default: at lag 0 and inline."""
    pin: bool | None = None
    """On one machine: each worker process keeps to one core. Default: where there are exactly as many as cores."""
    hang: Duration = Field(60.0, gt=0)
    """A worker that gives no sign of life for so long is killed and started again; inside an environment `env.timeout` counts."""
    cluster: ClusterConfig = ClusterConfig()
    """What workers reserve, and on which machines."""


def _as_placement(value: Any) -> Any:
    return {} if value == "auto" else value


class PastConfig(Config):
    """Earlier versions of a policy, kept as opponents."""

    of: str
    """The policy whose versions are kept."""
    every: Count = Field(20, ge=1)
    """Updates between two that are kept."""
    keep: Count = Field(5, ge=1)
    """How many; each episode is played by one of them, drawn anew."""
    spread: bool = False
    """Keep some of the whole run, the first always, instead of the newest."""
    latest: float = Field(0.0, ge=0, le=1)
    """Share of the episodes that the newest one plays, beside its turns among the others."""


class PolicyConfig(Config):
    """One policy: how it learns, where it comes from, or how it plays without learning."""

    algorithm: Annotated[Named | None, BeforeValidator(as_named)] = None
    """Its own way to learn; left out: the experiment's."""
    model: Annotated[Named | None, BeforeValidator(as_named)] = None
    """Its own network body; left out: the experiment's."""
    from_: str | None = Field(None, alias="from")
    """Whose policy it starts from: `RUN`, `RUN:POLICY` for one of several, `RUN@best` for a tag or version (else latest)."""
    frozen: bool = False
    """Plays as it is (as `from` gives it) and does not learn."""
    play: Target | None = None
    """Plays by rule: `random`, or your own `module:function` of observations, action mask and noise."""
    past: PastConfig | None = None
    """Plays as earlier versions of another policy."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = [name for name in ("frozen", "play", "past") if getattr(self, name)]
        if len(kinds) > 1:
            raise ValueError(f"{' and '.join(kinds)} exclude each other")
        if self.frozen and self.from_ is None:
            raise ValueError("frozen = true: name the run it comes from, from: runs/EXPERIMENT/TRIAL")
        return self

    @property
    def learns(self) -> bool:
        """It has a trainer."""
        return not (self.frozen or self.play or self.past)


class CheckpointConfig(Config):
    """When the run is saved."""

    every: Cadence = 300.0
    """From one checkpoint to the next; one more is written at the end."""
    keep: Count = Field(3, ge=1)
    """How many of the newest are kept, besides those with a tag."""
    replay: bool | None = None
    """Save what is kept for replay too, so that a resumed run need not warm up. Left out: where it is at most 256 MB."""


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class EvaluationConfig(Config):
    """Scores of saved versions, played beside training by a worker of its own."""

    every: Cadence
    """From one version that is evaluated to the next; each is saved as a checkpoint first."""
    episodes: Count = Field(32, ge=1)
    """Whole greedy episodes per version; against each opponent so many."""
    against: Annotated[list[str] | None, BeforeValidator(_as_list)] = None
    """Opponents: `random`, `past`, `self`, `RUN[:POLICY][@TAG]`, `file.py:function`. Left out: random and past in self-play."""
    openings: Count | None = Field(None, ge=0)
    """Steps at the beginning of each episode in which everyone acts at random. Left out: 2 where opponents are named, else 0."""
    seconds: Duration | None = None
    """No episode begins later than this after the first; those under way are played to their end. Left out: all are played."""
    video: Duration | None = None
    """After an evaluation, film one more episode of its version, if the last film is so long ago. Left out: none are made."""
    metrics: dict[str, Reduction] = {}
    """Numbers of `info` to score as well: name -> how an episode's steps become one, `sum`, `mean`, `last` or `max`."""

    @model_validator(mode="after")
    def _not_itself_alone(self) -> Self:
        if self.against == ["self"]:
            raise ValueError("against = ['self']: a score against itself says nothing; add random or past")
        return self


class StageConfig(Config):
    """One stage of a curriculum: how the environment is while it lasts."""

    at: float | None = None
    """It begins when an evaluation in the stage before scores at least this mean return. The first stage has none."""
    kwargs: dict[str, Any] = {}
    """Laid over `env.kwargs`. Environments with a method `set_stage(number)` are told the number of the stage besides."""


class StopConfig(Config):
    """When the run ends: whichever comes first."""

    steps: Count | None = Field(None, gt=0)
    """Environment steps over all copies."""
    updates: Count | None = Field(None, gt=0)
    """Policy versions."""
    seconds: Duration = 259_200.0
    """Wall time, evaluation included."""
    return_: float | None = Field(None, alias="return")
    """Mean return of the last 20 finished training episodes, confirmed by greedy ones on seeds of their own."""
    episodes: Count = Field(100, ge=1)
    """So many greedy episodes confirm it."""


class WandbConfig(Config):
    """Where a run is shown in Weights & Biases."""

    mode: Literal["online", "offline", "disabled"] | None = None
    """`online` sends rows as they come, `offline` keeps them for later, `disabled`: nothing. Left out: `WANDB_MODE`, or online."""
    project: str | None = None
    """Left out: `WANDB_PROJECT`, else `shoal`."""
    entity: str | None = None
    """The user or the team. Left out: `WANDB_ENTITY`, else whose key it is."""
    group: str | None = None
    """Left out: `WANDB_RUN_GROUP`, else the experiment's name."""
    tags: list[str] = []
    """Words to find it by."""
    notes: str | None = None
    """A longer text."""


def _as_wandb(value: Any) -> Any:
    return {"mode": value} if isinstance(value, str) else {} if value is True else None if value is False else value


def _as_command(value: Any) -> Any:
    words = shlex.split(value) if isinstance(value, str) else value
    if words == []:
        raise ValueError("a command has at least one word")
    return words


class PrometheusConfig(Config):
    """Numbers of a live run over HTTP, for Prometheus."""

    port: Count = Field(9464, ge=0, le=65535)
    """Where `/metrics` is served; 0: any free port, which the run says."""
    address: str = Field("127.0.0.1", min_length=1)
    """Who may ask: programs of this machine alone, or with `0.0.0.0` whoever reaches it."""


class LogConfig(Config):
    """What is written down on the way, and who is told."""

    every: Count = Field(1, ge=1)
    """Updates between two rows of `metrics.jsonl`."""
    tensorboard: bool = True
    """Write `tensorboard/` event files."""
    wandb: Annotated[WandbConfig | None, BeforeValidator(_as_wandb)] = None
    """Show the run in Weights & Biases; a bare word is its mode. Left out: it is not shown there."""
    notify: list[Annotated[list[str], BeforeValidator(_as_command)]] = []
    """Commands to run when the run ends, fails, dies or stands still: each a text, split as a shell would, or a list of words."""
    notify_after: Duration = 600.0
    """So long without an update, and the run stands still."""
    prometheus: PrometheusConfig | None = None
    """Serve the run's numbers to Prometheus; `{}`: at port 9464."""


def _as_env(value: Any) -> Any:
    return {"id": value} if isinstance(value, str) or callable(value) else value


class Experiment(Config):
    """Everything about a run. What is left out has a default that works."""

    env: Annotated[EnvConfig, BeforeValidator(_as_env)]
    """The environment."""
    algorithm: Annotated[Named, named_by_default("ppo")] = Named(name="ppo")
    """How to learn; its other keys are those of the algorithm: see `shoal list`."""
    model: Annotated[Named, named_by_default("auto")] = Named(name="auto")
    """The network body; `auto` chooses by the observation space."""
    agents: dict[str, str] = {}
    """Who plays whom: patterns of agent names (`adversary_*`) -> policy; the first match wins. Left out: a policy per group."""
    policies: dict[str, PolicyConfig] = {}
    """The policies by name; what one omits is the experiment's."""
    deal: Literal["fixed", "shuffled"] = "fixed"
    """Shuffled: the agents of a group are dealt to their policies anew in each episode, so that everyone plays every side."""
    league: LeagueConfig | None = None
    """Players and their frozen members meet by matchmaking. Left out: everyone plays as `agents` says."""
    placement: Annotated[PlacementConfig, BeforeValidator(_as_placement)] = PlacementConfig()
    """What runs where."""
    federation: FederationConfig | None = None
    """How children's weights are mixed by a parent: read by `shoal parent` and `shoal child`. Left out there: the defaults."""
    checkpoint: CheckpointConfig = CheckpointConfig()
    """When the run is saved."""
    evaluation: EvaluationConfig | None = None
    """What is evaluated beside training. Left out: nothing."""
    curriculum: list[StageConfig] = []
    """Stages of the environment: each begins when evaluations of the one before are good enough. Left out: it stays as it is."""
    stop: StopConfig = StopConfig()
    """When the run ends."""
    population: PopulationConfig | None = None
    """Many members that learn from each other's settings. Left out: one run."""
    sweep: SweepConfig | None = None
    """A grid of settings and seeds, for `shoal sweep`. Left out: one run."""
    tune: TuneConfig | None = None
    """Where better settings may lie, for `shoal tune`; one run passes over it."""
    workers: dict[str, str] = {}
    """Workers of your own beside the others: name -> `module:Class` or `file.py:Class` of their WorkerSpec."""
    log: LogConfig = LogConfig()
    """What is written down."""
    seed: Count = Field(1, ge=0, lt=2**63)
    """Everything random follows from it."""
    name: str = Field("experiment", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    """The folder under `runs/`; a file's stem when loaded from a file."""

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, values: Any) -> Any:
        """Configs of older runs have the old key, and null there."""
        env, old = values.get("env") if isinstance(values, dict) else None, "pictures"  # old name
        if not isinstance(env, dict) or old not in env:
            return values
        if env[old] is not None:
            raise ValueError(f"env.{old} was renamed: write env.images")
        return {**values, "env": {key: value for key, value in env.items() if key != old}}

    @property
    def plays_itself(self) -> bool:
        """A policy plays as the past of another: self-play."""
        return any(policy.past is not None for policy in self.policies.values())

    @property
    def shuffles(self) -> bool:
        """The agents of a group are dealt to their policies anew in each episode."""
        return self.deal == "shuffled" or (self.league is not None and not self.agents)

    @model_validator(mode="after")
    def _stages_follow_scores(self) -> Self:
        stages = self.curriculum
        if stages and self.evaluation is None:
            raise ValueError("curriculum: evaluations decide when a stage begins; add evaluation: {every: 30s}")
        if stages and stages[0].at is not None:
            raise ValueError("curriculum: the first stage begins with the run; remove its `at`")
        if lacking := [number for number, stage in enumerate(stages) if number and stage.at is None]:
            raise ValueError(f"curriculum: stage {lacking[0]} never begins; give the score of the one before as `at`")
        return self


def load_experiment(path: Path | None, overrides: list[str]) -> Experiment:
    """Read a YAML file and lay `key=value` overrides over it."""
    values = load_layers(path, overrides)
    if path is not None:
        values.setdefault("name", re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-._")[:100] or "experiment")
    return Experiment.parse(values)
