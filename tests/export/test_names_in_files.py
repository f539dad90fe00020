"""Which of PyTorch's operators a saved program calls, where the operators here are called otherwise."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest
from scipy import special

import facula
from facula import Tensor, nn
from facula.export import export, load, save


def _module(function) -> nn.Module:
    class Calls(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return function(x)

    return Calls()


def _file(function, decomposed: bool) -> bytes:
    program = export(_module(function), (facula.linspace(0.1, 3, 12).reshape(3, 4),))
    stream = io.BytesIO()
    save(program.run_decompositions() if decomposed else program, stream)
    return stream.getvalue()


def _calls(file: bytes) -> dict[str, list[str]]:
    """The operators of the program in a file, with the names of their arguments."""
    archive = zipfile.ZipFile(io.BytesIO(file))
    (name,) = [n for n in archive.namelist() if n.endswith("models/model.json")]
    nodes = json.loads(archive.read(name))["graph_module"]["graph"]["nodes"]
    return {node["target"]: [given["name"] for given in node["inputs"]] for node in nodes}


@pytest.mark.parametrize("name", ["i0e", "erfcx", "ndtri"])
@pytest.mark.parametrize("decomposed", [False, True])
def test_functions_of_special_have_their_public_names(name: str, decomposed: bool) -> None:
    def function(x: Tensor) -> Tensor:
        return getattr(facula.special, name)(x / 4)

    file = _file(function, decomposed)
    assert _calls(file)[f"torch.ops.aten.special_{name}.default"] == ["self"]
    x = np.linspace(0.1, 3, 12).reshape(3, 4)
    made = load(io.BytesIO(file)).module()(facula.tensor(x, dtype=facula.float32))
    np.testing.assert_allclose(made.numpy(), getattr(special, name)(x / 4), rtol=2e-5)


@pytest.mark.parametrize("decomposed", [False, True])
def test_a_median_along_a_dimension_and_one_of_all(decomposed: bool) -> None:
    x = facula.tensor([[3.0, 1.0, 2.0, 9.0], [5.0, 4.0, 8.0, 7.0], [0.0, 6.0, 1.0, 1.0]])
    for name in ("median", "nanmedian"):
        file = _file(lambda x, name=name: getattr(facula, name)(x, 1)[0], decomposed)
        assert _calls(file)[f"torch.ops.aten.{name}.dim"][:2] == ["self", "dim"]
        assert load(io.BytesIO(file)).module()(x).tolist() == [2, 5, 1]
        file = _file(lambda x, name=name: getattr(facula, name)(x), decomposed)
        assert _calls(file) == {f"torch.ops.aten.{name}.default": ["self"]}
        assert load(io.BytesIO(file)).module()(x).item() == 3


@pytest.mark.parametrize("decomposed", [False, True])
def test_integrals_are_written_as_sums(decomposed: bool) -> None:
    x = np.linspace(0.1, 3, 12).reshape(3, 4)
    file = _file(lambda x: facula.trapezoid(x, dx=0.5), decomposed)
    assert not [name for name in _calls(file) if "trapezoid" in name]
    made = load(io.BytesIO(file)).module()(facula.tensor(x, dtype=facula.float32))
    want = (x[:, 1:] + x[:, :-1]).sum(1) / 4
    np.testing.assert_allclose(made.numpy(), want, rtol=1e-6)


def test_a_sum_without_nan_writes_to_nothing() -> None:
    file = _file(lambda x: facula.nansum(x, 1), True)
    assert not [name for name in _calls(file) if "fill_" in name]
    x = facula.ones(3, 4)
    x[0, 0] = float("nan")
    assert load(io.BytesIO(file)).module()(x).tolist() == [3, 4, 4]
