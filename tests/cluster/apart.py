"""A federation whose ends are machines of their own, joined by a switch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hosts import Host, Switch

from shoal.checkpoints.contents import from_tensors, to_tensors
from shoal.federation.credentials import Credentials
from shoal.federation.parent_worker import KEPT
from tests.federation.ends import RECIPE, End, Federation


class Apart(Federation):
    """Each end has an address of its own. `bits`, `delay`: of the children's cables, see `Switch.plug`."""

    def __init__(
        self, place: Path, *children: str, recipe: str = RECIPE, bits: float | None = None, delay: float = 0.0
    ) -> None:
        self.place, self.port, self.ends = place, 8430, []
        (place / "toy.yaml").write_text(recipe)
        self.switch = Switch()
        self.hosts: dict[str, Host] = {}
        self.addresses: dict[str, str] = {}
        for name in ("parent", *children):
            self.hosts[name] = Host(name)
            cable = {"bits": bits, "delay": delay} if name != "parent" else {}
            self.addresses[name] = self.switch.plug(self.hosts[name], **cable)
        self.address = self.addresses["parent"]
        identity = Credentials(place / "credentials")
        identity.init([self.address])
        for name in children:
            identity.issue(name).rename(place / name)

    def start(self, name: str, *words: str, trial: str | None = None) -> End:
        """On its machine."""
        wrap: Any = lambda argv: self.hosts[name].inside(argv, self.place)  # noqa: E731
        if name == "parent":
            return self.parent(*words, wrap=wrap)
        return self.child(name, *words, wrap=wrap, trial=trial)

    def kill(self, name: str) -> None:
        """kill -9 of all processes of that end at once."""
        self.hosts[name].kill_processes()

    def rounds(self) -> dict[str, int]:
        """Child -> its rounds that the parent has on disk."""
        kept: Any = from_tensors(to_tensors((self.place / "runs" / "toy" / "parent" / KEPT).read_bytes()))
        return {name: int(child["rounds"]) for name, child in kept["children"].items()}

    def close(self) -> None:
        super().close()
        for host in self.hosts.values():
            host.kill()
        self.switch.close()


def sent(child: End) -> int:
    """Rounds that a child has sent, as its rows tell; each has as many bytes."""
    found = [row["federation/nbytes_up"] for row in child.lines("metrics.jsonl") if "federation/nbytes_up" in row]
    return round(sum(found) / min(found)) if found else 0
