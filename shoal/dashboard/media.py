"""Files as a browser plays them: in parts, where it asks for parts."""

from __future__ import annotations

import os
import re

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from shoal.dashboard.below import Root

PART = 4 << 20
"""Bytes that are sent at a time; a player asks for the next."""


def send_file(root: Root, parts: list[str], kind: str, request: Request) -> Response:
    """The part that is asked for, or the first."""
    with root.file(*parts) as file:
        size = os.fstat(file.fileno()).st_size
        wanted = re.fullmatch(r"bytes=(\d{1,15})-(\d{0,15})", request.headers.get("range", "bytes=0-").strip())
        begin = int(wanted[1]) if wanted else 0
        if begin >= size:
            return PlainTextResponse("it is not that long", 416, {"content-range": f"bytes */{size}"})
        end = min(size, begin + PART, int(wanted[2]) + 1 if wanted and wanted[2] else size)
        file.seek(begin)
        data = file.read(max(0, end - begin))
    headers = {"accept-ranges": "bytes", "cache-control": "no-cache"}
    if len(data) == size:
        return Response(data, 200, headers, kind)
    return Response(data, 206, {**headers, "content-range": f"bytes {begin}-{begin + len(data) - 1}/{size}"}, kind)
