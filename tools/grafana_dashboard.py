"""Makes `shoal/monitoring/grafana/dashboard.json`, which `shoal grafana` prints: `python tools/grafana_dashboard.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    BigValueGraphMode,
    LegendDisplayMode,
    LegendPlacement,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

FILE = Path(__file__).parents[1] / "shoal" / "monitoring" / "grafana" / "dashboard.json"
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
RUNS = '{instance=~"$instance"}'
INFO = f"* on (job, instance) group_left (run) shoal_run_info{RUNS}"
"""Gives every series the name of its run, however Prometheus found it."""
RATE = "[$__rate_interval]"


class Line(NamedTuple):
    """One query of a panel."""

    expression: str
    """Without the name of the run."""
    legend: str = "{{run}}"


class Chart(NamedTuple):
    """One panel."""

    title: str
    about: str
    unit: str
    lines: list[Line]
    most: float | None = None
    """Of its axis; all begin at 0 that have one."""


def now(metric: str) -> str:
    """As it is."""
    return f"{metric}{RUNS}"


def rate(metric: str) -> str:
    """Per second."""
    return f"rate({metric}{RUNS}{RATE})"


STATS = [
    Chart("Environment steps", "Over all copies, behind the newest version.", "short", [Line(now("shoal_env_steps_total"))]),
    Chart("Versions", "Updates made.", "short", [Line(now("shoal_updates_total"))]),
    Chart("Steps per second", "Environment steps.", "short", [Line(rate("shoal_env_steps_total"))]),
    Chart(
        "Since the last update", "Minutes of it mean that the run hangs, or waits.", "s",
        [Line(f"time() - {now('shoal_last_update_timestamp_seconds')}")],
    ),
    Chart(
        "Since the last checkpoint", "What would be lost if the run died now.", "s",
        [Line(f"time() - {now('shoal_checkpoint_timestamp_seconds')}")],
    ),
    Chart(
        "Restarts", "Workers that died and were started again.", "short",
        [Line(f"sum without (kind) ({now('shoal_worker_restarts_total')})")],
    ),
]  # fmt: skip

SECTIONS = {
    "Learning": [
        Chart(
            "Episode return", "Mean over the last 100 training episodes, of the agents that each policy plays.", "short",
            [Line(now("shoal_episode_return"), "{{run}} {{policy}}")],
        ),
        Chart(
            "Evaluation score", "Of greedy episodes, with the 95 % interval, and the best so far.", "short",
            [
                Line(now("shoal_evaluation_score")),
                Line(now("shoal_evaluation_score_low"), "{{run}} low"),
                Line(now("shoal_evaluation_score_high"), "{{run}} high"),
                Line(now("shoal_evaluation_best_score"), "{{run}} best"),
            ],
        ),
        Chart(
            "Games won", "Share against each opponent; empty without opponents.", "percentunit",
            [Line(now("shoal_evaluation_win_ratio"), "{{run}} against {{opponent}}")], 1,
        ),
        Chart("Episode length", "In steps, over the same episodes.", "short", [Line(now("shoal_episode_length_steps"))]),
        Chart("Episodes per second", "That ended.", "short", [Line(rate("shoal_episodes_total"))]),
        Chart(
            "Policy versions", "Each policy has a clock of its own.", "short",
            [Line(now("shoal_policy_version"), "{{run}} {{policy}}")],
        ),
    ],
    "Speed": [
        Chart("Environment steps per second", "Of wall time.", "short", [Line(rate("shoal_env_steps_total"))]),
        Chart("Updates per second", "Of the policy that is furthest.", "short", [Line(rate("shoal_updates_total"))]),
        Chart(
            "Seconds per update", "That trainers took for a version.", "s",
            [Line(f"{rate('shoal_update_seconds_sum')} / {rate('shoal_update_seconds_count')}", "{{run}} {{policy}}")],
        ),
        Chart(
            "Waiting", "Share of its time that each kind of worker waited: the one that waits least is the bottleneck.",
            "percentunit", [Line(now("shoal_worker_wait_ratio"), "{{run}} {{kind}}")], 1,
        ),
        Chart(
            "Lag", "Greatest age of a decision that was learned from, in versions.", "short",
            [Line(now("shoal_policy_lag_versions"), "{{run}} {{policy}}")],
        ),
        Chart(
            "Sample rings", "Share that holds rows on their way.", "percentunit", [Line(now("shoal_ring_fill_ratio"))], 1,
        ),
        Chart("Replay", "Rows that can be drawn; empty where nothing is replayed.", "short", [Line(now("shoal_replay_rows"))]),
    ],
    "Faults": [
        Chart(
            "Rows dropped", "Per second, by what became of them.", "short",
            [Line(rate("shoal_rows_dropped_total"), "{{run}} {{reason}}")],
        ),
        Chart("Rows produced", "Per second.", "short", [Line(rate("shoal_rows_produced_total"))]),
        Chart(
            "Batches that were not finite", "Dropped for a NaN or an infinity.", "short",
            [Line(now("shoal_not_finite_batches_total"))],
        ),
        Chart(
            "Restarts by kind", "Workers that died and were started again.", "short",
            [Line(now("shoal_worker_restarts_total"), "{{run}} {{kind}}")],
        ),
        Chart("Paused", "1 while a person lets the run wait.", "short", [Line(now("shoal_run_paused"))], 1),
    ],
    "Machine": [
        Chart("Memory", "Of the controller's process and its children.", "bytes", [Line(now("shoal_memory_bytes"))]),
        Chart("Cores in use", "By the same.", "short", [Line(now("shoal_cpu_cores"))]),
        Chart(
            "Disk free", "Of the file system with the run folder.", "percentunit",
            [Line(f"{now('shoal_disk_free_bytes')} / {now('shoal_disk_size_bytes')}")], 1,
        ),
    ],
}  # fmt: skip


def make() -> str:
    """The file's text."""
    board = (
        dashboard.Dashboard("Shoal")
        .uid("shoal")
        .description("Runs of Shoal, as their exporters tell of them.")
        .tags(["shoal", "reinforcement learning"])
        .refresh("10s")
        .time("now-1h", "now")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(_runs())
    )
    for chart in STATS:
        panel = stat.Panel().graph_mode(BigValueGraphMode.NONE).span(4).height(4)
        panel = panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        board = board.with_panel(_filled(panel, chart))
    for title, charts in SECTIONS.items():
        board = board.with_row(dashboard.Row(title))
        for chart in charts:
            board = board.with_panel(_filled(_curves(chart), chart))
    return JSONEncoder(sort_keys=True, indent=2).encode(board.build()) + "\n"


def _runs() -> dashboard.QueryVariable:
    """Shows the names of runs, and stands for their instances."""
    return (
        dashboard.QueryVariable("instance")
        .label("Run")
        .datasource(SOURCE)
        .query("query_result(shoal_run_info)")
        .regex('/run="(?<text>[^"]+)|instance="(?<value>[^"]+)/g')
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(VariableOption(text="All", value="$__all", selected=True))
    )


def _curves(chart: Chart) -> timeseries.Panel:
    legend = common.VizLegendOptions().show_legend(True)
    legend = legend.display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM).calcs([])
    panel = timeseries.Panel().span(8).height(8).line_width(1).legend(legend)
    panel = panel.tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
    return panel if chart.most is None else panel.min(0).max(chart.most)


def _filled(panel: Any, chart: Chart) -> Any:
    panel = panel.title(chart.title).description(chart.about).unit(chart.unit).datasource(SOURCE)
    for number, line in enumerate(chart.lines):
        query = prometheus.Dataquery().ref_id("ABCDEFGH"[number]).datasource(SOURCE).legend_format(line.legend)
        panel = panel.with_target(query.expr(f"({line.expression}) {INFO}").range())
    return panel


if __name__ == "__main__":
    FILE.write_text(make())
