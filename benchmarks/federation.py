"""Federations in one process, without a network: what encodings cost in learning, and what attackers with valid credentials can do.

    python benchmarks/federation.py encodings    # bytes until the bar is reached, by encoding
    python benchmarks/federation.py attackers    # whether it is reached, by attack and defence

Children are whole inline runs; their uplinks hand parcels to the parent's GlobalModel directly. Nothing depends on time, so the
same seed gives the same numbers on any equal machine, however busy.
"""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from shoal.api.experiment import load_experiment
from shoal.api.federation import FederationConfig
from shoal.api.messages import Episodes, Message
from shoal.api.orders import Heard
from shoal.base.seeding import derive_seed
from shoal.envs.curriculum import make_staged
from shoal.evaluation.episodes import copies_for
from shoal.evaluation.seating import seat_everyone
from shoal.federation.acceptance import Examiner
from shoal.federation.call import Answered, Welcomed
from shoal.federation.frames import FrameError
from shoal.federation.global_model import GlobalModel
from shoal.federation.layout import Layout, make_offer
from shoal.federation.messages import Parcel
from shoal.federation.start import childs
from shoal.federation.uplink import UplinkSpec, UplinkWorker
from shoal.launchers.inline import InlineLauncher
from shoal.program.expand import expand
from shoal.recipes import find
from shoal.rollout.plans import Plans
from shoal.streams.transports.memory import MemoryMailbox
from shoal.workers.context import Context
from shoal.workers.controller import Controller
from shoal.workers.parent_link import set_statistics, set_trained, statistics, trained

FINGERPRINT = "0" * 64


class Direct:
    """In the place of the network: what is put in is taken out."""

    made: list[Direct] = []

    def __init__(self) -> None:
        self.events: deque[object] = deque()
        self.sent: deque[Parcel] = deque()
        Direct.made.append(self)

    def take(self, timeout: float = 0.0) -> Iterable[object]:
        while self.events:
            yield self.events.popleft()

    def stop(self) -> None: ...

    def send(self, parcel: Parcel) -> None:
        self.sent.append(parcel)

    def close(self, reason: str) -> None: ...


class DirectSpec(UplinkSpec):
    """An uplink without a network."""

    def build(self, context: Context) -> UplinkWorker:
        direct = Direct()
        worker = self.worker(context, direct)
        worker.connect(direct)
        return worker


class Pupil:
    """A child: an inline run that is polled until it has something to give."""

    doors: list[Any] = []

    def __init__(self, recipe: Path, overrides: list[str], name: str) -> None:
        wanted = childs(load_experiment(recipe, overrides), name, None, cores=1, seed=None)
        wanted = wanted.model_copy(update={"workers": {"uplink": f"{Path(__file__).stem}:DirectSpec"}})
        program = expand(wanted)
        self.name, self.controller = name, Controller(program.experiment, list(program.learners))
        self._launcher = InlineLauncher(program)
        self.direct = Direct.made[-1]

    def receive(self, message: Message) -> None:
        if isinstance(message, Episodes):
            self._launcher.order("uplink", Heard(message))
        self.controller.receive(message)
        self.controller.todo.clear()

    def round(self) -> Parcel:
        while not self.direct.sent:
            if not self._launcher._sweep(self):  # type: ignore[arg-type]
                raise RuntimeError(f"{self.name} waits")
        return self.direct.sent.popleft()

    def close(self) -> None:
        self._launcher.close()


Attack = Callable[[np.ndarray, np.ndarray, list[np.ndarray], np.random.Generator], np.ndarray]
"""What the child arrived at, what it began from, the last deltas of the others -> what it says that it arrived at."""


def _length(vectors: list[np.ndarray], own: np.ndarray) -> float:
    return float(max(map(np.linalg.norm, vectors), default=np.linalg.norm(own)))


def _along(direction: np.ndarray, length: float) -> np.ndarray:
    return direction / np.linalg.norm(direction) * length


ATTACKS: dict[str, Attack] = {
    "none": lambda x, b, others, random: x,
    "garbage": lambda x, b, others, random: random.normal(size=len(x)),
    "NaN": lambda x, b, others, random: np.full(len(x), np.nan),
    "sign flip": lambda x, b, others, random: b - (x - b),
    "times 1000": lambda x, b, others, random: b + 1000 * (x - b),
    "random direction": lambda x, b, others, random: b + _along(random.normal(size=len(x)), _length([], x - b)),
    "normalised": lambda x, b, others, random: b - _along(np.mean(others or [x - b], 0), _length(others, x - b)),
}
"""The last: against the mean of the others, as long as the longest of them (after Fang et al., WWW 2025)."""

DEFENCES: dict[str, dict[str, Any]] = {
    "none": {"quorum": "all"},
    "clip": {"quorum": "all", "mixing": {"clip": 2.0}},
    "median": {"quorum": "all", "mixing": {"rule": "median"}},
    "trimmed": {"quorum": "all", "mixing": {"rule": "trimmed"}},
    "accept": {"quorum": "all", "accept": {"episodes": 20}},
    "accept, median": {"quorum": "all", "mixing": {"rule": "median"}, "accept": {"episodes": 20}},
}


@dataclass
class Outcome:
    """How it went."""

    reached: bool
    best: float
    steps: int
    version: int
    nbytes: int
    evicted: int


class Classroom:
    """A parent and its children, in turn."""

    def __init__(self, recipe: str, overrides: list[str], config: FederationConfig, children: int, seed: int) -> None:
        path, overrides = (
            find(recipe),
            [*overrides, f"seed={seed}", "stop.steps=null"],
        )  # of a child's own: some are set aside
        self.config, self._random = config, np.random.default_rng(seed)
        self.pupils = [Pupil(path, [*overrides, *_rounds(config)], f"child-{number}") for number in range(children)]
        experiment = load_experiment(path, [*overrides, "placement={actors: 1, trainers: 1}", "evaluation=null"])
        self.program = expand(experiment)
        self.policy = self.program.learners[0]
        self._plans = Plans(self.program)
        algorithm = self._plans[self.policy].algorithm
        self.layout = Layout.of(algorithm)
        start = torch.cat(trained(algorithm)).numpy()
        self.model = GlobalModel(config, self.layout, start, statistics(algorithm))
        self._examiner = Examiner(self.program, self.policy, config.accept, lambda: None) if config.accept else None
        self.nbytes, self.out = 0, set[str]()
        self._deltas: dict[str, np.ndarray] = {}
        self._evaluations = 0
        offer = make_offer(recipe, FINGERPRINT, self.layout, config)
        for number, pupil in enumerate(self.pupils):
            parcel = self.model.join(pupil.name, number + 1, "0" * 32, "here")
            self.nbytes += sum(map(len, parcel.blocks))
            pupil.direct.events.append(Welcomed(offer, parcel.header, parcel.blocks))  # type: ignore[arg-type]

    def turn(self, attack: Attack, attackers: int) -> None:
        """A round of everyone who is still in."""
        for number, pupil in enumerate(self.pupils):
            waits = any(pending.child == pupil.name for pending in self.model.pending)
            if pupil.name in self.out or waits:  # another's round was refused: it gives again first
                continue
            parcel = pupil.round()
            if number < attackers:
                parcel = self._spoilt(pupil.name, parcel, attack)
            self._take(pupil, parcel, honest=number >= attackers)
            self._mix()

    def _spoilt(self, name: str, parcel: Parcel, attack: Attack) -> Parcel:
        child, codec = self.model.children[name], self.layout.codec(self.config.encoding, self.config.share)
        arrived = codec.decode(parcel.blocks[0], child.base).astype(float)
        others = [delta for other, delta in self._deltas.items() if other != name]
        said = attack(arrived, child.base.astype(float), others, self._random).astype(np.float32)
        return Parcel(parcel.header, (codec.encode(said, child.base), parcel.blocks[1]))

    def _take(self, pupil: Pupil, parcel: Parcel, *, honest: bool) -> None:
        self.nbytes += sum(map(len, parcel.blocks))
        try:
            pending = self.model.take(pupil.name, parcel.header, parcel.blocks, 0, now=0.0)  # type: ignore[arg-type]
        except FrameError:
            return self._strike(pupil)
        if honest:
            self._deltas[pupil.name] = pending.weights.astype(float) - pending.base
        if self._examiner is not None:
            good = self._examined(pending)
            self.model.examined(pending, self._examiner.score, worse=not good)
            if not good:
                self._strike(pupil, malformed=False)
        return None

    def _examined(self, pending: Any) -> bool:
        assert self._examiner is not None
        present = (self.model.weights, self.model.statistics)
        self._examiner.examine(self.model.version, present, (pending.weights, pending.statistics))
        while (verdict := self._examiner.step()) is None:
            continue
        return verdict

    def _strike(self, pupil: Pupil, *, malformed: bool = True) -> None:
        strikes = self.model.strikes
        if strikes.add(pupil.name) if malformed else strikes.set_aside(pupil.name, self.model.version):
            self.out.add(pupil.name)
            self.model.forget(pupil.name)
            self.model.leave(pupil.name, self.model.children[pupil.name].number)
        elif malformed:
            self._answer(pupil.name, "set aside")

    def _mix(self) -> None:
        ready = self.model.ready(0.0)
        if ready:
            for name in self.model.mix(ready).children:
                self.model.strikes.good(name)
                self._answer(name, "mixed")
        for pending in self.model.turned_away(0.0):
            self.model.pending.remove(pending)
            self._answer(pending.child, "set aside")

    def _answer(self, name: str, verdict: str) -> None:
        parcel = self.model.answer(name, verdict)
        self.nbytes += sum(map(len, parcel.blocks))
        pupil = next(pupil for pupil in self.pupils if pupil.name == name)
        pupil.direct.events.append(Answered(parcel.header, parcel.blocks))  # type: ignore[arg-type]

    def score(self, episodes: int) -> float:
        """Greedy, of the present weights."""
        algorithm, self._evaluations = self._plans[self.policy].algorithm, self._evaluations + 1
        set_trained(algorithm, torch.from_numpy(self.model.weights))
        set_statistics(algorithm, self.model.statistics)
        mailbox = MemoryMailbox(algorithm.flat.nbytes, 1)
        mailbox.publish(0, algorithm.flat.block.numpy())
        env = make_staged(self.program.experiment, 0, copies_for(episodes, self.program.experiment.env))
        try:
            players = seat_everyone(self.program, self._plans, {self.policy: mailbox}, env)
            return players.evaluate(episodes, seed=derive_seed(self._evaluations, "score")).mean
        finally:
            env.close()

    def run(self, bar: float, steps: int, attack: Attack = ATTACKS["none"], attackers: int = 0) -> Outcome:
        """Until the bar is reached, confirmed by 100 episodes, or the steps are used up."""
        best, reached, turns = -np.inf, False, 0
        while self.model.steps < steps and not reached and len(self.out) < len(self.pupils) and turns < 2000:
            self.turn(attack, attackers)
            turns += 1
            if turns % 3 == 0:
                score = self.score(20)
                if score >= bar:
                    score = self.score(100)
                    reached = score >= bar
                best = max(best, score)
        for pupil in self.pupils:
            pupil.close()
        return Outcome(reached, best, self.model.steps, self.model.version, self.nbytes, len(self.out))


def _rounds(config: FederationConfig) -> list[str]:
    waits = "all" if config.waits else config.quorum
    return [f"federation.every={config.every}", f"federation.quorum={waits}"]


def encodings(args: argparse.Namespace) -> None:
    """A row per encoding and seed, then medians; bytes are those of weights, both ways, until the bar was seen to be reached."""
    print(
        "| encoding | seed | reached | steps | versions | bytes | each version |\n|---" + "|---" * 6 + "|", flush=True
    )
    nbytes: dict[str, list[float]] = {}
    for encoding in args.encodings.split(";"):
        for seed in range(args.first, args.first + args.seeds):
            config = FederationConfig(encoding=encoding, every=args.every, quorum="all", share=args.share)
            done = Classroom(args.recipe, [], config, args.children, seed).run(args.bar, args.steps)
            nbytes.setdefault(encoding, []).append(done.nbytes if done.reached else np.inf)
            print(
                f"| {encoding} | {seed} | {'yes' if done.reached else f'no, {done.best:.0f}'} | {done.steps:,} | "
                f"{done.version} | {done.nbytes:,} | {done.nbytes / done.version:,.0f} |", flush=True,
            )  # fmt: skip
    medians = {encoding: float(np.median(found)) for encoding, found in nbytes.items()}
    for encoding, median in medians.items():
        share = f", {100 * median / medians['fp32']:.1f} % of fp32" if "fp32" in medians else ""
        print(f"{encoding}: median {median:,.0f} bytes{share}", flush=True)


def attackers(args: argparse.Namespace) -> None:
    """A row per attack, a column per defence."""
    defences = {name: DEFENCES[name] for name in (args.defences.split(";") if args.defences else DEFENCES)}
    print("| attack | " + " | ".join(defences) + " |\n|---" * 1 + "|---" * len(defences) + "|", flush=True)
    for attack in args.attacks.split(";") if args.attacks else ATTACKS:
        cells = []
        for name, defence in defences.items():
            config = FederationConfig.model_validate({**defence, "every": args.every})
            done = Classroom(args.recipe, [], config, args.children, 1).run(args.bar, args.steps, ATTACKS[attack], 1)
            end = f"{done.steps / 1000:.0f}k" if done.reached else f"no, {done.best:.0f}"
            cells.append(end + (f", {done.evicted} out" if done.evicted else ""))
            print(f"{attack} against {name}: {cells[-1]}", file=sys.stderr, flush=True)
        print(f"| {attack} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["encodings", "attackers"])
    parser.add_argument("--recipe", default="cartpole-a4c")
    parser.add_argument("--children", type=int, default=3)
    parser.add_argument("--bar", type=float, default=475.0)
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=1, help="of the seeds")
    parser.add_argument("--encodings", default="fp32;fp16;int8;top_k")
    parser.add_argument("--share", type=float, default=FederationConfig().share, help="of top_k")
    parser.add_argument("--every", default="10 updates")
    parser.add_argument("--attacks", default="")
    parser.add_argument("--defences", default="")
    args = parser.parse_args()
    torch.set_num_threads(1)
    {"encodings": encodings, "attackers": attackers}[args.what](args)


if __name__ == "__main__":
    sys.modules[Path(__file__).stem] = sys.modules["__main__"]  # the name by which children find their uplink
    main()
