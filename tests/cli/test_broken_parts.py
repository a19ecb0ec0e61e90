"""Broken environments, models, opponents and algorithms: one line and a documented exit code, never a traceback, none accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_cli import shoal, start

TINY = ["env.num_envs=2", "algorithm.unroll=8", "stop.updates=40", "stop.return=null"]
HERE = "tests.cli.broken_parts"

ENVS = {
    "NoSpaces": (2, "has no observation_space: set it to one of gymnasium.spaces"),
    "NoActionSpace": (2, "has no action_space"),
    "NoneForASpace": (2, "has no observation_space"),
    "TextSpace": (2, "there is no array for observations of Text"),
    "TupleActions": (2, "no policy acts in Tuple"),
    "RaisingConstructor": (2, "ValueError: no licence"),
    "NeedsArguments": (2, "missing 1 required positional argument: 'level'"),
    "OldReset": (1, "copy 0: ValueError"),
    "NoSeed": (1, "copy 0: TypeError"),
    "RaisingReset": (1, "copy 0: RuntimeError: the simulator is away"),
    "OldStep": (1, "copy 0: ValueError: not enough values to unpack"),
    "RaisingStep": (1, "copy 0: ZeroDivisionError: at once"),
    "RaisingLater": (1, "copy 0: ZeroDivisionError: later"),
    "WrongShape": (1, "the observation has shape (3,)"),
    "WrongKind": (1, "where the space says (2,) and float32"),
    "NothingSeen": (1, "where the space says (2,) and float32"),
    "MissingPart": (1, "KeyError: 'b'"),
    "WordReward": (1, "the reward is much; return one number"),
    "NoReward": (1, "reward of lanes [0, 1] is not finite"),
    "TwoRewards": (1, "return one number"),
    "NaNReward": (1, "reward of lanes [0, 1] is not finite"),
    "NaNObservation": (1, "10 batches in a row were not finite"),
    "WordMetrics": (1, "info['metrics'] is not a dict of numbers"),
    "ForbidsAll": (1, "the action mask of 'agent' in copy 0 forbids every action"),
    "ForbidsAllLater": (1, "the action mask of 'agent' in copy 0 forbids every action"),
    "ForbidsAPart": (1, "the action mask of 'agent' in copy 0 forbids every action"),
    "WideMask": (1, "action_mask has 3 entries where the action space has 2 actions"),
    "LateMask": (1, "came with step() but not with reset()"),
    "MaskOfABox": (1, "only Discrete and MultiDiscrete actions can be masked"),
    "SeenMaskOfABox": (2, "only Discrete and MultiDiscrete can be masked"),
    "SeenWideMask": (1, "action_mask has 3 entries where the action space has 2 actions"),
    "SeenForbidsAll": (1, "the action mask of 'agent' in copy 0 forbids every action"),
    "OnlyAMask": (2, "has an action_mask in its observation, and nothing beside it"),
    "RaisingMethod": (1, "copy 0: KeyError: 'no masks today'"),
    "MethodForbidsAll": (1, "the action mask of 'agent' in copy 0 forbids every action"),
    "nothing": (2, "made a NoneType: return a gymnasium.Env"),
    "word": (2, "made a str: return a gymnasium.Env"),
    "five": (2, "is a int; name a class or a function"),
    "NoGroups": (1, "AttributeError"),
    "NoFirstStep": (1, "AttributeError"),
    "NoAgents": (2, "has no possible_agents"),
    "NoSpacesOfAgents": (2, "NotImplementedError"),
}
MODELS = {
    "RaisingModel": (2, "ValueError: no weights (broken_parts.py, line"),
    "NoSuper": (2, "before Module.__init__() call"),
    "OneArgument": (2, "TypeError"),
    "NoForward": (2, "NotImplementedError"),
    "NoFeatures": (2, "has no width: set self.features"),
    "WordFeatures": (2, "has no width: set self.features"),
    "WrongFeatures": (2, "forward gave features [2, 3, 4] where [R, B, features] is [2, 3, 7]"),
    "NoState": (2, "forward returned a Tensor: return the features and the state"),
    "ForgetsState": (2, "forward returned the state None where initial_state gave [3, 3]"),
    "OtherState": (2, "forward returned the state [3, 2] where initial_state gave [3, 3]"),
    "WordState": (2, "initial_state(3) should give tensors [3, ...], not a str"),
    "FlatFeatures": (2, "forward gave features [6, 4]"),
    "NumpyFeatures": (2, "forward gave features a ndarray"),
    "Normed": (2, "has a BatchNorm"),
    "Lazy": (2, "has lazy layers"),
    "RaisingForward": (2, "ValueError: my mistake (broken_parts.py, line"),
    "RaisingAtWork": (1, "ValueError: my mistake (broken_parts.py, line"),
    "NaNForward": (2, "forward gave NaN or infinity for observations of zeros"),
    "NoModel": (2, "is not a model"),
    "WordConfig": (2, "its nested Config should inherit"),
    "five": (2, "is not a model"),
    "Nobody": (2, "has no 'Nobody'"),
}
OPPONENTS = {
    "raises": (2, "RuntimeError: lost the thread (broken_parts.py, line"),
    "raises_later": (1, "RuntimeError: lost the thread (broken_parts.py, line"),
    "one_argument": (2, "takes 1 positional argument but 3 were given"),
    "seven": (2, "returned the action 7: return what Discrete(2) holds"),
    "minus_one": (2, "returned the action -1: return what Discrete(2) holds"),
    "halves": (2, "returned numbers of type float64: return whole numbers of Discrete(2)"),
    "one_for_all": (2, "returned actions []: return [16], one per observation"),
    "none": (2, "returned actions []"),
    "words": (2, "return whole numbers of Discrete(2)"),
    "seven_later": (1, "returned the action 7: return what Discrete(2) holds"),
    "five": (2, "is no function"),
    "nobody": (2, "has no 'nobody'"),
}
ALGORITHMS = {
    "RaisingAlgorithm": (2, "ValueError: no theory (broken_parts.py, line"),
    "Unfinished": (2, "TypeError: Can't instantiate abstract class Unfinished"),
    "NoConfig": (2, "has no Config: name its settings in a nested class"),
    "NoAlgorithm": (2, "is no Algorithm"),
    "RaisingUpdate": (1, "ValueError: no idea (broken_parts.py, line"),
    "NoUpdate": (1, "AttributeError"),
    "RaisingState": (1, "ValueError: cannot be kept (broken_parts.py, line"),
    "NoNeeds": (2, "has no needs: set self.needs in __init__"),
    "ForgetsEverything": (2, "has no needs: set self.needs in __init__"),
}


def fails(cwd: Path, code: int, said: str, *words: str) -> None:
    """It ends with that code and one line that says so."""
    done = shoal("train", *words, *TINY, "--on", "inline", cwd=cwd)
    lines = done.stderr.strip().splitlines()
    assert done.returncode == code, (done.returncode, done.stdout[-300:], done.stderr[-600:])
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("shoal: ")
    assert said in lines[0]
    assert "Traceback" not in done.stdout
    assert code == 1 or not (cwd / "runs").exists()


@pytest.mark.parametrize("name", ENVS)
def test_environments(name: str, tmp_path: Path) -> None:
    fails(tmp_path, *ENVS[name], "cartpole", f"env.id={HERE}:{name}")


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, tmp_path: Path) -> None:
    fails(tmp_path, *MODELS[name], "cartpole", f"model={{name: '{HERE}:{name}'}}")


@pytest.mark.parametrize("name", OPPONENTS)
def test_opponents(name: str, tmp_path: Path) -> None:
    policies = f"policies={{one: {{}}, two: {{play: '{HERE}:{name}'}}}}"
    fails(tmp_path, *OPPONENTS[name], "multi-cartpole", "agents={pole_0: one, '*': two}", policies)


def test_an_opponent_that_ignores_its_mask(tmp_path: Path) -> None:
    policies = f"policies.rival={{past: null, play: '{HERE}:sound'}}"
    fails(tmp_path, 1, "returned the action 0, which its action mask forbids", "connect-four", policies)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_algorithms(name: str, tmp_path: Path) -> None:
    fails(tmp_path, *ALGORITHMS[name], "cartpole", f"algorithm={{name: '{HERE}:{name}'}}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("class Mine(:", "SyntaxError"),
        ("raise RuntimeError('not\\ntoday')", "RuntimeError: not today"),
        ("import no_such_package_at_all", "no_such_package_at_all"),
        ("Mine = 5", "Mine"),
        ("", "has no 'Mine'"),
    ],
)
@pytest.mark.parametrize("key", ["env.id", "model.name", "algorithm.name", "workers.w"])
def test_files_of_the_users_own(key: str, text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text)
    fails(tmp_path, 2, said, "cartpole", f"{key}=mine.py:Mine")


@pytest.mark.slow
@pytest.mark.parametrize("part", ["model={name: '%s:RaisingAtWork'}", "algorithm={name: '%s:RaisingUpdate'}"])
def test_processes_of_their_own_say_no_more(part: str, tmp_path: Path) -> None:
    own = part % Path(__file__).with_name("broken_parts.py")
    process = start("train", "cartpole", own, *TINY, "placement.actors=1", cwd=tmp_path)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 1
    assert len(said.splitlines()) == 1, said
    assert "6 crashes in a row" in said


def test_what_is_sound_trains(tmp_path: Path) -> None:
    parts = [f"env.id={HERE}:Sound", "algorithm.name=shoal.algorithms.actor_critic.ppo:PPO"]
    for words in (parts, [f"model={{name: '{HERE}:SoundModel'}}"]):
        done = shoal("train", "cartpole", *words, *TINY, "stop.updates=2", "--on", "inline", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
