"""What came of all faults: the matrix, and the sums."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass, field


@dataclass
class Cell:
    """All faults of one kind that struck one role."""

    recovered: list[float] = field(default_factory=list)
    """Seconds until two more updates."""
    hung: int = 0

    def __str__(self) -> str:
        times = f" {statistics.median(self.recovered):.1f}/{max(self.recovered):.1f} s" if self.recovered else ""
        return f"{len(self.recovered)} ok{times}" + (f" {self.hung} hung" if self.hung else "")


@dataclass
class Tally:
    """Of a whole chaos run."""

    cells: dict[tuple[str, str], Cell] = field(default_factory=lambda: defaultdict(Cell))
    phases: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    goodput: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Case -> steps per second, disturbed against undisturbed, pair by pair."""
    lost: list[int] = field(default_factory=list)
    """Updates, by each death of a trainer."""
    apart: list[float] = field(default_factory=list)
    """Seconds of each disturbed run: how dense the faults were."""
    problems: list[str] = field(default_factory=list)

    @property
    def faults(self) -> int:
        return sum(len(cell.recovered) + cell.hung for cell in self.cells.values())

    def found(self, problem: str) -> None:
        """Something is wrong: said at once, and at the end."""
        self.problems.append(problem)
        print(f"PROBLEM {problem}", flush=True)

    def report(self) -> None:
        """Print everything."""
        faults = sorted({fault for _, fault in self.cells})
        print("| role | " + " | ".join(faults) + " |\n|---|" + "---|" * len(faults))
        for role in sorted({role for role, _ in self.cells}):
            cells = [str(self.cells[role, fault]) if (role, fault) in self.cells else "" for fault in faults]
            print(f"| {role} | " + " | ".join(cells) + " |")
        print(f"{self.faults} faults, one per {sum(self.apart) / max(1, self.faults):.0f} s; recovery: median/longest")
        print("by phase: " + ", ".join(f"{name} {count}" for name, count in sorted(self.phases.items())))
        for case, shares in sorted(self.goodput.items()):
            print(f"goodput {case:22} {100 * statistics.median(shares):.0f} % of undisturbed ({len(shares)} pairs)")
        everyone = [share for shares in self.goodput.values() for share in shares]
        if everyone:
            mean, median = 100 * statistics.fmean(everyone), 100 * statistics.median(everyone)
            print(f"goodput of all {len(everyone)} pairs: mean {mean:.0f} %, median {median:.0f} %")
        if self.lost:
            median, most = statistics.median(self.lost), max(self.lost)
            print(f"updates lost by {len(self.lost)} deaths of a trainer: median {median:g}, most {most}")
        for problem in self.problems:
            print(f"PROBLEM {problem}")
        print("no hangs, no leaks, all rows accounted for" if not self.problems else f"{len(self.problems)} problems")
