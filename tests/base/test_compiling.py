"""Compiled code: one graph or an error, few shapes, equal numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from shoal.base.arithmetic import Arithmetic, Network, compute_by
from shoal.base.compiling import check_compiler, compiled, padded, while_compiling
from shoal.base.errors import InputError, ShoalError
from shoal.base.sizes import even_size, fixed_size
from shoal.testing.device import DEVICE

COMPILED = Arithmetic(compiled=True)


class Body(Network):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(5, 8)

    def forward(self, seen: dict[str, Tensor], state: None, first: Tensor) -> tuple[Tensor, None]:
        return self.layer(seen["x"].float()).tanh(), state


def test_sizes_are_few_and_never_much_too_large() -> None:
    assert [fixed_size(rows) for rows in (0, 1, 16, 17, 25, 33, 64, 65, 128, 129)] == [
        16, 16, 16, 24, 32, 40, 64, 80, 128, 160,
    ]  # fmt: skip
    for rows in range(5_000):
        assert rows <= fixed_size(rows) <= max(1.25 * rows, rows + 7, 16)
        assert fixed_size(rows) % 8 == even_size(rows) % 8 == 0
        assert even_size(rows) == (16 if rows <= 16 else rows + -rows % 8)
    assert len({fixed_size(rows) for rows in range(1_000, 2_000)}) == 5


def test_rows_are_laid_in_a_row_and_padded_with_nothing() -> None:
    x = torch.arange(24).view(4, 3, 2).transpose(0, 1)
    flat = padded(x, 16)
    assert flat.shape == (1, 16, 2)
    assert torch.equal(flat[0, :12], x.reshape(12, 2))
    assert not flat[0, 12:].any()
    assert padded(x, 12).is_contiguous()


@pytest.mark.slow
def test_a_network_by_compiled_code() -> None:
    """Equal numbers and gradients, whatever the number of rows; three sizes of batches are one graph."""
    one, other = Body(), Body()
    compute_by(other, COMPILED)
    graphs = torch._dynamo.utils.counters["stats"]
    for rows, lanes in ((3, 7), (2, 11), (4, 6)):
        seen, first = {"x": torch.randn(rows, lanes, 5)}, torch.zeros(rows, lanes, dtype=torch.bool)
        results = [body(seen, None, first) for body in (one, other)]
        assert results[1][0].shape == (rows, lanes, 8)
        torch.testing.assert_close(results[1][0], results[0][0], rtol=1e-5, atol=1e-6)
        for features, _ in results:
            features.square().sum().backward()
    assert graphs["unique_graphs"] == 1
    for name, parameter in one.named_parameters():
        torch.testing.assert_close(other.get_parameter(name).grad, parameter.grad, rtol=1e-5, atol=1e-5)


def test_who_watches_the_process_is_told_of_each_graph() -> None:
    said: list[str] = []

    def twice(x: Tensor) -> Tensor:
        return x * 2

    while_compiling(lambda: said.append("never"), lambda: said.append("never"))
    while_compiling(lambda: said.append("begin"), lambda: said.append("end"))
    for rows in (2, 3, 2):
        compiled(twice, dynamic=False)(torch.ones(rows, requires_grad=True)).sum().backward()
    while_compiling(lambda: None, lambda: None)
    assert said[:2] == ["begin", "end"]
    assert len(said) in (4, 8), "of two graphs, with their ways back if those are made later"
    assert set(said) == {"begin", "end"}


def test_what_is_no_single_graph_is_an_error() -> None:
    def looks(x: Tensor) -> Tensor:
        return x + 1 if x.sum().item() > 0 else x

    with pytest.raises(
        ShoalError, match=r"^placement.compile = true: .*looks cannot be compiled \(.*set placement.compile=f"
    ):
        compiled(looks, dynamic=False)(torch.ones(3))


def test_no_compiler_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    check_compiler(torch.device("cpu"))
    monkeypatch.setattr(torch._inductor.config.cpp, "cxx", ("no-such-compiler",))
    with pytest.raises(InputError) as caught:
        check_compiler(torch.device("cpu"))
    said = str(caught.value)
    assert said.startswith("placement.compile = true: nothing can be compiled for cpu here (InvalidCxxCompiler")
    assert said.endswith("install a C++ compiler (g++, or name one in CXX)")
    assert "\n" not in said


def test_a_device_that_nothing_is_compiled_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing can be compiled for pretend:0 here .* choose another device"):
        check_compiler(DEVICE)
