"""What the tests of ONNX share: an export that is checked, and runs by two other programs."""

from __future__ import annotations

from typing import Any

import numpy
import onnx

import facula
from facula.fx import _pytree as pytree


def tensors(x: Any) -> list[Any]:
    """The tensors in a nest."""
    return [t for t in pytree.tree_leaves(x) if isinstance(t, facula.Tensor)]


def exported(model: Any, args: tuple[Any, ...], **settings: Any) -> Any:
    """A program that ONNX's checker takes."""
    program = facula.onnx.export(model, args, **settings)
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program


def compare(found: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    """Results of a program are those of the model: sizes, dtypes, values."""
    wanted = tensors(wanted)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype is b.dtype
        assert tuple(a.shape) == tuple(b.shape)
        numpy.testing.assert_allclose(
            a.detach().double().numpy(), b.detach().double().numpy(), rtol=tolerance, atol=tolerance
        )


def same(model: Any, *calls: tuple[Any, ...], tolerance: float = 1e-5, **settings: Any) -> Any:
    """Export for the first call's arguments; onnxruntime gives what the model does in all calls."""
    program = exported(model, calls[0], **settings)
    with facula.no_grad():
        for args in calls:
            compare(program(*args), model(*args), tolerance)
    return program


class Calls(facula.nn.Module):
    """Functions of one argument list as a model."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)
