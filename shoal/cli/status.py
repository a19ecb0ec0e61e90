"""`shoal status`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from shoal.cli.asking import population_of, status
from shoal.cli.output import command, print_json
from shoal.cli.population_status import show_population
from shoal.monitoring import palette
from shoal.monitoring.run_folder import RunFolder

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

_STATES = {
    "running": palette.GOOD, "paused": palette.WAIT, "stopping": palette.DECIDE, "alive": palette.GOOD,
}  # fmt: skip
_WIDEST = 88


def run(run: str, *, json: bool) -> None:
    """Ask the run, or read what it left."""
    if (found := population_of(run)) is not None and not found[1]:
        show_population(found[0], json=json)
        return
    folder = RunFolder.find(run)
    document = status(folder)
    if json:
        print_json(document)
        return
    from rich.console import Console

    show(document, folder, Console(highlight=False))


def show(document: dict[str, Any], folder: RunFolder, console: Console) -> None:
    """A framed page on a terminal, plain lines elsewhere."""
    from rich.text import Text

    name, state = document.get("run", folder.name), document.get("state", "-")
    word = "not running" if state == "ended" else state
    framed = console.is_terminal and not console.is_dumb_terminal
    parts = list(_parts(document, folder, framed=framed))
    if framed:
        title = Text.assemble((str(name), "bold"), "  ", (word, _STATES.get(state, "dim")))
        console.print(_framed(parts, title, folder, min(console.width, _WIDEST)))
        return
    with console.capture() as capture:
        console.width = 200  # no terminal, nothing to fit into
        console.print(Text(f"{name} is {word}"), *parts, sep="\n")
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))


def _framed(parts: list[RenderableType], title: Text, folder: RunFolder, width: int) -> Panel:
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    return Panel(
        Group(*parts), title=title, title_align="left", subtitle=Text(str(folder.path), "dim"), subtitle_align="left",
        border_style=palette.WORK, width=width, padding=(0, 1),
    )  # fmt: skip


def _parts(document: dict[str, Any], folder: RunFolder, *, framed: bool) -> Iterator[RenderableType]:
    from rich.text import Text

    ended = document.get("state") == "ended"
    if ended:
        yield Text(document["reason"] or f"it ended without saying why: {folder.logs} may know")
    yield _facts(document, _last_facts(document) if ended else _live_facts(document))
    if workers := document.get("workers"):
        yield from (Text(), _workers(workers, framed=framed))
    for title, table in (document.get("shown") or {}).items():
        if table:
            from shoal.monitoring.live_panel import rows_table

            yield from (Text(), rows_table(title, table))
    if rows := document.get("rows"):
        yield from (Text(), _rows(rows))
    if replay := document.get("replay"):
        yield Text.assemble(("replay", "dim"), *(f"  {count:,} {name}" for name, count in replay.items()))
    if ended:
        yield Text(f"evaluate: {command()} evaluate {folder.path}", "dim")


def _facts(document: dict[str, Any], others: list[tuple[str, str]]) -> Table:
    """Three numbers with their goals, and `others` beside them."""
    from rich.table import Table
    from rich.text import Text

    from shoal.monitoring.progress import shown

    stop = document.get("stop") or {}
    table = Table.grid(padding=(0, 1))
    for style, justify in (("dim", "left"), ("", "right"), ("dim", "left"), ("dim", "left"), ("", "right")):
        table.add_column(style=style, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    returns = Text(shown(document.get("return"), ",.1f"), f"bold {palette.GOOD}")
    steps, updates = (shown(document.get(key), ",.0f") for key in ("step", "update"))
    table.add_row("return", returns, _goal(stop.get("return")), *others[0])
    table.add_row("steps", steps, _goal(stop.get("steps")), *others[1])
    table.add_row("updates", updates, _goal(stop.get("updates")), *others[2])
    return table


def _live_facts(document: dict[str, Any]) -> list[tuple[str, str]]:
    from shoal.monitoring.progress import shown

    speed = f"{shown(document.get('fps'), ',.0f')} steps/s"
    return [("speed", speed), ("elapsed", _span(document)), ("process", str(document.get("pid", "-")))]


def _last_facts(document: dict[str, Any]) -> list[tuple[str, str]]:
    from shoal.monitoring.progress import shown

    return [
        ("greedy", shown(document["score"], ",.1f")),
        ("elapsed", _span(document)),
        ("ended", _time(document["ended"])),
    ]


def _span(document: dict[str, Any]) -> str:
    from shoal.monitoring.progress import elapsed_text

    seconds = document.get("elapsed")
    return "-" if seconds is None else elapsed_text(seconds)


def _goal(number: float | None) -> str:
    return "  " if number is None else f"of {number:,.10g}   "


def _time(stamp: str | None) -> str:
    """To the second: `2026-01-31 12:00:00`."""
    return "-" if stamp is None else stamp[:19].replace("T", " ")


def _workers(workers: list[dict[str, Any]], *, framed: bool) -> Table:
    """A row each: who, how often started again, and where its time goes."""
    from rich.table import Table
    from rich.text import Text

    from shoal.monitoring.share_bar import ShareBar
    from shoal.monitoring.shares import busy, percent

    table = Table(box=None, padding=(0, 2, 0, 0), expand=framed, header_style="dim", pad_edge=False)
    table.add_column("worker", no_wrap=True, overflow="ellipsis")
    machines = any("node" in worker for worker in workers)
    if machines:
        table.add_column("machine", no_wrap=True)
    for title in ("process", "restarts"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    if framed:
        table.add_column("", ratio=1)
    for title in ("busy", "waits for data", "waits for room"):
        table.add_column(title, justify="right", no_wrap=True)
    for worker in workers:
        state = str(worker.get("state", "-"))
        known = worker.get("worked") is not None
        shares = [percent(busy(worker) if known else None), percent(worker.get("waited_input"))]
        table.add_row(
            Text(str(worker.get("name", "-"))), *([str(worker.get("node") or "-")] if machines else []),
            str(worker.get("pid", "-")), str(worker.get("restarts", "-")),
            Text(state, _STATES.get(state, palette.BAD)), *([ShareBar(worker)] if framed else []), *shares,
            percent(worker.get("waited_slot")),
        )  # fmt: skip
    return table


def _rows(rows: dict[str, int]) -> RenderableType:
    """`rows  41,000 produced = 40,960 trained + 40 in flight`."""
    from rich.text import Text

    parts = [
        f"{rows[key]:,} {key.replace('_', ' ')}"
        for key in rows
        if key != "produced" and (rows[key] or (key == "trained" and not rows.get("inserted")))
    ]
    return Text.assemble(("rows  ", "dim"), f"{rows.get('produced', 0):,} produced = {' + '.join(parts)}")
