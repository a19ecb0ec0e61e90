"""What every setting is where nobody sets it. Run as a program: the algorithms bring PyTorch, which the server does without."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from typing import Any

from shoal.analysis.trials import flat

PATIENCE = 60.0
"""Seconds for the program."""


@functools.cache
def all_defaults() -> dict[str, dict[str, Any]]:
    """Section and name (`algorithm ppo`) -> dotted keys; those of all experiments are under the empty word."""
    done = subprocess.run([sys.executable, "-m", __name__], capture_output=True, timeout=PATIENCE)
    found = json.loads(done.stdout) if done.returncode == 0 else {}
    return found if isinstance(found, dict) else {}


def defaults_for(settings: dict[str, Any]) -> dict[str, Any]:
    """Those that apply to a run; of classes of the user's own nothing is known, as nothing of them is imported."""
    known = all_defaults()
    found = dict(known.get("", {}))
    for section in ("algorithm", "model"):
        own = known.get(f"{section} {settings.get(f'{section}.name')}", {})
        found |= {f"{section}.{key}": value for key, value in own.items()}
    return found


def _print() -> None:
    from shoal.algorithms import ALGORITHMS
    from shoal.api.experiment import Experiment
    from shoal.models import MODELS, NoSettings

    plain = Experiment.parse({"env": {"id": "none"}}).model_dump()
    found = {"": {key: value for key, value in flat(plain) if key not in ("env.id", "name", "seed")}}
    for kind, table in (("algorithm", ALGORITHMS), ("model", MODELS)):
        for name in table.entries:
            config = getattr(table.load(name), "Config", NoSettings)
            fields = {key: field for key, field in config.model_fields.items() if not field.is_required()}
            values = {
                field.alias or key: _plain(field.get_default(call_default_factory=True))
                for key, field in fields.items()
            }
            found[f"{kind} {name}"] = dict(flat(values))
    print(json.dumps(found, default=str))


def _plain(value: Any) -> Any:
    return value.model_dump() if hasattr(value, "model_dump") else value


if __name__ == "__main__":
    _print()
