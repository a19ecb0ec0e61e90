"""Devices by name: which are here, which of them a name means, and what to say where there is none of that name."""

from __future__ import annotations

import importlib
import re

import torch
from torch import Tensor

from shoal.base.errors import InputError

CPU, AUTO = "cpu", "auto"
_OF_MODULE = re.compile(r"(?P<module>\w+(?:\.\w+)+):(?P<device>\w+(?::\d+)?)")
"""`package.module:device`: the module makes the device known to torch."""


def on_cpu(tensor: Tensor) -> bool:
    """Its values can be looked at without waiting for a device."""
    return tensor.device.type == CPU


def devices_here() -> list[str]:
    """The CPU, and every accelerator that torch can use: `cpu`, `cuda:0`, `cuda:1`."""
    kind = torch.accelerator.current_accelerator(check_available=True)
    return [CPU] + ([] if kind is None else [f"{kind.type}:{i}" for i in range(torch.accelerator.device_count())])


def accelerator() -> str | None:
    """The kind of accelerator that is here."""
    names = devices_here()
    return names[1].partition(":")[0] if len(names) > 1 else None


def find_device(name: str, number: int = 0, *, key: str) -> torch.device:
    """The device that a name means to the `number`-th of those who share it: without an index, devices are dealt in turn."""
    found = _OF_MODULE.fullmatch(name)
    if found is not None:
        try:
            importlib.import_module(found["module"])
        except ImportError as error:
            raise InputError(f"{key} = '{name}': {error}; name a module that can be imported") from None
    here, wanted = devices_here(), name if found is None else found["device"]
    of_kind = [each for each in here if wanted in (each, each.partition(":")[0])]
    if not of_kind:
        raise InputError(f"{key} = '{name}': there is no such device here; choose from: {', '.join(here)}")
    return torch.device(of_kind[number % len(of_kind)])
