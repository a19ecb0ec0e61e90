"""Every model in the table keeps the contract; `auto`, resolved sections, users' own models, and what errors say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Text
from model_spaces import PARTS, PICTURES, VECTORS, batch, starts

from shoal.base.config import Named
from shoal.base.errors import InputError
from shoal.base.flat import Flat
from shoal.base.tree import tree_leaves, tree_map
from shoal.models import MODELS, build_model, resolved_model
from shoal.models.mlp import MLPConfig

CASES = [
    *(("mlp", space) for space in VECTORS.values()),
    *((name, space) for name in ("nature", "impala", "board") for space in PICTURES.values()),
    *(("dict", space) for space in PARTS.values()),
    *((name, space) for name in ("gru", "lstm") for space in (VECTORS["box"], PICTURES["hwc"], PARTS["tuple"])),
]


def section(name: str, **rest: Any) -> Named:
    return Named.parse({"name": name, **rest})


@pytest.mark.parametrize(("name", "space"), CASES, ids=lambda case: case if isinstance(case, str) else "")
def test_every_model_keeps_the_contract(name: str, space: Space[Any]) -> None:
    torch.manual_seed(0)
    model = build_model(section(name), space)
    rows, lanes = 3, 4
    state = model.initial_state(lanes)
    first = starts(rows, lanes, 3)
    features, after = model(batch(space, rows, lanes), state, first)
    assert features.shape == (rows, lanes, model.features)
    assert features.dtype == torch.float32
    features.square().sum().backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key
        assert parameter.grad.abs().sum() > 0, key
    shapes = [(path, leaf.shape, leaf.dtype) for path, leaf in tree_leaves(state)]
    assert shapes == [(path, leaf.shape, leaf.dtype) for path, leaf in tree_leaves(after)]
    assert bool(shapes) == (name in ("gru", "lstm"))
    assert all(shape == (lanes, model.features) and dtype == torch.float32 for _, shape, dtype in shapes)
    assert all(not leaf.any() for _, leaf in tree_leaves(state))


@pytest.mark.parametrize(("name", "space"), CASES, ids=lambda case: case if isinstance(case, str) else "")
def test_rows_may_come_one_at_a_time(name: str, space: Space[Any]) -> None:
    torch.manual_seed(0)
    model = build_model(section(name), space)
    observation, first = batch(space, 4, 3), starts(4, 3, 2)
    with torch.no_grad():
        whole, after = model(observation, model.initial_state(3), first)
        state = model.initial_state(3)
        for t in range(4):
            features, state = model(tree_map(lambda x, t=t: x[t : t + 1], observation), state, first[t : t + 1])
            torch.testing.assert_close(features[0], whole[t], atol=1e-5, rtol=1e-5)
    for (_, a), (_, b) in zip(tree_leaves(after), tree_leaves(state), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["mlp", "gru", "lstm"])
def test_a_model_works_from_one_block(name: str) -> None:
    torch.manual_seed(0)
    space = VECTORS["discrete"]
    model = build_model(section(name, hidden=[8]), space)
    inputs = batch(space, 5, 2), model.initial_state(2), starts(5, 2, 3)
    before = model(*inputs)[0]
    flat = Flat(model, gradients=True)
    after = model(*inputs)[0]
    assert torch.equal(before, after)
    after.sum().backward()
    assert flat.gradients is not None
    assert flat.gradients.abs().sum() > 0


@pytest.mark.parametrize("name", list(MODELS.entries))
def test_unknown_keys_are_answered_with_a_suggestion(name: str) -> None:
    space = {"nature": PICTURES["hwc"], "impala": PICTURES["hwc"], "board": PICTURES["hwc"], "dict": PARTS["dict"]}.get(
        name, VECTORS["box"]
    )
    with pytest.raises(InputError, match=r"model\.hiden = .*did you mean 'hidden'"):
        build_model(section(name, hiden=[3]), space)


def test_unknown_names_are_answered_with_a_suggestion() -> None:
    with pytest.raises(InputError, match=r"model\.name = 'mpl' is not known; did you mean 'mlp'"):
        build_model(section("mpl"), VECTORS["box"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "mlp", "hidden": [0]}, r"model\.hidden\.0 = 0: should be greater than or equal to 1"),
        ({"name": "mlp", "activation": "tan"}, r"model\.activation = 'tan': should be 'tanh'"),
        ({"name": "gru", "hidden": []}, r"model\.hidden = \[\]"),
        ({"name": "gru", "encoder": {"name": "mlp", "hiden": [1]}}, r"model\.encoder\.hiden .*did you mean 'hidden'"),
        ({"name": "gru", "encoder": "lstm"}, r"model\.encoder\.name = 'lstm' has memory"),
        ({"name": "nature"}, r"model\.name = 'nature' takes images"),
        ({"name": "dict"}, r"model\.name = 'dict' takes Dict and Tuple"),
    ],
)
def test_wrong_settings_name_the_key(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_model(Named.parse(settings), VECTORS["box"])


def test_wrong_spaces_name_the_space() -> None:
    with pytest.raises(InputError, match=r"at least 36 x 36 pixels, these are 20 x 50"):
        build_model(section("nature"), Box(0, 255, (20, 50, 3), np.uint8))
    with pytest.raises(InputError, match=r"this model takes no observations of Tuple.*: try model.name = 'auto'"):
        build_model(section("mlp"), PARTS["tuple"])
    with pytest.raises(InputError, match=r"observations of Text"):
        build_model(section("auto"), Text(5))
    with pytest.raises(InputError, match=r"with parts, not Dict\(\)"):
        build_model(section("auto"), Dict({}))


@pytest.mark.parametrize(
    ("space", "name"),
    [
        *((space, "mlp") for space in VECTORS.values()),
        (PICTURES["hwc"], "nature"),
        (PICTURES["chw"], "nature"),
        (PICTURES["float"], "mlp"),
        (Box(0, 255, (7, 7, 3), np.uint8), "mlp"),
        *((space, "dict") for space in PARTS.values()),
    ],
)
def test_auto_follows_the_space(space: Space[Any], name: str) -> None:
    assert resolved_model(section("auto"), space)["name"] == name
    assert type(build_model(section("auto"), space)) is MODELS.load(name)


def test_auto_passes_its_settings_on() -> None:
    assert build_model(section("auto", hidden=[7]), VECTORS["box"]).features == 7
    assert build_model(section("auto", hidden=[7]), PICTURES["hwc"]).features == 7


@pytest.mark.parametrize("name", ["auto", "gru", "lstm"])
@pytest.mark.parametrize("space", [VECTORS["box"], PICTURES["hwc"], PARTS["tuple"]], ids=["box", "picture", "tuple"])
def test_a_resolved_section_builds_the_same_model(name: str, space: Space[Any]) -> None:
    resolved = resolved_model(section(name), space)
    assert "auto" not in str(resolved)
    assert resolved_model(Named.parse(resolved), space) == resolved
    shapes = [
        {key: value.shape for key, value in build_model(each, space).state_dict().items()}
        for each in (section(name), Named.parse(resolved))
    ]
    assert shapes[0] == shapes[1]


def test_resolved_sections_hold_every_setting() -> None:
    resolved = resolved_model(section("auto", hidden=[32]), VECTORS["box"])
    assert resolved == {"name": "mlp", "hidden": [32], "activation": "tanh", "layer_norm": False}


def test_a_typed_config_is_a_section_too() -> None:
    from shoal.api.experiment import Experiment

    experiment = Experiment(env="CartPole-v1", model=MLPConfig(hidden=[3]))  # type: ignore[arg-type]
    assert build_model(experiment.model, VECTORS["box"]).features == 3


OWN = """
import torch
from shoal.api.policy import Model
from shoal.base.config import Config

class Settings(Config):
    width: int = 3
    '''How wide.'''

class Mine(Model):
    Config = Settings
    def __init__(self, observation_space, config):
        super().__init__(observation_space, config)
        self.features = config.width
        self.linear = torch.nn.Linear(observation_space.shape[0], config.width)
    def forward(self, observation, state, first):
        return self.linear(observation), state

class Plain(Model):
    features = 5
    def forward(self, observation, state, first):
        return observation, state

class NotAModel:
    pass

class Odd(Model):
    Config = dict
"""


@pytest.mark.parametrize("where", ["own_models_of_a_user.py", "own_models_of_a_user"])
def test_users_bring_their_own(where: str, in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (in_tmp / "own_models_of_a_user.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(in_tmp))
    space = VECTORS["box"]
    model = build_model(section(f"{where}:Mine", width=4), space)
    assert model(batch(space, 2, 3), None, starts(2, 3, 9))[0].shape == (2, 3, 4)
    assert resolved_model(section(f"{where}:Mine"), space) == {"name": f"{where}:Mine", "width": 3}
    assert build_model(section(f"{where}:Plain"), space).features == 5
    assert build_model(section("gru", encoder=f"{where}:Mine"), space).features == 128
    with pytest.raises(InputError, match="did you mean 'width'"):
        build_model(section(f"{where}:Mine", widht=4), space)
    with pytest.raises(InputError, match=r"model\.width = 4: there is no such key"):
        build_model(section(f"{where}:Plain", width=4), space)
    with pytest.raises(InputError, match="inherits shoal.api.policy.Model"):
        build_model(section(f"{where}:NotAModel"), space)
    with pytest.raises(InputError, match="should inherit shoal.base.config.Config"):
        build_model(section(f"{where}:Odd"), space)


def test_importing_the_table_imports_no_model() -> None:
    code = "import sys, shoal.models; print([m for m in sys.modules if m.startswith(('shoal.models.', 'gymnasium'))])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert out.stdout.strip() == "[]"
