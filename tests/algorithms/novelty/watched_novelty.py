"""NGU that looks at what its lanes noted."""

from __future__ import annotations

from shoal.algorithms.novelty.ngu import NGU
from shoal.api.algorithm import Learner, Update
from shoal.api.fragment import Fragment
from shoal.api.metric import Largest


class WatchedNovelty(NGU):
    """Counts rows behind a row that counts, within the steps of its target, which have another arm though no episode ended."""

    def update(self, batch: Fragment, learner: Learner) -> Update:
        update = super().update(batch, learner)
        arm, novelty = batch.extras["arm"], batch.extras["novelty"]
        goes_on = batch.valid.clone()
        off, least = 0, float("inf")
        for step in range(1, self.settings.n_step + 1):
            goes_on[:-step] &= ~(batch.terminated | batch.truncated)[step - 1 : -1]
            goes_on[-step:] = False
            off += int((goes_on[:-step] & (arm[:-step] != arm[step:])).sum())
            if goes_on.any():
                least = min(least, float(novelty[step:][goes_on[:-step]].min()))
        update.metrics["train/arm_off"] = Largest(off)
        update.metrics["train/novelty_least"] = Largest(least)
        update.metrics["train/arms_seen"] = Largest(len(arm[batch.valid].unique()))
        return update
