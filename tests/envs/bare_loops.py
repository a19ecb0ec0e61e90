"""The random loop of an environment's own package, without Shoal: `python bare_loops.py '{"id": ..., "num_envs": ...}' SECONDS`.

Prints one line of JSON: steps per second, and what Shoal makes of the environment. One process, whose loop is what the package's
own users write: single environments one by one, batches with as many copies as Shoal has. Actions are drawn before the clock
starts, except where the rules say which are allowed. A step is one of a copy: of all agents, or of the one whose turn it is.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Loop = Callable[[], int]
"""Goes on a little; how many steps."""
DRAWN, LAP = 64, 20


def single(env: Any) -> Loop:
    """A gymnasium environment."""
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(DRAWN)]
    env.reset(seed=0)

    def lap() -> int:
        for action in actions[:LAP]:
            _, _, terminated, truncated, _ = env.step(action)
            if np.all(terminated) or np.all(truncated):
                env.reset()
        return LAP

    return lap


def registered(module: str, name: str, kwargs: dict[str, Any]) -> Loop:
    import importlib

    import gymnasium

    if module:
        importlib.import_module(module)
    return single(gymnasium.make(name, disable_env_checker=True, **kwargs))


def batch(env: Any, copies: int) -> Loop:
    """A vector environment."""
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(DRAWN)]
    env.reset()

    def lap() -> int:
        for action in actions[:LAP]:
            env.step(action)
        return LAP * copies

    return lap


def atari(name: str, kwargs: dict[str, Any], copies: int) -> Loop:
    import ale_py
    import gymnasium

    from shoal.envs.atari import DEFAULTS

    gymnasium.register_envs(ale_py)
    return batch(
        gymnasium.make_vec(name, copies, vectorization_mode="vector_entry_point", **{**DEFAULTS, **kwargs}), copies
    )


def pool(name: str, kwargs: dict[str, Any], copies: int) -> Loop:
    """EnvPool, with one thread as in Shoal."""
    import envpool

    env = envpool.make_gymnasium(name, num_envs=copies, seed=0, **{"num_threads": 1, **kwargs})
    random, space = np.random.default_rng(0), env.action_space
    if hasattr(space, "n"):
        actions = [random.integers(space.n, size=copies) for _ in range(DRAWN)]
    else:
        actions = [random.uniform(space.low, space.high, (copies, *space.shape)) for _ in range(DRAWN)]
    env.reset()

    def lap() -> int:
        for action in actions[:LAP]:
            env.step(action)
        return LAP * copies

    return lap


def together(env: Any) -> Loop:
    """A parallel game of PettingZoo."""
    spaces = {agent: env.action_space(agent) for agent in env.possible_agents}
    for space in spaces.values():
        space.seed(0)
    actions = [{agent: space.sample() for agent, space in spaces.items()} for _ in range(DRAWN)]
    env.reset(seed=0)

    def lap() -> int:
        for action in actions[:LAP]:
            env.step({agent: action[agent] for agent in env.agents})
            if not env.agents:
                env.reset()
        return LAP

    return lap


def by_turns(env: Any) -> Loop:
    """An AEC game of PettingZoo, within its masks."""
    random = np.random.default_rng(0)
    env.reset(seed=0)

    def lap() -> int:
        steps = 0
        while steps < LAP:
            observation, _, terminated, truncated, _ = env.last()
            if terminated or truncated:
                env.step(None)
                if not env.agents:
                    env.reset()
                continue
            env.step(int(random.choice(np.flatnonzero(observation["action_mask"]))))
            steps += 1
        return steps

    return lap


def zoo(name: str, kwargs: dict[str, Any]) -> Loop:
    from shoal.envs.pettingzoo_games import find_game

    env = find_game(name)(**kwargs)
    return together(env) if hasattr(env, "possible_agents") and not hasattr(env, "agent_iter") else by_turns(env)


def listed(module: str, name: str, kwargs: dict[str, Any]) -> Loop:
    return registered(module, name, kwargs)


def joints(name: str, kwargs: dict[str, Any]) -> Loop:
    from gymnasium_robotics import mamujoco_v1

    scenario, _, parts = name.partition("_")
    return together(mamujoco_v1.parallel_env(scenario=scenario, agent_conf=parts, **kwargs))


def openspiel(name: str, kwargs: dict[str, Any]) -> Loop:
    """OpenSpiel's own environment for learning, which shows its tensors."""
    from open_spiel.python import rl_environment

    env = rl_environment.Environment(name, **kwargs)
    random = np.random.default_rng(0)
    shown = [env.reset()]

    def lap() -> int:
        for _ in range(LAP):
            if shown[0].last():
                shown[0] = env.reset()
            seen = shown[0].observations
            shown[0] = env.step([random.choice(seen["legal_actions"][seen["current_player"]])])
        return LAP

    return lap


def compiled(step: Callable[..., Any], begin: Callable[[Any], Any], copies: int) -> Loop:
    """A step of all copies with actions of its own, which restarts who has ended; as often as Python asks for one."""
    from shoal.envs.jax_env import start_jax

    jax = start_jax()
    keys = jax.random.split(jax.random.PRNGKey(0), copies)
    state = [jax.jit(jax.vmap(begin))(keys)]
    step_all = jax.jit(jax.vmap(step))

    def lap() -> int:
        for _ in range(LAP):
            state[0] = jax.block_until_ready(step_all(keys, state[0]))
        return LAP * copies

    return lap


def jaxmarl(name: str, kwargs: dict[str, Any], copies: int) -> Loop:
    from shoal.envs.jax_env import start_jax

    jax = start_jax()
    import jaxmarl as package

    env = package.make(name, **kwargs)

    def step(key: Any, state: Any) -> Any:
        actions = {agent: env.action_space(agent).sample(key) for agent in env.agents}
        return env.step(key, state[1], actions)[:2]

    return compiled(step, lambda key: env.reset(key), copies) if jax else lambda: 0


def pgx(name: str, copies: int) -> Loop:
    from shoal.envs.jax_env import start_jax

    jax = start_jax()
    import pgx as package
    from pgx.experimental import auto_reset

    env = package.make(name)
    again = auto_reset(env.step, env.init)

    def step(key: Any, state: Any) -> Any:
        action = jax.random.categorical(key, jax.numpy.where(state.legal_action_mask, 0.0, -1e9))
        return again(state, action, key)

    return compiled(step, env.init, copies)


def loop_of(env_id: str, kwargs: dict[str, Any], copies: int) -> Loop:
    family, _, name = env_id.partition("/")
    batches = {"ALE": lambda: atari(env_id, kwargs, copies), "envpool": lambda: pool(name, kwargs, copies),
               "jaxmarl": lambda: jaxmarl(name, kwargs, copies), "pgx": lambda: pgx(name, copies)}  # fmt: skip
    modules = {"minigrid": "minigrid", "highway": "highway_env", "vizdoom": "vizdoom.gymnasium_wrapper",
               "lbforaging": "lbforaging", "rware": "rware"}  # fmt: skip
    if family in batches:
        return batches[family]()
    if family in modules:
        return registered(modules[family], name, kwargs)
    if family == "mamujoco":
        return joints(name, kwargs)
    if family == "openspiel":
        return openspiel(name, kwargs)
    return zoo(env_id, kwargs) if name else registered("", env_id, kwargs)


def rate(lap: Loop, seconds: float) -> float:
    """Steps per second, behind a warm-up of a fifth of the time."""
    for share in (0.2, 1.0):
        began, steps = time.perf_counter(), 0
        while (spent := time.perf_counter() - began) < share * seconds:
            steps += lap()
    return steps / spent


def described(config: dict[str, Any]) -> dict[str, Any]:
    """Groups with their numbers of agents, and spaces, as Shoal has them."""
    from shoal.api.experiment import EnvConfig
    from shoal.envs import make_env

    env = make_env(EnvConfig.model_validate({**config, "num_envs": 1}), 1)
    groups = env.groups
    env.close()
    return {
        "agents": min(len(group.agents) for group in groups.values()),
        "groups": ", ".join(f"{name} {len(group.agents)}" for name, group in groups.items()),
        "spaces": "; ".join(
            dict.fromkeys(
                f"{short(group.observation_space)} -> {short(group.action_space)}" for group in groups.values()
            )
        ),
    }


def short(space: Any) -> str:
    """`Box(3,)`, `Discrete(2)`, `Dict(...)`."""
    if hasattr(space, "spaces") and isinstance(space.spaces, dict):
        return "Dict(" + ", ".join(f"{key} {short(part)}" for key, part in space.spaces.items()) + ")"
    if hasattr(space, "n"):
        return f"{type(space).__name__}({np.asarray(space.n).tolist()})"
    if hasattr(space, "nvec"):
        return f"MultiDiscrete({space.nvec.tolist()})"
    return f"{'bytes' if space.dtype == np.uint8 else 'Box'}{list(space.shape)}"


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[2]))
    warnings.simplefilter("ignore")
    config, seconds = json.loads(sys.argv[1]), float(sys.argv[2])
    lap = loop_of(config["id"], config.get("kwargs", {}), config["num_envs"])
    print(json.dumps({"rate": rate(lap, seconds), **(described(config) if "look" in sys.argv[3:] else {})}), flush=True)


if __name__ == "__main__":
    main()
