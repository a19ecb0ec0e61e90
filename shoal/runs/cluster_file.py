"""`cluster.json` of a run: on which Ray it lives, and a proof that its writer knew that Ray's token.

Who connects to a Ray sends it the token and runs what it answers. An address in a folder from somebody else must not decide that.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
from pathlib import Path

from shoal.base.errors import InputError
from shoal.base.files import as_typed, read_small, write_atomic
from shoal.monitoring.run_folder import RunFolder

NAME = "cluster.json"


def write_cluster(folder: RunFolder, address: str | None, actor: str) -> None:
    """Keep where the run lives; without an address it has a Ray of its own, which ends with it."""
    document = {"address": address, "actor": actor, "proof": _proof(address) if address else None}
    write_atomic(folder.path / NAME, json.dumps(document))


def read_address(folder: RunFolder) -> str | None:
    """Of the Ray that a run was started on; None: it had one of its own, or none."""
    path = folder.path / NAME
    try:
        document = json.loads(read_small(path))
        address, proof = document["address"], document.get("proof")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{as_typed(path)} is damaged: name its Ray, as in `shoal attach ... --address auto`"
        ) from None
    if not address:
        return None
    if os.environ.get("RAY_ADDRESS") != address and not hmac.compare_digest(str(proof), _proof(str(address)) or "-"):
        raise InputError(
            f"{as_typed(path)} names the Ray at {address}, and was not written by who knows your token: "
            f"if that Ray is yours, set RAY_ADDRESS={address}"
        )
    return str(address)


def _proof(address: str) -> str:
    """Empty where there is no token."""
    token = os.environ.get("RAY_AUTH_TOKEN", "")
    with contextlib.suppress(OSError):
        token = token or Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or "~/.ray/auth_token").expanduser().read_text()
    return hmac.new(token.strip().encode(), address.encode(), hashlib.sha256).hexdigest() if token.strip() else ""
