"""Draws `benchmarks.svg` and fills the tables of `docs/benchmarks.md`, from what the benchmarks wrote with `--json`.

Run from the repository: `.venv/bin/python docs/images/benchmarks.py`. It reads `benchmarks/results/`; what is missing there
stays as it is on the page, and the figure says so.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"
PLACE = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

WIDTH, LEFT, RIGHT, BAR, GAP, HEAD = 790, 230, 150, 18, 8, 44
OURS, THEIRS = "#1f77b4", "#aaaaaa"
TITLES = {
    "cartpole_ppo": "PPO on CartPole-v1, steps per second",
    "atari_ppo_1": "PPO on Pong, 1 pass, steps per second",
    "atari_ppo_4": "PPO on Pong, 4 passes, steps per second",
    "solve": "CartPole-v1 solved and verified, seconds from start to end of the process (less is better)",
    "cartpole_dqn": "DQN on CartPole-v1, steps per second",
    "pong_dqn": "DQN on Pong, learner updates of 32 rows per second",
    "sac_halfcheetah": "SAC on HalfCheetah-v5, learner updates of 256 rows per second",
    "replay": "Prioritised replay of a million transitions, rounds of 512 per second",
}
BARS = {"solve": "seconds", "replay": "rounds", "pong_dqn": "updates", "sac_halfcheetah": "updates"}
"""Which figure is drawn, where it is not `rate`."""
WAYS = {"autograd": "autograd", "by_hand": "gradients by hand"}


class Bar(NamedTuple):
    """Figures of one side."""

    name: str
    values: list[float]


def spread(values: list[float], digits: int = 0, unit: float = 1.0) -> str:
    """`median (lowest to highest)`."""
    middle, low, high = (f"{value / unit:,.{digits}f}" for value in (median(values), min(values), max(values)))
    return f"{middle} ({low} to {high})"


def of(runs: list[dict[str, Any]], key: str) -> list[float]:
    """One figure of all repeats."""
    return [run[key] for run in runs]


# ---------------------------------------------------------------- tables


def machine_line(document: dict[str, Any]) -> str:
    """Where, when, and on what."""
    machine = document["machine"]
    return f"{machine['when']}, {machine['cores']} cores of {machine['cpu']}, load {machine['load']} when it began."


def speed_table(document: dict[str, Any]) -> str:
    """Of `cartpole_ppo.py` and `atari_ppo.py`."""
    limits, results, given = document["limits"], document["results"], document["settings"]
    work = (
        f"{given['num_envs']} copies, {given['unroll']} steps, minibatch {given['minibatch']}, {given['epochs']} passes"
    )
    most = " and ".join(f"{value:,.0f} steps/s with {WAYS[way]}" for way, value in limits.items())
    parts = ", ".join(f"{name} {1e6 * cost:.2f}" for name, cost in document["parts"].items() if cost is not None)
    versions = "; ".join(f"{name.partition(',')[0]}: {runs[0]['version']}" for name, runs in results.items())
    shares = " | ".join(f"of the limit, {WAYS[way]}" for way in limits)
    lines = [
        f"{machine_line(document)} {work}; {document['repeats']} repeats in turns. The limit is {most}; its parts, in",
        f"microseconds of one core per step (`autograd`, `by_hand`: per pass): {parts}. {versions}.",
        "",
        f"| | steps/s | CPU s per million steps | MB resident | MB in proportion | {shares} |",
        "|---|---|---|---|---|" + "---|" * len(limits),
    ]
    for name, runs in results.items():
        rates = of(runs, "rate")
        memory = " | ".join(f"{median(of(runs, key)) / 1e6:,.0f}" for key in ("rss", "pss"))
        part = " | ".join(f"{median(rates) / value:.1%}" for value in limits.values())
        lines.append(f"| {name} | {spread(rates)} | {spread(of(runs, 'cpu'))} | {memory} | {part} |")
    sweep = ", ".join(f"{name} {run['rate']:,.0f}" for name, run in document["sweep"].items())
    return "\n".join([*lines, "", f"Each peer's best of its sweep, which gave, in steps/s: {sweep}."])


def solve_table(document: dict[str, Any]) -> str:
    """Of `solve.py`."""
    lines = [
        f"{machine_line(document)} {document['seeds']} seeds in turns.",
        "",
        "| | seconds from start to end | solved | steps |",
        "|---|---|---|---|",
    ]
    for name, runs in document["results"].items():
        solved = f"{sum(run['verified'] is not None for run in runs)} of {len(runs)}"
        lines.append(f"| {name} | {spread(of(runs, 'seconds'), 1)} | {solved} | {spread(of(runs, 'steps'))} |")
    sweep = ", ".join(f"{name} {run['seconds']:.1f}" for name, run in document["sweep"].items() if run["verified"])
    return "\n".join([*lines, "", f"Each peer's best of its sweep, which gave, in seconds: {sweep}."])


def replayed_work(given: dict[str, Any]) -> str:
    """What all sides do that replay."""
    every = given.get("target_every")
    target = "" if every is None else f"a copy into the target network after {every} updates, "
    return (
        f"{given['num_envs']} copies, {given['updates']} updates of {given['batch']} rows after every {given['unroll']} steps, "
        f"{target}{given['capacity']:,} rows kept"
    )


def updates_table(document: dict[str, Any]) -> str:
    """Of `pong_dqn.py` and `sac_halfcheetah.py`."""
    results, most = document["results"], document["limits"]["autograd"]
    versions = "; ".join(f"{name}: {runs[0]['version']}" for name, runs in results.items())
    parts = ", ".join(f"{name} {1e3 * cost:.2f}" for name, cost in document["parts"].items())
    lines = [
        f"{machine_line(document)} {replayed_work(document['settings'])}; {document['repeats']} repeats in turns.",
        f"The limit is {most:,.1f} updates/s; its parts, in milliseconds of one core (`env`, `inference`: per step): {parts}.",
        f"{versions}.",
        "",
        "| | updates/s | of the limit | steps/s | MB resident | MB in proportion | rows trained per step |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, runs in results.items():
        updates = of(runs, "updates")
        memory = " | ".join(f"{median(of(runs, key)) / 1e6:,.0f}" for key in ("rss", "pss"))
        share = f"{median(updates) / most:.1%}"
        figures = f"{spread(updates, 1)} | {share} | {spread(of(runs, 'rate'))} | {memory}"
        lines.append(f"| {name} | {figures} | {median(of(runs, 'trained')):.1f} |")
    sweep = ", ".join(f"{name} {run['updates']:,.1f}" for name, run in document["sweep"].items())
    return "\n".join([*lines, "", f"Each peer's best of its sweep, which gave, in updates/s: {sweep}."])


def dqn_table(document: dict[str, Any]) -> str:
    """Of `cartpole_dqn.py`."""
    given, results = document["settings"], document["results"]
    work = replayed_work(given)
    versions = "; ".join(f"{name}: {runs[0]['version']}" for name, runs in results.items())
    lines = [
        f"{machine_line(document)} {work}; {document['repeats']} repeats in turns. {versions}.",
        "",
        "| | steps/s | CPU s per million steps | MB resident | MB in proportion | rows trained per step |",
        "|---|---|---|---|---|---|",
    ]
    for name, runs in results.items():
        memory = " | ".join(f"{median(of(runs, key)) / 1e6:,.0f}" for key in ("rss", "pss"))
        figures = (
            f"{spread(of(runs, 'rate'))} | {spread(of(runs, 'cpu'))} | {memory} | {median(of(runs, 'trained')):.1f}"
        )
        lines.append(f"| {name} | {figures} |")
    sweep = ", ".join(f"{name} {run['rate']:,.0f}" for name, run in document["sweep"].items())
    return "\n".join([*lines, "", f"Each peer's best of its sweep, which gave, in steps/s: {sweep}."])


def replay_table(document: dict[str, Any]) -> str:
    """Of `replay.py`."""
    given, results = document["settings"], document["results"]
    work = f"{given['capacity']:,} transitions, {given['copies']} at once, rounds of {given['batch']}"
    versions = "; ".join(f"{name.partition(',')[0]}: {runs[0]['version']}" for name, runs in results.items())
    lines = [
        f"{machine_line(document)} {work}; {document['repeats']} repeats in turns. {versions}.",
        "",
        "| | transitions added/s | rounds/s |",
        "|---|---|---|",
    ]
    for name, runs in results.items():
        lines.append(f"| {name} | {spread(of(runs, 'adds'))} | {spread(of(runs, 'rounds'))} |")
    return "\n".join(lines)


TABLES = {
    "solve": solve_table,
    "replay": replay_table,
    "cartpole_dqn": dqn_table,
    "pong_dqn": updates_table,
    "sac_halfcheetah": updates_table,
}
"""Of measurements that are not of speed alone."""


def fill(text: str, documents: dict[str, dict[str, Any]]) -> str:
    """The page with its tables as measured; places without a measurement stay as they are."""

    def table(place: re.Match[str]) -> str:
        document = documents.get(place[2])
        if document is None:
            return place[0]
        return f"{place[1]}\n{TABLES.get(place[2], speed_table)(document)}\n\n{place[3]}"

    return PLACE.sub(table, text)


# ---------------------------------------------------------------- figure


def text(x: float, y: float, words: str, style: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{words}</text>'


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'


def panel(top: float, title: str, bars: list[Bar], limits: dict[str, float]) -> tuple[list[str], float]:
    """Bars as long as their medians, a line from the lowest to the highest; limits are dashed. Gives where they end, too."""
    most = max(*(max(bar.values) for bar in bars), *limits.values())
    bottom = top + HEAD + len(bars) * (BAR + GAP)

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / most

    parts = [text(10, top + 16, title, 'font-weight="bold"')]
    for way, value in limits.items():
        parts.append(line(x(value), top + HEAD - 6, x(value), bottom, 'stroke="#c33" stroke-dasharray="4 3"'))
        style = f'text-anchor="{"end" if len(limits) > 1 and value == min(limits.values()) else "start"}" fill="#c33"'
        parts.append(text(x(value), top + HEAD - 10, f"limit, {WAYS[way]}", f'{style} font-size="11"'))
    for i, (name, values) in enumerate(bars):
        y, middle = top + HEAD + i * (BAR + GAP), median(values)
        colour = OURS if name.startswith("shoal") else THEIRS
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{x(middle) - LEFT:.1f}" height="{BAR}" fill="{colour}"/>')
        parts.append(line(x(min(values)), y + BAR / 2, x(max(values)), y + BAR / 2, 'stroke="black"'))
        parts.append(text(LEFT - 8, y + BAR - 5, name, 'text-anchor="end"'))
        number = f"{middle:,.0f}" if most >= 100 else f"{middle:.1f}"
        parts.append(text(x(max(values)) + 6, y + BAR - 5, number))
    return parts, bottom + 14


def draw(documents: dict[str, dict[str, Any]]) -> str:
    """One panel for each measurement, below each other."""
    parts, top = [], 4.0
    for name, title in TITLES.items():
        if (document := documents.get(name)) is None:
            parts += [text(10, top + 16, title, 'font-weight="bold"'), text(10, top + 36, "not measured yet")]
            top += HEAD + 14
            continue
        bars = [Bar(side, of(runs, BARS.get(name, "rate"))) for side, runs in document["results"].items()]
        drawn, top = panel(top, title, bars, document.get("limits", {}))
        parts += drawn
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top:.0f}" font-family="sans-serif" font-size="13">'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{top:.0f}" fill="white"/>', *parts, "</svg>"]) + "\n"


def main() -> None:
    """Read, fill, draw."""
    paths = {name: RESULTS / f"{name}.json" for name in TITLES}
    documents = {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}
    PAGE.write_text(fill(PAGE.read_text(), documents))
    (HERE / "benchmarks.svg").write_text(draw(documents))


if __name__ == "__main__":
    main()
