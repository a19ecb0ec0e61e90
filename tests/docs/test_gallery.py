"""The gallery: every recipe has a card, and the card tells what the results say."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.docs.pages import DOCS, hooks


def cards() -> Any:
    """`docs/recipe_cards.py`."""
    return hooks()._beside("recipe_cards")


def test_every_recipe_has_a_card() -> None:
    from shoal.recipes import names

    page = hooks().fill((DOCS / "recipes.md").read_text())
    shown = dict(re.findall(r"^-   \*\*([\w-]+)\*\*(.*?)(?=^-   \*\*|^##|\Z)", page, re.DOTALL | re.MULTILINE))
    assert sorted(shown) == names()
    assert not cards().unknown()
    for recipe, text in shown.items():
        images = dict(re.findall(r"!\[([^\]]+)\]\(([^)]+)\)", text))
        assert all((DOCS / image).is_file() for image in images.values())
        assert (f"The environment of {recipe}" in images) != ("No image: its environment does not draw itself." in text)
        curve = [words for words in images if words.startswith(f"Learning curve of {recipe}")]
        assert len(curve) + text.count(cards().UNDRAWN) + text.count(cards().UNTRAINED) == 1
        assert (cards().UNTRAINED in text) <= ("Not measured to a score" in text)
        assert "[Results](results.md)" in text
        command = re.search(r"`shoal (\w+) ([\w-]+)`", text)
        assert command is not None
        assert command[2] == recipe


def test_a_card_names_the_command_that_takes_it_to_its_end() -> None:
    told = {recipe: cards().command(cards().read(recipe)) for recipe in ("cartpole", "cartpole-sweep", "pendulum-tune")}
    assert told == {"cartpole": "train", "cartpole-sweep": "sweep", "pendulum-tune": "tune"}


def test_a_card_tells_what_the_results_say() -> None:
    assert cards().measured()["cartpole"][0]["bar"] == "475 within 100,000"
    row = {
        "bar": "475 within 100,000",
        "greedy mean return": "500.0, 499.2",
        "steps": "32,558, 9,737",
        "seconds": "3, 3",
    }
    assert cards().facts([row]) == (
        "greedy return: 499.2 to 500.0; bar 475 within 100,000 steps; 9,737 to 32,558 steps; 3 seconds ([Results](results.md))."
    )
    assert cards().facts([]).startswith("Not measured")


def test_a_card_tells_of_several_seeds_and_of_a_bar_that_was_missed() -> None:
    bar = {"bar": "0.01", "steps": "56,000", "core-minutes": "0.3"}
    rows = [{**bar, "exploitability": "0.0005; plays (0.1, 0.9)"}, {"exploitability": "0.0208, missed; plays (1, 0)"}]
    assert cards().facts(rows) == (
        "exploitability: 0.0005 to 0.0208; bar 0.01, missed by 1 of 2 seeds; 56,000 steps; 0.3 core-minutes "
        "([Results](results.md))."
    )
    alone = [{**bar, "exploitability": "missed: it can be beaten"}]
    assert cards().facts(alone) == "bar 0.01, missed; 56,000 steps; 0.3 core-minutes ([Results](results.md))."


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("500.0, 499.2", "499.2 to 500.0"),
        ("1,504,000 each", "1,504,000"),
        ("-17.9 for each", "-17.9 for each"),
        ("-11.4, -8.6, -7.1 for each, in mpe2: see [below](#there)", "-11.4 to -7.1 for each"),
        ("hunters 34.7, prey -42.4", "hunters 34.7, prey -42.4"),
        ("0.041; 0.458 with 3 members", "0.041"),
    ],
)
def test_a_cell_of_the_results_in_short(cell: str, told: str) -> None:
    assert cards()._range(cell) == told
