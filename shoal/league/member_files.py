"""The parameters of members, in the run's folder: one file each, written once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from shoal.api.policy import Policy
from shoal.api.policy_spec import PolicyPlan
from shoal.base.errors import ShoalError
from shoal.base.files import make_folder, read_small, write_atomic
from shoal.checkpoints.store import CheckpointStore

START = "start"
"""The folder with a checkpoint of all players as they were made, for those that begin anew."""


class MemberFiles:
    """`plans`: of all players, as they were made; nobody else may use them."""

    def __init__(self, folder: Path, plans: Mapping[str, PolicyPlan]) -> None:
        self.folder, self._plans = folder, plans

    def path(self, name: str) -> Path:
        """Where a member lies: `main-3.safetensors`."""
        return self.folder / f"{name}.safetensors"

    def write(self, name: str, player: str, block: np.ndarray) -> None:
        """`block`: a version as it travels."""
        import safetensors.torch

        policy, flat = self._plans[player].copy_policy()
        flat.block.numpy()[:] = block
        tensors = {key: tensor.detach().clone().contiguous() for key, tensor in policy.state_dict().items()}
        make_folder(self.folder)
        write_atomic(self.path(name), safetensors.torch.save(tensors))

    def read(self, name: str, player: str) -> np.ndarray:
        """The block that was written."""
        policy, flat = self._plans[player].copy_policy()
        load_member(policy, self.path(name))
        block: np.ndarray = flat.block.numpy().copy()
        return block

    def start(self) -> Path:
        """A checkpoint store whose version 0 holds all players as they were made, with their optimisers."""
        store = CheckpointStore(self.folder / START)
        if not store.versions():
            tensors = {
                f"{player}/{key}": tensor.detach().clone()
                for player, plan in self._plans.items()
                for key, tensor in plan.algorithm.state_dict().items()
            }
            store.save(0, tensors, {"steps": 0})
        return self.folder / START


def load_member(policy: Policy, path: Path) -> None:
    """Give a policy the parameters of a member."""
    import safetensors.torch

    try:
        policy.load_state_dict(safetensors.torch.load(read_small(path)))
    except (OSError, RuntimeError, ValueError) as error:
        raise ShoalError(f"{path} cannot be read as a member of the league ({error}): restore it") from error
