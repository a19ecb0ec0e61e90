"""What is proposed for other libraries' names works as it is written."""

from __future__ import annotations

import pytest

from shoal.api.experiment import load_experiment
from shoal.base.errors import InputError
from shoal.base.peers import ALGORITHMS, NEAREST, RECIPES, algorithm_line, peer_key, settings_of
from shoal.program.expand import expand
from shoal.recipes import find, names

TEAMS = ("qmix", "central")


@pytest.mark.parametrize("name", [*ALGORITHMS, *NEAREST])
def test_the_line_that_is_proposed_makes_an_algorithm(name: str) -> None:
    line = ALGORITHMS.get(name) or NEAREST[name]
    algorithm, *settings = settings_of(line)
    recipe = "spread" if any(word in line for word in TEAMS) else "cartpole"
    kept = ["algorithm.unroll=16", "env.num_envs=32"]
    program = expand(load_experiment(find(recipe), [f"algorithm.name={algorithm}", *kept, *settings]))
    assert program.experiment.algorithm.name == algorithm


def test_every_recipe_that_is_proposed_exists() -> None:
    assert set(RECIPES.values()) <= set(names())


def test_an_algorithm_is_answered_with_its_line() -> None:
    assert algorithm_line("MAPPO") == "write algorithm.name=ppo algorithm.critic=central, as in the recipe 'spread'"
    assert algorithm_line("td3") == "algorithm.name=sac comes nearest"
    assert algorithm_line("ppo-lstm") == "write algorithm.name=ppo model.name=lstm"
    assert "'algorithm.epsilon={base: 0.4, alpha: 7}' placement.actors=2" in str(algorithm_line("apex"))
    assert algorithm_line("pop") is None
    with pytest.raises(InputError, match=r"'pop' is not known; did you mean 'ppo'\?"):
        expand(load_experiment(find("cartpole"), ["algorithm.name=pop"]))


def test_a_key_stands_beside_what_was_written_or_with_its_section() -> None:
    assert peer_key("learning-rate", ["lr", "gamma"]) == "lr"
    assert peer_key("total_timesteps", ["lr"]) == "stop.steps"
    assert peer_key("batch_size", ["batch"]) == "batch"
    assert peer_key("nonsense", []) is None
