"""The networks of exploration by novelty: observations in, embeddings and surprise out, and the losses that teach both."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import Space
from torch import Tensor, nn

from shoal.algorithms.learner import number
from shoal.algorithms.novelty.config import NoveltyConfig
from shoal.algorithms.novelty.embedding import Embedding
from shoal.algorithms.novelty.surprise import Surprise
from shoal.algorithms.rows import places_of, taken
from shoal.api.algorithm import Learner
from shoal.api.fragment import Fragment
from shoal.api.metric import Mean, Metric
from shoal.base.tree import Tree, tree_map
from shoal.models.tree import leaf_at, leaf_spaces
from shoal.models.vector import Vector


class Curious(nn.Module):
    """Part of a policy. Parts of an observation are flattened and laid side by side, images too."""

    def __init__(self, config: NoveltyConfig, space: Space[Any], actions: int) -> None:
        super().__init__()
        parts = list(leaf_spaces(space))
        self.paths = [path for path, _ in parts]
        vectors = [Vector(leaf) for _, leaf in parts]
        self.vectors, seen = nn.ModuleList(vectors), sum(vector.features for vector in vectors)
        self.surprise = Surprise(seen, config.hidden)
        self.embedding = Embedding(config.embedding, seen, config.width, config.hidden, actions)

    @property
    def extras(self) -> dict[str, tuple[int, ...]]:
        """What `look` gives, per decision."""
        return {"embedding": (self.embedding.width,), "surprise": ()}

    def flat(self, observation: Tree) -> Tensor:
        """`[N, ...]` -> `[N, seen]`."""
        parts = [vector(leaf_at(observation, path)) for path, vector in zip(self.paths, self.vectors, strict=True)]
        return torch.cat(parts, -1)

    def look(self, observation: Tree) -> dict[str, Tensor]:
        """What an explorer needs to know of `[N, ...]`."""
        seen = self.flat(observation)
        return {"embedding": self.embedding(seen), "surprise": self.surprise(seen)}

    def loss(self, batch: Fragment, learner: Learner, start: int) -> tuple[Tensor, dict[str, Metric]]:
        """Of the valid rows. Statistics are brought up to date first. `start`: the number of the first action."""
        seen = self.flat(tree_map(lambda leaf: leaf.flatten(0, 1), batch.observation)).unflatten(0, batch.valid.shape)
        rows = taken(seen, places_of(batch.valid))
        self.surprise.update_inputs(rows, learner.mean)
        errors = self.surprise.errors(rows)
        self.surprise.update_errors(errors.detach(), learner.mean)
        loss = errors.sum() / max(len(errors), 1)
        metrics: dict[str, Metric] = {"train/surprise_loss": Mean(number(loss.detach()))}
        led = batch.valid[:-1] & ~batch.terminated[:-1]
        places = places_of(led)
        before, after, action = (taken(each, places) for each in (seen[:-1], seen[1:], batch.action[:-1]))
        inverse = self.embedding.loss(before, after, action - start)
        if inverse is None:
            return loss, metrics
        metrics["train/inverse_loss"] = Mean(number(inverse[0].detach()))
        metrics["train/inverse_right"] = Mean(number(inverse[1]))
        return loss + inverse[0], metrics
