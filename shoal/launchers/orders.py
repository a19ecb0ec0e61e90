"""Orders on their way to the workers of a run: who is told what, and what a new life is told again."""

from __future__ import annotations

from shoal.api.orders import Order
from shoal.api.program import Program
from shoal.launchers.supervision import ProcessStreams
from shoal.streams import names
from shoal.streams.control import OrderWriter


class OrderBook:
    """One writer per process, and the orders that last."""

    def __init__(self, program: Program, streams: ProcessStreams) -> None:
        self._program = program
        self._writers = {p.name: OrderWriter(streams.ring(names.orders(p.name))) for p in program.processes}
        self._lasting: dict[str, list[tuple[str, Order]]] = {p.name: [] for p in program.processes}

    def give(self, to: str, order: Order) -> list[str]:
        """Tell a worker, all of a kind, or with an empty word everyone; the names of those who are told."""
        told = []
        for process in self._program.processes:
            addressed = [spec.name for spec in process.workers if to in (spec.name, spec.kind)] if to else [""]
            for name in addressed:
                self._writers[process.name].give(name, order)
                if order.lasting:
                    self._remember(process.name, name, order)
                told.append(name)
        return told

    def again(self, process: str) -> None:
        """A new life begins: it is told what lasts. What its predecessor was told and did not obey lies there still."""
        for name, order in self._lasting[process]:
            self._writers[process].give(name, order)

    def flush(self) -> None:
        """Hand over what found no room before."""
        for writer in self._writers.values():
            writer.flush()

    def _remember(self, process: str, name: str, order: Order) -> None:
        kept = self._lasting[process]
        if order.replaces:
            kept[:] = [(to, old) for to, old in kept if (to, old.replaces) != (name, order.replaces)]
        kept.append((name, order))
