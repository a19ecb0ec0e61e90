"""The process that writes one evaluation into Weights & Biases as a run of its own: scores with intervals, a table of episodes."""

from __future__ import annotations

import json
from pathlib import Path

from shoal.monitoring.sinks import EVAL
from shoal.monitoring.wandb_session import WandbSession, wandb_process


def main() -> None:
    """For `Companion`. The order names a file with what is to be written: it may be long."""
    with wandb_process() as process:
        session = WandbSession(process)
        document = json.loads(Path(process.order["document"]).read_text())
        run = session.begin(document["config"])
        import wandb

        table = wandb.Table(columns=document["columns"], data=document["episodes"])
        run.log({**document["scores"], f"{EVAL}table": table})
        session.end(0)
