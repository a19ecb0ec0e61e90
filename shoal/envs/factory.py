"""From the `env` settings to an Env. Every mistake in them becomes one line that names key, value and remedy.

An id names a gymnasium environment (`CartPole-v1`, `module:Id-v0`), a PettingZoo game (`classic/tictactoe_v3`), one of another
family (`openspiel/leduc_poker`), one of Shoal's own (`shoal/chain`), or the user's factory (`module:factory`, `file.py:factory`).
They come in two forms: `loop` (single environments) and `native` (a batch).
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator

from shoal.api.env import Env
from shoal.api.experiment import EnvConfig
from shoal.base.errors import InputError, ShoalError
from shoal.base.table import did_you_mean, import_module, import_target
from shoal.envs.families import BATCHES, REGISTERED, family_of, require_package
from shoal.envs.game_relatives import RELATIVES
from shoal.envs.old_gym import OldGym, follows_old_api
from shoal.envs.pettingzoo_games import FAMILIES, draw_without_screen, find_game, is_game, is_game_id
from shoal.envs.registry import ENVS, OUTSIDE, outside_of
from shoal.envs.rllib_game import RllibGame, is_rllib
from shoal.envs.spaces import lists_agents
from shoal.envs.wrappers import chosen_wrappers, single_wrappers, wrap

Form = Literal["loop", "native", "processes"]
Single = Any
"""A gymnasium.Env, or a game of PettingZoo."""
_VERSIONED = re.compile(r"-v\d+$")
ATARI = "ALE/"
"""Ids that ale-py registers."""


def build_env(config: EnvConfig, num_envs: int, *, first_slot: int, render: bool) -> Env:
    """See `shoal.envs.make_env`."""
    if render:
        draw_without_screen()
    chosen_wrappers(config)  # mistakes in them show before anything is built
    env = wrap(_build(config, num_envs, first_slot, render), config, first_slot)
    if config.game_return is not None:
        env.game_return = config.game_return
    return env


def _build(config: EnvConfig, num_envs: int, first_slot: int, render: bool) -> Env:
    outside = outside_of(config.id)
    if outside is not None:
        _choose_form(config)
        if config.images is not None:
            raise _no_images(config)
        kind, target = outside
        with _explained(config, "env.kwargs" if config.kwargs else "env.id"):
            return import_target(OUTSIDE[kind], key="env.id")(config.id, target, config.kwargs, num_envs, first_slot)
    form = _choose_form(config)
    if form == "processes":
        from shoal.envs.processes.env import ProcessesEnv

        single = config.model_copy(update={"vector": "loop", "wrappers": single_wrappers(config), "game_return": None})
        look = partial(_build, single, 1, first_slot, render=False)
        return ProcessesEnv(single, look, num_envs, first_slot=first_slot, render=render)
    if form == "loop":
        make_one = _single_maker(config, render)
        copies = [make_one() for _ in range(num_envs)]
        with _explained(config, "env.id"):
            return _loop(copies, config, first_slot)
    if config.images is not None:
        raise _no_images(config)
    if _is_registered(config.id):
        return _adapt(_make_vector(config, num_envs, render), config, first_slot)
    return _adapt(_call_batched(config, num_envs, first_slot, render), config, first_slot)


def forms_of(config: EnvConfig) -> tuple[Form, ...]:
    """In which forms this environment can be had with these wrappers."""
    if outside_of(config.id) is not None:
        return ("native",)
    if not _is_registered(config.id):
        return ("native",) if _is_batched(_factory(config)) else ("loop",)
    spec = _spec(config)
    if spec.entry_point is None:
        return ("native",)
    wrapped = bool(spec.additional_wrappers or single_wrappers(config))
    return ("loop",) if spec.vector_entry_point is None or wrapped else ("loop", "native")


def _choose_form(config: EnvConfig) -> Form:
    forms, named, single = forms_of(config), f"'{config.id}'", single_wrappers(config)
    if "native" in forms and single:
        raise InputError(f"env.wrappers = {single}: {named} is a batch, and these go around single copies")
    if config.vector == "auto":
        return forms[-1]
    if config.vector == "processes" and "loop" in forms:
        return "processes"
    if config.vector in forms:
        return config.vector
    if config.vector in ("loop", "processes"):
        raise InputError(f"env.vector = '{config.vector}': {named} is a batch and has no single copies; write auto")
    if single:
        raise InputError(
            f"env.vector = 'native': env.wrappers = {single} go around single copies; drop them or write loop"
        )
    raise InputError(f"env.vector = 'native': {named} has no vector implementation of its own; write auto or loop")


# ---------------------------------------------------------------- finding


def _is_registered(env_id: str) -> bool:
    """Whether gymnasium's registry is the place to look: `module:Id-v0` is a registered name."""
    if env_id.startswith("shoal/") or family_of(env_id) in BATCHES or is_game_id(env_id):
        return False
    return ":" not in env_id or bool(_VERSIONED.search(env_id))


def _spec(config: EnvConfig) -> EnvSpec:
    module, name = _module_and_name(config.id)
    if family_of(config.id) in REGISTERED:
        require_package(config.id, REGISTERED[family_of(config.id)])
    with _explained(config, "env.id"):  # importing the module registers its environments
        if name.startswith(ATARI) and not module:
            importlib.import_module("ale_py")
        elif module:
            import_module(module, config.id, "env.id")
    spec = gymnasium.registry.get(name)
    if spec is None:
        close = difflib.get_close_matches(name, [*gymnasium.registry, *ENVS], n=1)
        advice = did_you_mean(name, close) if close else "name the module that registers it, as in module:Id-v0"
        raise InputError(f"env.id = '{config.id}' is not known to gymnasium; {advice} (or your own module:factory)")
    return spec


def _module_and_name(env_id: str) -> tuple[str, str]:
    """`module:Id-v0`, `minigrid/Id-v0`, or a name that gymnasium knows."""
    family = family_of(env_id)
    if family in REGISTERED:
        return REGISTERED[family].package, env_id.removeprefix(f"{family}/")
    module, _, name = env_id.rpartition(":")
    return module, name


def _factory(config: EnvConfig) -> Callable[..., Any]:
    target = config.id
    if family_of(target) in BATCHES:
        family, finder = BATCHES[family_of(target)]
        require_package(target, family)
        with _explained(config, "env.id"):
            return import_target(finder, key="env.id")(target)
    if is_game_id(target):
        with _explained(config, "env.id"):
            return find_game(target)
    if target.startswith("shoal/"):
        if target not in ENVS:
            raise InputError(f"env.id = '{target}' is not an environment of Shoal's; {did_you_mean(target, ENVS)}")
        target = ENVS[target]
    with _explained(config, "env.id"):
        factory = import_target(target, key="env.id")
    if not callable(factory):
        raise InputError(f"env.id = '{config.id}' is a {type(factory).__name__}; name a class or a function")
    return factory


def _is_batched(factory: Callable[..., Any]) -> bool:
    """Whether the factory makes all copies at once: an Env, or a function that asks for `num_envs`."""
    if isinstance(factory, type):
        return issubclass(factory, Env | gymnasium.vector.VectorEnv)
    return _takes(factory, "num_envs")


def _takes(function: Callable[..., Any], parameter: str) -> bool:
    try:
        return parameter in inspect.signature(function).parameters
    except (TypeError, ValueError):  # builtins have no signature to look at
        return False


def family_extras() -> dict[str, str]:
    """Families of environments that go by `family/NAME` -> the extra of Shoal's that brings them."""
    games = {name: family.extra for name, family in FAMILIES.items()}
    relatives = {name: relative.extra for name, relative in RELATIVES.items()}
    registered = {name: family.extra for name, family in REGISTERED.items()}
    batches = {name: family.extra for name, (family, _) in BATCHES.items()}
    return {"ALE": "atari", **games, **relatives, **registered, **batches}


# ---------------------------------------------------------------- building


def _single_maker(config: EnvConfig, render: bool) -> Callable[[], Single]:
    """A function that builds one copy, wrapped."""
    wrappers = [(target, _wrapper(config, target)) for target in single_wrappers(config)]
    spec = _spec(config) if _is_registered(config.id) else None
    creator = _factory(config) if spec is None else _creator(config, spec.entry_point)
    kwargs = {"render_mode": "rgb_array", **config.kwargs} if render and _draws(creator) else config.kwargs

    def make_one() -> Single:
        with _explained(config, "env.kwargs" if config.kwargs else "env.id"):
            env = creator(**kwargs) if spec is None else gymnasium.make(spec, disable_env_checker=True, **kwargs)
            if is_rllib(env):
                env = RllibGame(env, config.id)
            elif not is_game(env) and follows_old_api(env):
                env = OldGym(env, config.id)
        if not (isinstance(env, gymnasium.Env) or is_game(env)):
            raise InputError(_wrong_product(config, env))
        if not is_game(env):
            _check_spaces(env, "", config)
        for target, wrapper in wrappers:
            with _explained(config, "env.wrappers", target):
                env = wrapper(env)
        return env

    return make_one


def _loop(copies: list[Single], config: EnvConfig, first_slot: int) -> Env:
    if not is_game(copies[0]) and lists_agents(copies[0].observation_space, copies[0].action_space):
        from shoal.envs.listed_agents import ListedAgents

        copies = [ListedAgents(env) for env in copies]
    if is_game(copies[0]):
        from shoal.envs.pettingzoo_loop import PettingZooLoop

        return PettingZooLoop(copies, config.id, first_slot=first_slot, images=config.images)
    if config.images is not None:
        raise _no_images(config)
    from shoal.envs.gymnasium_loop import GymnasiumLoop
    from shoal.envs.text_bits import with_text_as_bits

    copies = [with_text_as_bits(env) for env in copies]
    return GymnasiumLoop(copies, config.id, first_slot=first_slot)


def _check_spaces(env: Any, prefix: str, config: EnvConfig) -> None:
    for name in (f"{prefix}observation_space", f"{prefix}action_space"):
        if not isinstance(getattr(env, name, None), gymnasium.Space):
            raise InputError(f"env.id = '{config.id}' has no {name}: set it to one of gymnasium.spaces in __init__")


def _creator(config: EnvConfig, entry: str | Callable[..., Any] | None) -> Callable[..., Any]:
    assert entry is not None, "this environment does not have this form"
    with _explained(config, "env.id"):
        return load_env_creator(entry) if isinstance(entry, str) else entry


def _draws(creator: Callable[..., Any]) -> bool:
    metadata = getattr(creator, "metadata", None)
    if isinstance(metadata, dict):
        return "rgb_array" in metadata.get("render_modes", ())
    return _takes(creator, "render_mode")


def _wrapper(config: EnvConfig, target: str) -> Callable[[Single], Single]:
    with _explained(config, "env.wrappers", target):
        return import_target(target, key="env.wrappers")


def _make_vector(config: EnvConfig, num_envs: int, render: bool) -> Any:
    spec = _spec(config)
    draws = render and _draws(_creator(config, spec.vector_entry_point))
    kwargs = {"render_mode": "rgb_array", **config.kwargs} if draws else config.kwargs
    if config.id.startswith(ATARI):
        from shoal.envs.atari import DEFAULTS

        kwargs = {**DEFAULTS, **kwargs}
    with _explained(config, "env.kwargs" if config.kwargs else "env.id"):
        return gymnasium.make_vec(spec, num_envs, vectorization_mode="vector_entry_point", **kwargs)


def _call_batched(config: EnvConfig, num_envs: int, first_slot: int, render: bool) -> Any:
    factory = _factory(config)
    kwargs = dict(config.kwargs)
    if _takes(factory, "first_slot"):
        kwargs["first_slot"] = first_slot
    if family_of(config.id) in BATCHES and _takes(factory, "render"):
        kwargs["render"] = render
    with _explained(config, "env.kwargs" if config.kwargs else "env.id"):
        return factory(num_envs=num_envs, **kwargs)


def _adapt(product: Any, config: EnvConfig, first_slot: int) -> Env:
    if isinstance(product, gymnasium.vector.VectorEnv):
        _check_spaces(product, "single_", config)
    if isinstance(product, gymnasium.vector.VectorEnv) and config.id.startswith(ATARI):
        from shoal.envs.atari import AtariVector

        return AtariVector(product, config.id, first_slot=first_slot)
    if isinstance(product, gymnasium.vector.VectorEnv):
        from shoal.envs.gymnasium_vector import GymnasiumVector

        return GymnasiumVector(product, config.id, first_slot=first_slot)
    if not isinstance(product, Env):
        raise InputError(_wrong_product(config, product))
    return product


# ---------------------------------------------------------------- explaining


@contextmanager
def _explained(config: EnvConfig, key: str, target: str | None = None) -> Iterator[None]:
    """Turn what other people's code raises while it is imported or built into one line about the setting behind it."""
    try:
        yield
    except ShoalError:
        raise
    except (ModuleNotFoundError, gymnasium.error.DependencyNotInstalled) as error:
        wanted = f"env.wrappers = '{target}'" if target else f"env.id = '{config.id}'"
        raise InputError(f"{wanted} needs a package that is not installed: {_remedy(error)}") from error
    except Exception as error:
        said = {"env.id": f"'{config.id}'", "env.kwargs": config.kwargs, "env.wrappers": f"'{target}'"}[key]
        whose = "" if key == "env.id" else f" does not suit '{config.id}'"
        text = " ".join(str(error).split()).split(" was raised from the environment creator")[0]
        raise InputError(f"{key} = {said}{whose}: {type(error).__name__}: {text}") from error


def _remedy(error: ImportError | gymnasium.error.DependencyNotInstalled) -> str:
    text = " ".join(str(error).split())
    if "box2d" in text.lower():
        return 'pip install "shoal[box2d]"'
    if "grpc" in text or "google" in text:
        return 'pip install "shoal[unity]"'
    if "mujoco" in text.lower():
        return 'pip install "shoal[mujoco]"'
    if "ale_py" in text:
        return 'pip install "shoal[atari]"'
    return f"pip install {error.name}" if isinstance(error, ImportError) and error.name else text


def _no_images(config: EnvConfig) -> InputError:
    return InputError(f"env.images is for PettingZoo games, and '{config.id}' is none: wrap it by env.wrappers instead")


def _wrong_product(config: EnvConfig, product: Any) -> str:
    advice = (
        "a factory of an Env must have a parameter num_envs"
        if isinstance(product, Env)
        else "return a gymnasium.Env or a PettingZoo game, or take num_envs and return a shoal.api.env.Env"
    )
    return f"env.id = '{config.id}' made a {type(product).__name__}: {advice}"
