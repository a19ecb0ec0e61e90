"""Orders to a live run, where `--control` allows them. The page asks twice; the guard has seen to it that it is our page."""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shoal.base.errors import InputError
from shoal.dashboard.shown import Shown, as_json, name_of, route
from shoal.runs.status import obey

ORDERS = ("pause", "unpause", "stop", "checkpoint", "evaluate", "reconfigure")
_CHANGE = re.compile(r"[\w.]{1,100}=[-+\w.]{1,100}")
_POLICY = re.compile(r"[\w.-]{1,100}")


def routes(shown: Shown) -> list[Route]:
    """A refusal, where nobody may give orders."""

    def order(request: Request) -> Response:
        if not shown.control:
            raise InputError("this page only shows: start it with --control to give orders")
        words = checked(request.query_params.get("order", ""))
        shown.index.settings(name_of(request))
        with shown.root.run(name_of(request)) as folder:
            return as_json(obey(folder, words))

    return [route("/api/run/{experiment}/{trial}/order", order, ("POST",))]


def checked(words: str) -> str:
    """An order that there is: a word, or `reconfigure [POLICY] KEY=VALUE ...`."""
    order, *rest = words.split() or [""]
    if order not in ORDERS or (rest and order != "reconfigure"):
        raise InputError(f"there is no order '{words[:60]}': choose from {', '.join(ORDERS)}")
    for number, word in enumerate(rest):
        if not (_CHANGE.fullmatch(word) or (number == 0 and _POLICY.fullmatch(word))):
            raise InputError(f"'{word[:60]}' is no change: write KEY=VALUE, as in lr=0.001")
    if order == "reconfigure" and not any("=" in word for word in rest):
        raise InputError("what shall be changed: write KEY=VALUE, as in lr=0.001")
    return " ".join([order, *rest])
