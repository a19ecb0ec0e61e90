"""What the controller of a run on a cluster finds before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.base.errors import InputError

pytest.importorskip("ray", reason="an extra: pip install 'shoal[cluster]'")


def test_a_folder_that_its_machine_does_not_have_is_one_line(tmp_path: Path) -> None:
    from shoal.runs.ray.controller import check_reachable

    check_reachable(tmp_path)
    with pytest.raises(
        InputError, match=r"cannot be reached from .*: start the run on a machine of the cluster, or in a"
    ):
        check_reachable(tmp_path / "elsewhere")
