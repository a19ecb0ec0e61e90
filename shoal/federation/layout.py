"""What both ends must have in common before any weight travels: the recipe's fingerprint, and names and shapes of all tensors."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from shoal.api.algorithm import Algorithm
from shoal.api.experiment import Experiment
from shoal.api.federation import FederationConfig
from shoal.api.program import Program
from shoal.base.errors import InputError
from shoal.federation.codecs import Codec, make_codec
from shoal.federation.frames import PROTOCOL, size_of
from shoal.federation.messages import Offer, Tensor
from shoal.workers.parent_link import sizes

COMMON = ("env", "algorithm", "model", "agents", "policies", "deal", "curriculum", "league")
"""Sections that decide what is learned, and from what; the others are each end's own affair."""
HEADER = 4096
"""Bytes of the header of a message with weights, at most."""


def fingerprint_of(experiment: Experiment) -> str:
    """SHA-256 of what children and parent have to have in common. How many copies a child has, and their time limit, is not."""
    plain = experiment.model_dump(mode="json", include=set(COMMON))
    plain["env"] = {
        key: value for key, value in plain["env"].items() if key not in ("num_envs", "timeout", "background")
    }
    return _digest(plain)


def _digest(plain: Any) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":"), default=str).encode()).hexdigest()


def one_learner(program: Program) -> str:
    """The policy that is shared; of several, nobody would know whose round it is."""
    if len(program.learners) != 1:
        raise InputError(
            f"federation: {len(program.learners)} policies learn here, and one can be shared: use one policy for all agents"
        )
    return program.learners[0]


@dataclass(frozen=True)
class Layout:
    """Of the tensors that travel."""

    tensors: tuple[tuple[str, tuple[int, ...]], ...]
    features: list[int] = field(default_factory=list)
    """Of each normaliser."""

    @classmethod
    def of(cls, algorithm: Algorithm) -> Layout:
        """All that optimisers move, and the normalisers."""
        flats = list({id(optimiser.flat): optimiser.flat for optimiser in algorithm.optimisers}.values())
        if any(flat.parameters.element_size() != 4 for flat in flats):
            raise InputError("federation: parameters are not float32, and nothing else travels: use a model in float32")
        named = [(f"{i}.{name}", shape) for i, flat in enumerate(flats) for name, shape in flat.shapes.items()]
        return cls(tuple(named), sizes(algorithm)[1])

    @property
    def size(self) -> int:
        """Parameters."""
        total = 0
        for _, shape in self.tensors:
            count = 1
            for axis in shape:
                count *= axis
            total += count
        return total

    @property
    def moments_nbytes(self) -> int:
        """Of all normalisers."""
        return 8 * sum(1 + 2 * size for size in self.features)

    @property
    def digest(self) -> str:
        """Equal layouts have equal ones."""
        return _digest([[name, list(shape)] for name, shape in self.tensors] + [list(self.features)])

    def codec(self, encoding: str, share: float) -> Codec:
        """For all parameters as one vector."""
        return make_codec(encoding, self.size, share)

    @property
    def largest(self) -> int:
        """Bytes of a message with all weights as they are: what nobody may exceed."""
        return size_of(HEADER, (4 * self.size, self.moments_nbytes))


def make_offer(recipe: str, fingerprint: str, layout: Layout, config: FederationConfig) -> Offer:
    """What a parent says to children."""
    tensors = [Tensor(name=name, dtype="float32", shape=list(shape)) for name, shape in layout.tensors]
    return Offer(
        protocol=PROTOCOL, recipe=recipe, fingerprint=fingerprint, tensors=tensors, moments=layout.features,
        encoding=config.encoding, share=config.share, nbytes=layout.codec(config.encoding, config.share).nbytes,
        round=config.every, alpha=config.alpha, waits=config.waits,
    )  # fmt: skip


def mismatch(offer: Offer, fingerprint: str, layout: Layout) -> str | None:
    """Why a child cannot take an offer; None: it can."""
    if offer.fingerprint != fingerprint:
        return f"the parent's '{offer.recipe}' differs from the child's: use the same recipe, settings and release"
    theirs = tuple((tensor.name, tuple(tensor.shape)) for tensor in offer.tensors)
    if theirs != layout.tensors or offer.moments != layout.features:
        return "the parent's model has other tensors: use the same release and environment at both ends"
    if offer.nbytes != layout.codec(offer.encoding, offer.share).nbytes:
        return f"the parent counts {offer.nbytes} bytes for {offer.encoding}: use the same release at both ends"
    return None
