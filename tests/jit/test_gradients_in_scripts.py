"""Scripts that ask for gradients: `autograd.grad` and `autograd.backward`, with the values of the calculus."""

import io

import pytest

import facula
from facula import jit


@jit.script
def both(x, y):
    z = x + 2 * y + x * y
    return facula.autograd.grad((z.sum(),), (x, y))


@jit.script
def unused(x, y):
    z = 3 * y
    return facula.autograd.grad([z], [x, y], [facula.ones(2, 2)], allow_unused=True)


@jit.script
def twice(x):
    (slope,) = facula.autograd.grad([(x**3).sum()], [x], create_graph=True)
    assert slope is not None
    return facula.autograd.grad([slope.sum()], [x])


@jit.script
def accumulated(x):
    facula.autograd.backward([(x * x).sum()])
    return x


def leaf():
    return facula.full((2, 2), 2.0, requires_grad=True)


def test_gradients_by_the_rules_of_calculus():
    x, y = leaf(), leaf()
    assert [g.tolist() for g in both(x, y)] == [[[3.0, 3.0]] * 2, [[4.0, 4.0]] * 2]
    first, second = unused(x, y)
    assert first is None and second.tolist() == [[3.0, 3.0]] * 2
    assert twice(x)[0].tolist() == [[12.0, 12.0]] * 2
    assert accumulated(x).grad.tolist() == [[4.0, 4.0]] * 2


def test_their_type_is_a_list_of_optional_tensors():
    assert str(both.schema).endswith("-> Tensor?[]")
    assert "aten::grad" in str(both.graph)


def test_gradients_in_files():
    file = io.BytesIO()
    jit.save(both, file)
    file.seek(0)
    x, y = leaf(), leaf()
    assert [g.tolist() for g in jit.load(file)(x, y)] == [[[3.0, 3.0]] * 2, [[4.0, 4.0]] * 2]


def test_a_tensor_without_a_gradient_is_refused():
    with pytest.raises(RuntimeError, match="grad"):
        both(facula.ones(2), leaf())


def padded(sequences: list[facula.Tensor]) -> facula.Tensor:
    packed = facula.nn.utils.rnn.pack_sequence(sequences)
    return facula.nn.utils.rnn.pad_packed_sequence(packed)[0]


def test_padded_sequences_are_tensors():
    found = jit.script(padded)([facula.ones(3), facula.ones(2)])
    assert found.tolist() == [[1.0, 1.0], [1.0, 1.0], [1.0, 0.0]]
