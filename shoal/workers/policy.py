"""The policy worker.

Consumes asks of many actors and parameter versions; produces answers, stamped with the version that decided; waits for asks. It
batches whatever came while it was busy, and never waits for more.
"""

from __future__ import annotations

import numpy as np

from shoal.api.metric import Mean
from shoal.api.policy import Policy
from shoal.api.worker import Report, Worker
from shoal.base.faults import NO_FAULTS, Faults
from shoal.base.tree import Tree, tree_map
from shoal.monitoring.shares import Shares
from shoal.streams.inference import Answer, Ask, decide
from shoal.streams.inference_rings import AskLine
from shoal.streams.parameter import ParameterReader
from shoal.streams.primitives import Waiter


class PolicyWorker(Worker):
    """Decides for the clients behind `lines`, all of one policy."""

    def __init__(
        self, name: str, policy: Policy, reader: ParameterReader, lines: list[AskLine], waiter: Waiter, *,
        faults: Faults = NO_FAULTS,
    ) -> None:  # fmt: skip
        self.name = name
        self._policy, self._reader, self._lines, self._waiter, self._faults = policy, reader, lines, waiter, faults
        self._shares = Shares("policy")
        self._batches = 0

    def poll(self, timeout: float) -> Report:
        if not self._waiter.wait_until(self._asked, timeout):
            return Report()
        self._shares.switch("worked")
        rows = self._serve()
        self._shares.switch("waited_input")
        self._batches += 1
        self._faults.at("batch", self._batches)
        return Report(True, metrics={"inference/batch": Mean(rows), **self._shares.take()})

    def _asked(self) -> bool:
        return any(line.take() and self._reader.published(line.round) for line in self._lines)

    def _serve(self) -> int:
        """Answer those asks whose version is there, oldest round first; the rows of one forward per version."""
        rounds: dict[int, list[AskLine]] = {}
        for line in self._lines:
            if line.take() and self._reader.published(line.round):
                rounds.setdefault(line.round, []).append(line)
        return sum(self._answer(rounds[round_]) for round_ in sorted(rounds) if self._reader.pin(round_))

    def _answer(self, lines: list[AskLine]) -> int:
        asks = [line.ask for line in lines]
        answer = decide(self._policy, joined(asks), explore=True, version=self._reader.version)
        start = 0
        for line, ask in zip(lines, asks, strict=True):
            stop = start + len(ask.first)
            line.answer(_rows(answer, slice(start, stop)))
            start = stop
        return start


def joined(asks: list[Ask]) -> Ask:
    """One ask of all rows; a single one is not copied."""
    if len(asks) == 1:
        return asks[0]

    def column(name: str) -> Tree:
        return tree_map(lambda *arrays: np.concatenate(arrays), *(getattr(ask, name) for ask in asks))

    return Ask(**{name: column(name) for name in vars(asks[0])})


def _rows(answer: Answer, rows: slice) -> Answer:
    def cut(array: np.ndarray) -> np.ndarray:
        return array[rows]

    return Answer(cut(answer.action), tree_map(cut, answer.extras), tree_map(cut, answer.state), answer.version)
