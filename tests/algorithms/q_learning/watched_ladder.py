"""DQN that looks at the rates which its lanes noted."""

from __future__ import annotations

import numpy as np

from shoal.algorithms.q_learning.dqn import DQN
from shoal.algorithms.q_learning.ladder import Ladder, rates
from shoal.api.algorithm import Learner, Update
from shoal.api.fragment import Fragment
from shoal.api.metric import Largest


class WatchedDQN(DQN):
    """Says how far the noted rates are from those of the lanes' numbers, and how many different ones it has seen."""

    def update(self, batch: Fragment, learner: Learner) -> Update:
        update = super().update(batch, learner)
        assert isinstance(self.settings.epsilon, Ladder)
        due = rates(self.settings.epsilon, batch.lanes.numpy(), self.lanes)
        noted = batch.extras["epsilon"].numpy()
        off = np.where(batch.valid.numpy(), np.abs(noted - due), 0.0)
        update.metrics["train/rate_off"] = Largest(float(off.max()))
        update.metrics["train/rates_seen"] = Largest(float(len(np.unique(noted[batch.valid.numpy()]))))
        return update
