"""Typed settings: YAML layers and dotted overrides in, frozen objects or one-line errors out.

`load_layers` reads and merges; `Config.parse` checks. A `Config` field is documented by the string under it, once: that text
is its help and its docs entry, see `describe`.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import math
import textwrap
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from shoal.base.cadence import parse_cadence, parse_round
from shoal.base.duration import parse_duration
from shoal.base.errors import InputError
from shoal.base.files import read_small
from shoal.base.peers import peer_key
from shoal.base.table import did_you_mean, target_of


def _integral(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Count = Annotated[int, BeforeValidator(_integral)]
"""A whole number; `1e6` counts as one."""

Duration = Annotated[float, BeforeValidator(parse_duration), Field(gt=0)]
"""Seconds, or `30s`, `5m`, `2h`, `3d`."""

Cadence = Annotated[float | str, BeforeValidator(parse_cadence)]
"""A Duration, or `100_000 steps`, or `50 updates`."""

RoundCadence = Annotated[float | str, BeforeValidator(parse_round)]
"""A Cadence, or `20 episodes`."""


def _as_target(value: Any) -> Any:
    return target_of(value) if callable(value) else value


Target = Annotated[str, BeforeValidator(_as_target)]
"""`module:Name` or `file.py:Name`; in Python also the class or function itself."""


class Config(BaseModel):
    """A frozen group of settings that knows every key it has."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, validate_default=True,
        validate_by_name=True, validate_by_alias=True, serialize_by_alias=True, allow_inf_nan=False,
    )  # fmt: skip

    @classmethod
    def parse(cls, values: Any, *, at: str = "") -> Self:
        """Check `values`; the first mistake becomes an InputError that names key, value and remedy."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise InputError(explain(cls, error, at)) from None


class Named(Config):
    """A section whose class is chosen by `name`; its other keys wait here, unchecked, until the class is known."""

    model_config = ConfigDict(extra="allow")

    name: str
    """Which one: a name from `shoal list`, or your own `module:Class` or `file.py:Class`."""

    @property
    def rest(self) -> dict[str, Any]:
        """Every key but the name."""
        return dict(self.model_extra or {})


def as_named(value: Any) -> Any:
    """Let Python users pass a typed config, and YAML users a bare name, where a named section is due."""
    if isinstance(value, str):
        return {"name": value}
    if isinstance(value, Config) and not isinstance(value, Named):
        name = type(value).model_fields.get("name")
        dumped = value.model_dump(exclude_unset=True)
        return {"name": name.default, **dumped} if name is not None else dumped
    return value


Section = Annotated[Named, BeforeValidator(as_named)]
"""A named section without a default name."""


def named_by_default(name: str) -> BeforeValidator:
    """A named section without a name: its settings are those of `name`."""

    def fill(value: Any) -> Any:
        value = as_named(value)
        return {"name": name, **value} if isinstance(value, dict) else value

    return BeforeValidator(fill)


Jump = Annotated[list[float], Field(min_length=2, max_length=2)]


class Schedule(Config):
    """A number that moves in a straight line over environment steps, or in jumps."""

    start: float
    """Value at step 0."""
    end: float
    """Value from step `steps` on."""
    steps: Count | None = Field(None, gt=0)
    """When `end` is reached; default: at `stop.steps`."""
    jumps: list[Jump] = []
    """Step and value of each, `[[50_000, 3e-4], [100_000, 1e-4]]`: it stays as it is in between, and no line leads to `end`."""

    def at(self, step: int, horizon: int | None) -> float:
        """The value at `step`; `horizon` is the run's `stop.steps`."""
        if self.jumps:
            return next((value for at, value in reversed(self.jumps) if step >= at), self.start)
        span = self.steps or horizon
        assert span is not None, "a schedule without an end was let through"
        return self.start + (self.end - self.start) * min(1.0, step / span)


def within(low: float, high: float = math.inf, *, zero: bool = True) -> AfterValidator:
    """Bounds of a number, and of both ends of a schedule. Not `zero`: it may be 0 at one end of a schedule alone."""

    def check(value: Any) -> Any:
        ends = [value]
        if isinstance(value, Schedule):
            ends = [value.start, value.end, *(to for _, to in value.jumps)]
        if all(isinstance(end, float | int) for end in ends):
            if not zero and (min(ends) < 0 or max(ends) == 0):
                raise ValueError("should be greater than 0")
            if not low <= min(ends) <= max(ends) <= high:
                upper = "" if high == math.inf else f" and at most {high:g}"
                raise ValueError(f"should be at least {low:g}{upper}")
        return value

    return AfterValidator(check)


Rate = Annotated[float | Schedule, within(0, zero=False)]
"""A learning rate."""

Weight = Annotated[float | Schedule, within(0)]
"""What a term of a loss counts."""


def value_at(setting: float | Schedule, step: int, horizon: int | None) -> float:
    """A setting that may be a plain number or a schedule."""
    return setting.at(step, horizon) if isinstance(setting, Schedule) else setting


# ---------------------------------------------------------------- reading


def load_layers(path: Path | None, overrides: list[str], *, saved: bool = False) -> dict[str, Any]:
    """A YAML file with `a.b=value` overrides laid on top, as plain Python values.

    `saved`: the file is what a run kept, perhaps somebody else's: `${...}` in it stays text and reads no variable of ours.
    """
    import yaml
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    for override in overrides:
        if "=" not in override or override.startswith("="):
            raise InputError(f"'{override}' is not an override: write key=value, for example algorithm.lr=1e-3")
    try:
        base = (
            OmegaConf.create(_saved(path)) if saved and path else OmegaConf.load(path) if path else OmegaConf.create({})
        )
        if not OmegaConf.is_dict(base) or (path and not base and not overrides):
            raise InputError(
                f"{path} holds no settings: it should start with a line such as 'env: {{id: CartPole-v1}}'"
            )
        on_top = OmegaConf.from_dotlist(overrides)
        if saved:
            OmegaConf.resolve(on_top)
        for override in overrides:
            key = override.partition("=")[0]
            _forget_other_class(base, key, on_top)
            if key == "agents":
                _forget_other_agents(base, on_top)
        merged = OmegaConf.merge(base, on_top)
        values = OmegaConf.to_container(merged, resolve=not saved)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path or 'an override'} is not valid YAML: {' '.join(str(error).split())}") from None
    except (OmegaConfBaseException, TypeError, AssertionError) as error:
        raise InputError(f"{path or ''} {' '.join(overrides)}: {' '.join(str(error).split())}".strip()) from None
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def _saved(path: Path) -> str:
    """What a run kept. Shoal writes no aliases: a few lines of them can stand for more than any memory holds."""
    import yaml

    text = read_small(path).decode()
    if "*" in text and any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
        raise InputError(f"{path} holds an alias, '*': write its settings out")
    return text


def _forget_other_class(base: Any, key: str, on_top: Any) -> None:
    """`model.name=gru` or `model={name: gru}` over a file that names another model: the file's other keys belong to that one."""
    from omegaconf import DictConfig, OmegaConf

    section = key.removesuffix(".name")
    below, laid = OmegaConf.select(base, section), OmegaConf.select(on_top, section)
    if not (isinstance(below, DictConfig) and isinstance(laid, DictConfig) and "name" in laid):
        return
    if OmegaConf.to_container(below, resolve=False).get("name") != laid["name"]:  # type: ignore[union-attr]
        OmegaConf.update(base, section, {}, merge=False)


def _forget_other_agents(base: Any, on_top: Any) -> None:
    """`agents={...}` over a file: which pattern comes first decides, so two mappings cannot be one; nor do those play who were in
    the first alone."""
    base.pop("agents", None)
    playing = set(on_top.agents.values()) if hasattr(on_top.agents, "values") else set()
    for policy in set(base.get("policies") or ()) - playing:
        del base.policies[policy]


# ---------------------------------------------------------------- explaining


def describe(model: type[BaseModel]) -> dict[str, str]:
    """Field -> the string under it. Read on demand: pydantic would parse the source of every config at every start."""
    said: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if issubclass(owner, Config):
            (definition,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
            assert isinstance(definition, ast.ClassDef)
            said |= dict(_strings_under_fields(definition))
    return {name: said[name] for name in model.model_fields if name in said}


def _strings_under_fields(definition: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in itertools.pairwise(definition.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)


def explain(model: type[BaseModel], error: ValidationError, at: str = "") -> str:
    """One line for the first mistake: key, value, what is wrong, what to do."""
    # a key that is missing is often there, misspelt: what is said of the others helps more
    problems = sorted(error.errors(include_url=False), key=_last)
    first = problems[0]
    path = [str(part) for part in first["loc"] if not _is_tag(part)]
    key = ".".join([at, *path] if at else path) or "the experiment"
    if first["type"] == "missing":
        return f"{key} is not given, and has no default"
    message = _message(model, first, path)
    line = f"{key} = {_show(first['input'])}: {message}" if path or at or first["type"] != "value_error" else message
    others = len({problem["loc"] for problem in problems if problem["type"] != "missing"}) - 1
    return line if others <= 0 or first["type"] != "extra_forbidden" else f"{line} ({others} more mistakes)"


def _last(problem: Any) -> int:
    """Of a group of settings where a number would do as well, it says more what is wrong inside."""
    return 2 if problem["type"] == "missing" else int(isinstance(problem["input"], dict) and "_type" in problem["type"])


def _is_tag(part: Any) -> bool:
    """Pydantic names the tried branch of a union inside `loc`; users have no such key."""
    return isinstance(part, str) and (part in ("float", "int", "str", "bool", "Schedule", "Ladder") or "[" in part)


def _show(value: Any) -> str:
    text = repr(value) if not isinstance(value, bool | None) else {True: "true", False: "false", None: "null"}[value]
    return text if len(text) <= 60 else f"{text[:57]}..."


def _message(model: type[BaseModel], problem: Any, path: list[str]) -> str:
    kind = problem["type"]
    if kind == "extra_forbidden":
        known = _siblings(model, path)
        return f"there is no such key; {did_you_mean(path[-1], known, peer_key(path[-1], known))}"
    if kind == "string_pattern_mismatch":
        return "use letters, digits, '.', '_' and '-', starting with a letter or digit"
    if kind == "value_error":
        return str(problem["ctx"]["error"])
    if kind.startswith("int_"):
        return "should be a whole number"
    if kind == "model_type":
        return "should be a group of settings, as in {key: value}"
    text = problem["msg"].replace("Input should be", "should be").replace("a valid", "a")
    return text[0].lower() + text[1:]


def _siblings(model: type[BaseModel], path: list[str]) -> list[str]:
    """The keys allowed where the last part of `path` stands."""
    for part in path[:-1]:
        fields = {info.alias or name: info for name, info in model.model_fields.items()}
        nested = _nested_model(fields[part]) if part in fields else None
        if nested is None:
            return []
        model = nested
    return [info.alias or name for name, info in model.model_fields.items()]


def _nested_model(info: FieldInfo) -> type[BaseModel] | None:
    for candidate in (info.annotation, *typing.get_args(info.annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None
