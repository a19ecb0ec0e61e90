"""The tables of the documentation against the code: settings, commands, numbers, names, rows, links."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from pydantic import BaseModel

import shoal
from shoal.algorithms import ALGORITHMS
from shoal.api.algorithm import Needs
from shoal.api.experiment import EnvConfig, Experiment
from shoal.api.policy import Policy
from shoal.base.config import Config, Named, describe
from shoal.base.peers import peer_key
from shoal.envs import make_env
from shoal.models import MODELS
from shoal.rollout.seat import as_lanes
from shoal.rollout.trajectory import TrajectoryBuilder
from shoal.streams.inference import Answer
from shoal.streams.sample import SampleReader, SampleWriter, fragment_layout
from shoal.streams.transports.memory import MemoryRing
from tests.docs.pages import DOCS, ROOT, cells, hooks, name_of, pages, prose

# ---------------------------------------------------------------- settings


def sections(config: type[BaseModel]) -> set[type[BaseModel]]:
    """A Config and the Configs inside it."""
    found = {config}
    for info in config.model_fields.values():
        for part in (info.annotation, *typing.get_args(info.annotation)):
            if isinstance(part, type) and issubclass(part, Config) and part is not Named:
                found |= sections(part)
    return found


def test_every_setting_has_a_place() -> None:
    wanted = sections(Experiment)
    for table in (ALGORITHMS, MODELS):
        for name in table.entries:
            wanted |= sections(table.load(name).Config)
    places = [place for page in pages() for place in hooks().PLACE.finditer(page.read_text())]
    shown = [place[2] for place in places if place[1] == "settings"]
    assert sorted(shown) == sorted(f"{config.__module__}:{config.__name__}" for config in wanted)
    for place in shown:
        assert "|" in hooks().settings_table(place)


def test_a_field_without_a_docstring_is_found() -> None:
    class Bare(Config):
        size: int = 3

    with pytest.raises(ValueError, match="'size' has no docstring"):
        hooks()._row("size", Bare.model_fields["size"], describe(Bare).get("size", ""), "")


# ---------------------------------------------------------------- commands


def test_every_command_and_option_is_documented() -> None:
    from typer.main import get_command

    from shoal.cli.app import app

    page = (DOCS / "tasks/command-line.md").read_text()
    parts = {part.split("\n")[0]: part for part in page.split("\n## ")}
    commands = {}
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        group = getattr(command, "commands", None)
        commands |= {name: command} if group is None else {f"{name} {part}": below for part, below in group.items()}
    for name, command in commands.items():
        options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
        documented = re.findall(r"^\| `(--[a-z-]+)", parts[f"shoal {name}"], re.MULTILINE)
        assert sorted(documented) == sorted(options - {"--help"}), name
    assert {heading.removeprefix("shoal ") for heading in parts if heading.startswith("shoal ")} == set(commands)


def test_every_make_target_is_documented() -> None:
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    documented = re.findall(r"`make ([a-z-]+)`", (DOCS / "tasks/command-line.md").read_text())
    assert set(documented) == set(targets) - {"help"}


# ---------------------------------------------------------------- numbers


def own_metrics(algorithm: str) -> list[str]:
    """Names that the pages of its family define for it."""
    family = ALGORITHMS.entries[algorithm].split(".")[2].partition(":")[0]
    folders = ("q_learning", "novelty") if family == "novelty" else (family,)
    rows = [row for name in folders for row in cells(ROOT / "shoal/algorithms" / name / "README.md", "## Metrics")]
    return [row[0].strip("`") for row in rows if row[1] == "all" or algorithm in row[1].split(", ")]


def defined_metrics(*algorithms: str) -> list[str]:
    """Patterns of all names that a page defines for some algorithms."""
    names = [row[0].strip("`") for row in cells(DOCS / "tasks/read-the-results.md", "## The numbers")]
    names += [name for algorithm in algorithms for name in own_metrics(algorithm)]
    return [re.sub(r"<\w+>", r"[^/]+", name) for name in names]


REPLAYED = {"warmup": 100, "prioritised": True}
QUICK = {
    "ppo": {"minibatch": 64},
    "appo": {"minibatch": 64},
    "dqn": {**REPLAYED, "novelty": True},
    "qmix": REPLAYED,
    "sac": REPLAYED,
}
"""What an algorithm needs to take its steps, and to show all its numbers, in a short run."""


@pytest.mark.parametrize(
    ("world", "algorithm"), [("shoal/signal", "ppo"), *(("shoal/cut", name) for name in ALGORITHMS.entries)]
)
def test_every_number_of_a_run_is_defined(tmp_path: Path, world: str, algorithm: str) -> None:
    experiment = Experiment.parse(
        {
            "env": {"id": world, "num_envs": 8},
            "algorithm": {"name": algorithm, "unroll": 16, **QUICK.get(algorithm, {})},
            "stop": {"updates": 4, "return": 1e-9},
        }
    )
    folder = shoal.train(experiment, root=tmp_path, on="inline", quiet=True).folder
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    # of several policies, each has its own under its name
    written = {re.sub(r"^train/(speaker|listener)/", "train/", name) for name in set().union(*rows)}
    assert {"eval/mean_reward", *own_metrics(algorithm)} <= written
    patterns = defined_metrics(algorithm)
    undefined = [name for name in written if not any(re.fullmatch(pattern, name) for pattern in patterns)]
    assert not undefined


def test_every_number_named_in_the_code_is_defined() -> None:
    sources = [*(ROOT / "shoal/workers").glob("*.py"), *(ROOT / "shoal/algorithms").rglob("*.py")]
    named = {name for path in sources for name in re.findall(r'"((?:train|time|eval|rollout)/\w+)"', path.read_text())}
    assert "train/dropped_not_finite" in named
    assert not named - set(defined_metrics(*ALGORITHMS.entries))


# ---------------------------------------------------------------- names


def test_the_walk_leads_past_real_functions() -> None:
    rows = cells(DOCS / "tasks/walk.md")
    assert len(rows) > 30
    for where, _ in rows:
        path, *names = re.findall(r"`([^`]+)`", where)
        module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
        assert names, where
        for name in names:
            found: Any = module
            for part in name.split("."):
                found = getattr(found, part)
            assert found.__module__ == module.__name__, f"{name} is imported into {path}"


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_files_that_are_named_exist(page: Path) -> None:
    for name in re.findall(r"`((?:shoal|docs|tests|benchmarks|tools)/[\w/.-]+\.(?:py|md|sh|yaml))`", prose(page)):
        assert (ROOT / name).is_file(), name


# ---------------------------------------------------------------- rows of a fragment


class Scripted(Policy):
    """Only what a layout asks for."""

    extras = {}
    noise_size = 0

    def initial_state(self, batch: int) -> None:
        return None

    def act(self, request: Any, *, explore: bool) -> Any:
        raise NotImplementedError


def fragment_rows(world: str) -> list[list[str]]:
    """One lane that always takes action 1, as the page writes it."""
    env = make_env(EnvConfig(id=world, kwargs={"length": 3}), 1)
    group, needs = env.groups["agent"], Needs(unroll=4)
    ring = MemoryRing(fragment_layout(group, needs, Scripted(), 1, None), 1)
    builder = TrajectoryBuilder(needs, np.arange(1), SampleWriter(ring, producer=0))
    view = as_lanes(env.reset(0).turns["agent"])
    posted = False
    while not posted:
        assert builder.begin(None)
        builder.decide(view, Answer(np.ones(1, np.int64), {}, None, 0), None)
        step = env.step({"agent": np.ones((1, 1), np.int64)})
        view = as_lanes(step.turns["agent"])
        posted = builder.observe(view, step.advanced)
    taken = SampleReader([ring]).take(0.0)
    assert taken is not None
    fragment = taken[0].fragment
    number = "{:.2f}" if fragment.observation.dtype == np.float32 else "{:.0f}"
    words = {True: "yes", False: "no"}
    rows = []
    for t in range(len(fragment.reward)):
        seen, valid = number.format(float(fragment.observation[t].squeeze())), bool(fragment.valid[t, 0])
        ends = [words[bool(flags[t, 0])] for flags in (fragment.terminated, fragment.truncated)]
        outcome = [f"{fragment.reward[t, 0]:.0f}", *ends] if valid else ["-"] * 3
        rows.append([str(t), seen, *outcome, words[valid], words[bool(fragment.first[t, 0])]])
    return rows


@pytest.mark.parametrize("world", ["cut", "chain"])
def test_the_rows_of_a_fragment(world: str) -> None:
    shown = [row[:7] for row in cells(DOCS / "nouns/fragment.md", f"<!-- checked: {world} -->")][:5]
    assert shown == fragment_rows(f"shoal/{world}")


def test_the_fields_of_a_fragment() -> None:
    from dataclasses import fields

    from shoal.api.fragment import Fragment

    shown = [row[0].strip("`") for row in cells(DOCS / "nouns/fragment.md")]
    assert shown[: len(fields(Fragment))] == [field.name for field in fields(Fragment)]


# ---------------------------------------------------------------- other libraries


@pytest.mark.parametrize("library", ["stable-baselines3", "rllib", "cleanrl"])
def test_the_command_line_knows_what_a_page_translates(library: str) -> None:
    """The key on the right is among those that are proposed for the name on the left, and it exists."""
    rows = [row for row in cells(DOCS / "coming-from" / f"{library}.md", "## Settings") if len(row) == 3]
    assert len(rows) > 25
    known = {key for page in ("nouns/experiment.md", *FAMILY_PAGES) for key in keys_on(page)}
    for theirs, ours, _ in rows:
        key = ours.strip("`")
        last = key.rpartition(".")[2]
        assert key in known or key in MODEL_KEYS, key
        for name in re.findall(r"`(\w+)`", theirs):
            assert name == last or peer_key(name, [last]) in (key, last), (
                f"{name} -> {peer_key(name, [last])}, not {key}"
            )


MODEL_KEYS = ("model.name", "model.hidden", "model.activation")
FAMILY_PAGES = ("algorithms/actor_critic.md", "algorithms/q_learning.md", "algorithms/sac.md")


def keys_on(page: str) -> set[str]:
    """Keys of the tables of settings of a page, whole."""
    return set(re.findall(r"^\| `([\w.]+)` \|", hooks().fill((DOCS / page).read_text()), re.MULTILINE))


# ---------------------------------------------------------------- links


def anchors(page: Path) -> set[str]:
    """The headings of a page as the site names them."""
    text = re.sub(r"^```.*?^```$", "", hooks().fill(page.read_text()), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", prose(page)):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), target


def test_the_menu_has_every_page() -> None:
    menu = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]

    def leaves(tree: Any) -> list[str]:
        if isinstance(tree, str):
            return [tree]
        return [leaf for part in (tree.values() if isinstance(tree, dict) else tree) for leaf in leaves(part)]

    listed = leaves(menu)
    assert len(listed) == len(set(listed))
    assert set(listed) == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


# ---------------------------------------------------------------- Python


@pytest.mark.parametrize("name", shoal.__all__)
def test_every_public_name_is_documented_with_all_that_it_has(name: str) -> None:
    """Parameters of functions, fields of records, methods and their parameters."""
    page = hooks().fill((DOCS / "api.md").read_text())
    (section,) = re.findall(rf"^### {name}$(.*?)(?=^##|\Z)", page, re.DOTALL | re.MULTILINE)
    thing = getattr(shoal, name)
    wanted = set() if issubclass_of(thing, Exception | BaseModel) else names_of(thing)
    missing = [word for word in wanted if not re.search(rf"\b{word}\b", section)]
    assert not missing


def test_what_has_no_docstring_is_found_by_its_empty_cell() -> None:
    """Every field, property and method of a public record says what it is."""
    page = hooks().fill((DOCS / "api.md").read_text())
    assert "| of it | what it is |" in page
    bare = re.findall(r"^\| `([^`]+)` \|  \|$", page, re.MULTILINE)
    assert not bare


def issubclass_of(thing: Any, kinds: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, kinds)


def names_of(thing: Any) -> set[str]:
    if not isinstance(thing, type):
        return set(inspect.signature(thing).parameters)
    own = {name: value for name, value in vars(thing).items() if not name.startswith("_")}
    methods = [value for value in own.values() if inspect.isfunction(value)]
    parameters = {word for method in methods for word in inspect.signature(method).parameters} - {"self"}
    return {*own, *parameters, *getattr(thing, "__dataclass_fields__", {})}
