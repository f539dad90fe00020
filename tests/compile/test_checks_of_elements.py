"""What functions ask of their tensors' elements is asked when a program runs: such functions stay in one graph."""

import numpy
import pytest

import facula
from facula.nn import functional

X = facula.tensor([[0.2, 0.7, 0.1], [0.6, 0.3, 0.1]])


def of_classes(x, y):
    return functional.nll_loss(x.log(), y, reduction="none")


def of_probabilities(x, y):
    return functional.binary_cross_entropy(x, y, reduction="none")


def of_rows(x, y):
    return functional.embedding(y, x * 1.0, max_norm=0.5)


def test_negative_log_likelihoods():
    wanted = -numpy.log([0.7, 0.1])
    got = facula.compile(of_classes, fullgraph=True)(X, facula.tensor([1, 2]))
    numpy.testing.assert_allclose(got.numpy(), wanted, rtol=1e-6)
    with pytest.raises(IndexError, match="Target 3 is out of bounds"):
        facula.compile(of_classes, fullgraph=True)(X, facula.tensor([1, 3]))


def test_binary_cross_entropies():
    y = facula.tensor([[0.0, 1.0, 0.5], [1.0, 0.0, 0.0]])
    x64, y64 = X.numpy().astype("f8"), y.numpy().astype("f8")
    wanted = -(y64 * numpy.log(x64) + (1 - y64) * numpy.log(1 - x64))
    got = facula.compile(of_probabilities, fullgraph=True)(X, y)
    numpy.testing.assert_allclose(got.numpy(), wanted, rtol=1e-5)
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        facula.compile(of_probabilities, fullgraph=True)(X + 1, y)


def test_rows_of_a_largest_norm():
    rows = X.numpy().astype("f8")[[1, 0, 1]]
    wanted = rows * (0.5 / numpy.linalg.norm(rows, axis=1, keepdims=True))
    got = facula.compile(of_rows, fullgraph=True)(X, facula.tensor([1, 0, 1]))
    numpy.testing.assert_allclose(got.numpy(), wanted, rtol=1e-5)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("function", [of_classes, of_probabilities, of_rows])
def test_exported_programs_give_what_eager_gives(function, strict):
    class Module(facula.nn.Module):
        def forward(self, x, y):
            return function(x, y)

    y = facula.full((2, 3), 0.5) if function is of_probabilities else facula.tensor([1, 0])
    program = facula.export.export(Module(), (X, y), strict=strict)
    numpy.testing.assert_allclose(program.module()(X, y).numpy(), function(X, y).numpy(), rtol=1e-5)
