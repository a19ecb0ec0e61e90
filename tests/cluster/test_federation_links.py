"""Parent and children on machines of their own, joined by a switch: cables are pulled, packets vanish."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts import Host, Switch

from shoal.federation.credentials import Credentials
from tests.federation.ends import RECIPE, End, Federation

pytestmark = [pytest.mark.usefixtures("_can_make_hosts"), pytest.mark.slow]


class Apart(Federation):
    """Each end has an address of its own."""

    def __init__(self, place: Path, *children: str) -> None:
        self.place, self.port, self.ends = place, 8430, []
        (place / "toy.yaml").write_text(RECIPE)
        self.switch = Switch()
        self.hosts: dict[str, Host] = {}
        self.addresses: dict[str, str] = {}
        for name in ("parent", *children):
            self.hosts[name] = Host(name)
            self.addresses[name] = self.switch.plug(self.hosts[name])
        self.address = self.addresses["parent"]
        identity = Credentials(place / "credentials")
        identity.init([self.address])
        for name in children:
            identity.issue(name).rename(place / name)

    def start(self, name: str, *words: str, trial: str | None = None) -> End:
        wrap: Any = lambda argv: self.hosts[name].inside(argv, self.place)  # noqa: E731
        if name == "parent":
            return self.parent(*words, wrap=wrap)
        return self.child(name, *words, wrap=wrap, trial=trial)

    def close(self) -> None:
        super().close()
        for host in self.hosts.values():
            host.kill()
        self.switch.close()


@pytest.fixture
def apart(tmp_path: Path, _can_make_hosts: None) -> Iterator[Apart]:
    made = Apart(tmp_path, "anna", "bert", "carl")
    yield made
    made.close()


@pytest.mark.timeout(600)
def test_a_link_is_cut_for_twenty_seconds_and_a_child_comes_late(apart: Apart) -> None:
    """Nobody is told: packets vanish. It is seen within 30 s, the others go on, and who comes back has lost nothing."""
    parent, anna = apart.start("parent"), apart.start("anna")
    bert = apart.start("bert")
    for name in ("anna", "bert"):
        parent.says(f"{name} joined", seconds=120)
    parent.reaches(parent.version + 3, 120)
    apart.switch.set_link(apart.addresses["bert"], up=False)
    cut = bert.version
    parent.says("bert left", seconds=30)
    parent.reaches(parent.version + 3)
    apart.start("carl")
    parent.says("carl joined", seconds=60)
    apart.switch.set_link(apart.addresses["bert"], up=True)
    parent.says("bert joined", count=2, seconds=60)
    bert.reaches(cut + 3)
    parent.reaches(parent.version + 5)
    assert {each.process.poll() for each in (parent, anna, bert)} == {None}
    assert not parent.said("strikes:")
