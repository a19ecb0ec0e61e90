"""Network bodies by name: a section of the experiment and an observation space in, a Model out.

Heads, which turn a model's features into actions, are in `heads`; observation statistics in `normaliser`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.api.policy import Model
from shoal.base.config import Config, Named
from shoal.base.errors import InputError, own_code
from shoal.base.table import Table

if TYPE_CHECKING:
    from gymnasium import Space

MODELS = Table(
    "model",
    {
        "mlp": "shoal.models.mlp:MLPModel",
        "nature": "shoal.models.image:NatureModel",
        "impala": "shoal.models.image:ImpalaModel",
        "board": "shoal.models.board:BoardModel",
        "dict": "shoal.models.tree:TreeModel",
        "gru": "shoal.models.recurrent:GRUModel",
        "lstm": "shoal.models.recurrent:LSTMModel",
    },
)


class NoSettings(Config):
    """What a model without a nested `Config` is set by: nothing."""


def build_model(section: Named, observation_space: Space[Any], *, at: str = "model") -> Model:
    """The model that `section` names, for one observation space. `at` is where the section stands in the experiment."""
    name = model_name(section, observation_space)
    model, settings = _class_and_config(name)
    config = settings.parse(section.rest, at=at)
    if ":" not in name:
        return model(observation_space, config)
    from shoal.models.trial import try_model

    said = f"{at}.name = '{name}'"
    with own_code(said):
        built = model(observation_space, config)
    try_model(built, observation_space, said)
    return built


def resolved_model(section: Named, observation_space: Space[Any], *, at: str = "model") -> dict[str, Any]:
    """The section with `auto` and every default written out; it builds the same model."""
    name = model_name(section, observation_space)
    config = _class_and_config(name)[1].parse(section.rest, at=at)
    resolved = {**config.model_dump(), "name": name}
    for key, value in config:
        if key == "encoder" and isinstance(value, Named):
            encoder = encoder_section(value, observation_space)
            resolved[key] = resolved_model(encoder, observation_space, at=f"{at}.{key}")
    return {"name": resolved.pop("name"), **resolved}


def model_name(section: Named, observation_space: Space[Any]) -> str:
    """`auto` as the model it stands for: `dict` for parts, `nature` for images, else `mlp`."""
    if section.name != "auto":
        return section.name
    from gymnasium import spaces

    from shoal.models.image import suits_nature

    if isinstance(observation_space, spaces.Dict | spaces.Tuple):
        return "dict"
    return "nature" if suits_nature(observation_space) else "mlp"


def encoder_section(section: Named, observation_space: Space[Any]) -> Named:
    """What stands before a recurrent core: bare `auto` is no layer at all where the observation is a vector."""
    name = model_name(section, observation_space)
    if section.name == "auto" and name == "mlp" and not section.rest:
        return Named.parse({"name": name, "hidden": []})
    return section


def _class_and_config(name: str) -> tuple[type[Model], type[Config]]:
    model = MODELS.load(name)
    if not (isinstance(model, type) and issubclass(model, Model)):
        raise InputError(f"model.name = '{name}' is not a model: make it a class that inherits shoal.api.policy.Model")
    settings = getattr(model, "Config", NoSettings)
    if not (isinstance(settings, type) and issubclass(settings, Config)):
        raise InputError(f"model.name = '{name}': its nested Config should inherit shoal.base.config.Config")
    return model, settings
