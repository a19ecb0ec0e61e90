"""A league in the live view: ratings, whom players met, what they forgot."""

from __future__ import annotations

from typing import Any

from shoal.monitoring.league_text import forgotten_text, league_text
from tests.monitoring.test_terminal import ROW, STOP, Clock, Progress, about, drawn, panel, plain

LEAGUE: dict[str, Any] = {
    "league/members": 8.0, "league/matches": 12_345.0, "league/forgotten": 0.0, "league/rating": 34.4,
    "league/rating_error": 12.2, "league/win_rate": 0.6, "league/share/main": 0.62, "league/share/live": 0.38,
}  # fmt: skip
TEXT = "rating 34 (+- 12), met main 62 %, live 38 %; 8 members, 12,345 matches"


def test_one_player() -> None:
    assert league_text(LEAGUE) == TEXT
    assert forgotten_text(LEAGUE) == ""
    assert forgotten_text({**LEAGUE, "league/forgotten": 2.0}) == "forgets 2 of its past members"


def test_several_players() -> None:
    rows = {"league/members": 4.0, "league/matches": 10.0, "league/hunter/rating": -5.0, "league/prey/rating": 5.0}
    rows |= {"league/prey/rating_error": 3.0, "league/prey/share/hunter": 1.0}
    assert league_text(rows) == "hunter -5; prey 5 (+- 3), met hunter 100 %; 4 members, 10 matches"


def test_the_panel_keeps_what_was_told_last() -> None:
    facts = about()
    progress = Progress(STOP)
    progress.add({**ROW, **LEAGUE})
    progress.add(ROW)
    assert f"league  {TEXT}" in drawn(progress, facts)
    progress.add({**ROW, **LEAGUE, "league/forgotten": 1.0})
    assert "forgets 1 of its past members" in drawn(progress, facts)
    assert "league" not in panel(ROW)


def test_a_plain_line_tells_it() -> None:
    lines, stream = plain(Clock())
    lines.write({**ROW, **LEAGUE})
    assert f"| league: {TEXT}" in stream.getvalue()
