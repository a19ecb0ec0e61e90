"""The parameters of members, in the run's folder: one file each, written once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from shoal.api.policy_spec import PolicyPlan
from shoal.base.files import make_folder, write_atomic
from shoal.rollout.plans import load_member, member_file


class MemberFiles:
    """`plans`: of all players, as they were made; nobody else may use them."""

    def __init__(self, folder: Path, plans: Mapping[str, PolicyPlan]) -> None:
        self.folder, self._plans = folder, plans

    def path(self, name: str) -> Path:
        """Where a member lies: `main-3.safetensors`."""
        return member_file(self.folder, name)

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
