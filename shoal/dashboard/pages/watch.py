"""The live spectator: while the page is open it asks the run to play where it can be seen, and shows the newest image."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shoal.dashboard.shown import Shown, as_json, name_of, route
from shoal.runs.status import obey

LARGEST = 4 << 20
"""Bytes of an image."""


def routes(shown: Shown) -> list[Route]:
    """To renew the lease, and to fetch the image."""

    def lease(request: Request) -> Response:
        shown.index.settings(name_of(request))
        with shown.root.run(name_of(request)) as folder:
            return as_json(obey(folder, "watch"))

    def frame(request: Request) -> Response:
        try:
            with shown.root.file(*name_of(request).split("/"), "watch", "frame.jpg") as file:
                return Response(file.read(LARGEST), media_type="image/jpeg", headers={"cache-control": "no-store"})
        except FileNotFoundError:  # not yet
            return Response(status_code=204, headers={"cache-control": "no-store"})

    home = "/api/run/{experiment}/{trial}/watch"
    return [route(home, lease, ("POST",)), route(f"{home}/frame", frame)]
