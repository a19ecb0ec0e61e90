"""The web application: pages and their data behind the guard. A page is one file in `pages/` and one in `static/pages/`."""

from __future__ import annotations

import mimetypes
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from shoal.dashboard.pages import compare, control, league, population, run, runs, watch
from shoal.dashboard.security import App, Door, Guard
from shoal.dashboard.shown import Shown

STATIC = Path(__file__).parent / "static"
KINDS = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
FILES = {f"/static/{path.relative_to(STATIC)}": path for path in STATIC.rglob("*") if path.suffix in KINDS}
"""Every file that may be asked for, by its address."""


def make_app(shown: Shown, door: Door) -> App:
    """Everything behind the guard."""
    pages = ["/", "/compare", "/run/{experiment}/{trial}", "/population/{name}"]
    data = [route for page in (runs, run, league, population, compare, watch, control) for route in page.routes(shown)]
    routes = [*(Route(path, _page) for path in pages), Route("/static/{path:path}", _static), *data]
    return Guard(Starlette(routes=routes, exception_handlers={Exception: _failed}), door)


async def _page(request: Request) -> Response:
    """One document for all pages: its script looks at the address."""
    return FileResponse(STATIC / "index.html", media_type="text/html", headers={"cache-control": "no-cache"})


async def _static(request: Request) -> Response:
    path = FILES.get(request.url.path)
    if path is None:
        return PlainTextResponse("there is nothing of that name", 404)
    kind = KINDS.get(path.suffix) or mimetypes.guess_type(path.name)[0]
    return FileResponse(path, media_type=kind, headers={"cache-control": "no-cache"})


async def _failed(request: Request, error: Exception) -> Response:
    return PlainTextResponse("the page failed to answer, and goes on", 500)
