"""Quantized tensors beside plain ones, and what is filled in.

Keeps true: numbers are never taken for the integers of a quantized tensor; they are refused, or quantized by its scale
and zero point.
"""

import numpy
import pytest

import facula

VALUES = numpy.array([[1.0, 0.2, 0.5], [0.0, 1.5, 2.0]], "float32")
PLAIN = facula.full((2, 3), 1.0)
MASK = facula.tensor([[True, False, True], [False, True, True]])


def quantized(scale=0.1, zero_point=3):
    return facula.quantize_per_tensor(facula.from_numpy(VALUES), scale, zero_point, facula.quint8)


aten = facula.ops.aten
REFUSED = {
    "where, plain first": lambda q: facula.where(MASK, PLAIN, q),
    "where, plain behind": lambda q: facula.where(MASK, q, PLAIN),
    "where, a number": lambda q: facula.where(MASK, q, 1.0),
    "where, integers": lambda q: facula.where(MASK, q, PLAIN.int()),
    "maximum": lambda q: facula.maximum(q, PLAIN),
    "maximum, plain first": lambda q: facula.maximum(PLAIN, q),
    "minimum": lambda q: facula.minimum(q, PLAIN),
    "cat": lambda q: facula.cat([q, PLAIN]),
    "cat, plain first": lambda q: facula.cat([PLAIN, q]),
    "stack": lambda q: facula.stack([PLAIN, q]),
    "gelu_backward": lambda q: aten.gelu_backward(q, q),
    "silu_backward": lambda q: aten.silu_backward(PLAIN, q),
    "sigmoid_backward": lambda q: aten.sigmoid_backward(q, PLAIN),
    "threshold_backward": lambda q: aten.threshold_backward(q, PLAIN, 0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_plain_numbers_are_no_integers_of_quantized_tensors(name):
    with pytest.raises((RuntimeError, NotImplementedError), match="hint:"):
        REFUSED[name](quantized())


def test_quantized_tensors_beside_each_other():
    q, other = quantized(), quantized(0.5, 0)
    near = numpy.round(VALUES * 2) / 2  # half a unit: 0.2 is 0, 0.5 and all others are as they are
    for given, wanted in (
        (facula.maximum(q, other), numpy.maximum(VALUES, near)),
        (facula.minimum(q, other), numpy.minimum(VALUES, near)),
        (facula.where(MASK, q, other), numpy.where(MASK.numpy(), VALUES, near)),
        (facula.cat([q, other]), numpy.concatenate([VALUES, near])),
        (facula.stack([q, other]), numpy.stack([VALUES, near])),
    ):
        numpy.testing.assert_allclose(given.dequantize().numpy(), wanted, atol=1e-6)


def test_what_is_filled_in_is_a_number():
    q, pad = quantized(), facula.nn.functional.pad
    for given, wanted in (
        (q.tril(), numpy.tril(VALUES)),
        (q.triu(1), numpy.triu(VALUES, 1)),
        (pad(q, (1, 2)), numpy.pad(VALUES, ((0, 0), (1, 2)))),
        (pad(q, (1, 1), value=1.0), numpy.pad(VALUES, ((0, 0), (1, 1)), constant_values=1)),
    ):
        assert given.is_quantized and given.q_zero_point() == 3
        numpy.testing.assert_allclose(given.dequantize().numpy(), wanted, atol=1e-6)
