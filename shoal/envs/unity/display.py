"""The screen that a build draws on: none, that of the user, or a virtual one (Xvfb) that lives as long as the build."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
from typing import Literal

from shoal.base.errors import InputError

OPENGL = (3, 2)
"""The oldest version that Unity's Linux players draw with."""
WAIT = 10.0
"""Seconds that Xvfb may take to be there."""


class Display:
    """`variables` are what a build's environment has to say of it."""

    def __init__(self, kind: Literal["none", "xvfb", "inherit"]) -> None:
        self._server: subprocess.Popen[bytes] | None = None
        self.variables: dict[str, str | None] = {}
        if kind == "none":
            self.variables = {"DISPLAY": None, "WAYLAND_DISPLAY": None}
        elif kind == "xvfb":
            name = self._start_xvfb()
            self.variables = {"DISPLAY": name, "WAYLAND_DISPLAY": None}
            self._check(name)
        elif not os.environ.get("DISPLAY"):
            raise InputError("env.kwargs.display = 'inherit': there is no DISPLAY here: set display to xvfb")
        else:
            self._check(os.environ["DISPLAY"])

    def close(self) -> None:
        """End a screen of its own."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None

    def _start_xvfb(self) -> str:
        """It picks its own number, so that many may start at once."""
        if shutil.which("Xvfb") is None:
            raise InputError(
                "env.kwargs.display = 'xvfb': Xvfb is not installed here: apt install xvfb, or no_graphics=true"
            )
        reader, writer = os.pipe()
        command = [
            "Xvfb",
            "-displayfd",
            str(writer),
            "-screen",
            "0",
            "1280x1024x24",
            "-nolisten",
            "tcp",
            "+extension",
            "GLX",
        ]
        with open(reader, "rb") as answer:
            try:
                self._server = subprocess.Popen(
                    command, pass_fds=(writer,), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0
                )
            finally:
                os.close(writer)
            ready, _, _ = select.select([answer], [], [], WAIT)
            number = answer.readline().strip() if ready else b""
        if not number:
            self.close()
            raise InputError("env.kwargs.display = 'xvfb': Xvfb gives no screen: run it by hand to see why")
        return f":{number.decode()}"

    def _check(self, name: str) -> None:
        """Where there is glxinfo: a build that finds too old an OpenGL ends without a word of why."""
        if shutil.which("glxinfo") is None:
            return
        variables = {**os.environ, "DISPLAY": name}
        said = subprocess.run(
            ["glxinfo", "-B"], env=variables, capture_output=True, text=True, timeout=WAIT, check=False
        )
        match = re.search(r"OpenGL core profile version string: (\d+)\.(\d+)", said.stdout)
        found = (int(match[1]), int(match[2])) if match else None
        if found is None or found < OPENGL:
            self.close()
            version = "none" if found is None else f"{found[0]}.{found[1]}"
            raise InputError(
                f"env.kwargs.display: OpenGL of screen {name} is {version}, and Unity needs {OPENGL[0]}.{OPENGL[1]}: install "
                "Mesa's drivers (libgl1-mesa-dri), or set no_graphics=true"
            )
