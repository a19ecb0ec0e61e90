"""Memory: a recurrent core behind an encoder. Its state restarts from zero wherever an episode starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from gymnasium import Space
from pydantic import Field
from torch import Tensor, nn

from shoal.api.policy import Model
from shoal.base.arithmetic import Network
from shoal.base.config import Config, Section
from shoal.base.errors import InputError
from shoal.base.tree import Tree
from shoal.models import build_model, encoder_section
from shoal.models.layers import Activation, Dense, Width
from shoal.models.unroll import unroll_gru, unroll_lstm


class RecurrentConfig(Config):
    """Encoder, dense layers, then one recurrent core."""

    hidden: list[Width] = Field([128], min_length=1)
    """The last number is the core's width; those before it are dense layers between encoder and core."""
    encoder: Section = Field(default="auto", validate_default=True)
    """Any model without memory. `auto` adds no layer of its own where the observation is a vector: with one number in
    `hidden` the core then sits on the flattened observation. Images get `nature`, Dict and Tuple `dict`."""
    activation: Activation = "tanh"
    """What follows each dense layer."""


class GRUConfig(RecurrentConfig):
    """Gated recurrent unit (Cho et al. 2014)."""

    name: Literal["gru"] = "gru"


class LSTMConfig(RecurrentConfig):
    """Long short-term memory (Hochreiter and Schmidhuber 1997) with a forget gate that starts open."""

    name: Literal["lstm"] = "lstm"


class Front(Network):
    """What comes before the core: `[R, B, ...]` -> `[R, B, features]`."""

    def __init__(self, space: Space[Any], config: RecurrentConfig) -> None:
        super().__init__()
        self.encoder = build_model(encoder_section(config.encoder, space), space, at="model.encoder")
        if self.encoder.initial_state(1) is not None:
            raise InputError(f"model.encoder.name = '{config.encoder.name}' has memory itself: choose one without")
        self.dense = Dense(self.encoder.features, config.hidden[:-1], config.activation)
        self.features = self.dense.features

    def forward(self, observation: Tree, first: Tensor) -> Tensor:
        features: Tensor = self.dense(self.encoder(observation, None, first)[0])
        return features


class RecurrentModel(Model):
    """A core behind a front. The core steps in float32, whatever the front computes in: its state is carried over many rows."""

    front: Front

    def arithmetic_parts(self) -> Iterator[Network]:
        """The front."""
        yield self.front


class GRUModel(RecurrentModel):
    """`[R, B, ...]` -> `[R, B, hidden[-1]]`; its state is one tensor `[B, hidden[-1]]`."""

    Config = GRUConfig

    def __init__(self, observation_space: Space[Any], config: GRUConfig) -> None:
        super().__init__(observation_space, config)
        self.front = Front(observation_space, config)
        self.features = config.hidden[-1]
        self.cell = nn.GRUCell(self.front.features, self.features)
        start_cell(self.cell)

    def initial_state(self, batch: int) -> Tensor:
        """See Model."""
        return self.cell.weight_hh.new_zeros(batch, self.features)

    def forward(self, observation: Tree, state: Tree | None, first: Tensor) -> tuple[Tensor, Tree | None]:
        """See Model."""
        assert state is not None, "a recurrent model starts from initial_state"
        x = self.front(observation, first)
        if len(first) == 1:
            h = self.cell(x[0], state.masked_fill(first[0].unsqueeze(-1), 0))
            return h.unsqueeze(0), h
        outputs = unroll_gru(self.cell, x, state, first)
        return outputs, outputs[-1]


class LSTMModel(RecurrentModel):
    """`[R, B, ...]` -> `[R, B, hidden[-1]]`; its state is `{"h", "c"}`, each `[B, hidden[-1]]`."""

    Config = LSTMConfig

    def __init__(self, observation_space: Space[Any], config: LSTMConfig) -> None:
        super().__init__(observation_space, config)
        self.front = Front(observation_space, config)
        self.features = config.hidden[-1]
        self.cell = nn.LSTMCell(self.front.features, self.features)
        start_cell(self.cell)
        nn.init.ones_(self.cell.bias_ih[self.features : 2 * self.features])

    def initial_state(self, batch: int) -> dict[str, Tensor]:
        """See Model."""
        zeros = self.cell.weight_hh.new_zeros
        return {"h": zeros(batch, self.features), "c": zeros(batch, self.features)}

    def forward(self, observation: Tree, state: Tree | None, first: Tensor) -> tuple[Tensor, Tree | None]:
        """See Model."""
        assert state is not None, "a recurrent model starts from initial_state"
        x = self.front(observation, first)
        if len(first) == 1:
            restart = first[0].unsqueeze(-1)
            h, c = self.cell(x[0], (state["h"].masked_fill(restart, 0), state["c"].masked_fill(restart, 0)))
            return h.unsqueeze(0), {"h": h, "c": c}
        outputs, c = unroll_lstm(self.cell, x, state["h"], state["c"], first)
        return outputs, {"h": outputs[-1], "c": c}


def start_cell(cell: nn.GRUCell | nn.LSTMCell) -> None:
    """Start every gate from an orthogonal matrix and zero bias."""
    for weight in (cell.weight_ih, cell.weight_hh):
        for gate in weight.detach().split(cell.hidden_size):
            nn.init.orthogonal_(gate)
    nn.init.zeros_(cell.bias_ih)
    nn.init.zeros_(cell.bias_hh)
