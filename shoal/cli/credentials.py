"""`shoal credentials`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.output import command, print_json

credentials = typer.Typer(
    help="Who may take part in a federation: a certificate authority of your own.", no_args_is_help=True
)

Folder = Annotated[Path, typer.Option("--credentials", metavar="DIR", help="The folder of the authority.")]
Addresses = Annotated[
    list[str] | None,
    typer.Option("--address", metavar="NAME|IP", help="What this end is called by; may be given again."),
]
DEFAULT = Path("credentials")


@credentials.command()
def init(folder: Folder = DEFAULT, address: Addresses = None) -> None:
    """Make an authority and the parent's certificate."""
    from shoal.federation.credentials import Credentials

    addresses = address or ["localhost", "127.0.0.1"]
    Credentials(folder).init(addresses)
    print(f"made {folder}/ for a parent at {', '.join(addresses)}: keep it to yourself")
    print(f"next, for each child: {command()} credentials issue NAME")


@credentials.command()
def issue(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the child.")],
    folder: Folder = DEFAULT,
    address: Addresses = None,
) -> None:
    """Make a certificate for a child; --address where the parent calls it."""
    from shoal.federation.credentials import Credentials

    made = Credentials(folder).issue(name, address or ())
    print(f"made {made}/: carry it to the child's machine by a way that you trust, then remove it here")
    print(f"there: {command()} child --parent wss://HOST:PORT --credentials {name}")


@credentials.command(name="list")
def list_(
    folder: Folder = DEFAULT, json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False
) -> None:
    """List the children that have a certificate, and those whose was revoked."""
    from dataclasses import asdict

    from shoal.federation.credentials import Credentials

    found = Credentials(folder).list()
    if json:
        print_json([asdict(one) for one in found])
        return
    for one in found:
        print(f"{one.name:20} {'revoked' if one.revoked else f'until {one.until}':16} {one.fingerprint[:16]}")


@credentials.command()
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the child.")], folder: Folder = DEFAULT
) -> None:
    """Allow a child no more; a parent that runs hangs up on it."""
    from shoal.federation.credentials import Credentials

    Credentials(folder).revoke(name)
    print(f"{name} is allowed no more: a parent that runs hangs up on it within seconds")
