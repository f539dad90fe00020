"""Nested tensors give for each entry what the operator gives for it alone; gradients too."""

import numpy as np
import pytest

import facula
from facula import nested, nn
from facula.nn import functional as F


def entries(seed=0, size=6):
    facula.manual_seed(seed)
    return [facula.randn(n, size) for n in (3, 1, 5)]


def equal(nested_result, wanted, tolerance=1e-6):
    got = nested_result.unbind()
    assert len(got) == len(wanted)
    for one, two in zip(got, wanted, strict=True):
        assert one.shape == two.shape
        np.testing.assert_allclose(one.detach().numpy(), two.detach().numpy(), tolerance, tolerance)


@pytest.mark.parametrize("layout", [facula.strided, facula.jagged])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 2 + 1,
        lambda x: 1 - x,
        lambda x: x.relu() / 3,
        lambda x: F.gelu(x) + x.sigmoid(),
        lambda x: F.softmax(x, -1),
        lambda x: F.layer_norm(x, (6,)),
        lambda x: x @ facula.ones(6, 2),
        lambda x: x.unflatten(-1, (2, 3)).flatten(-2),
        lambda x: x.chunk(2, -1)[1],
        lambda x: x.sum(-1, keepdim=True),
        lambda x: facula.cat([x, x], -1),
        lambda x: x.clone().double().float(),
    ],
)
def test_operators_are_those_of_the_entries(function, layout):
    rows = entries()
    equal(function(nested.nested_tensor(rows, layout=layout)), [function(r) for r in rows])


def test_gradients_reach_entries_and_parameters():
    rows = [r.requires_grad_() for r in entries()]
    layer = nn.Linear(6, 4)
    (layer(nested.as_nested_tensor(rows)).tanh() * 2).sum().backward()
    got, weight = [r.grad.clone() for r in rows], layer.weight.grad.clone()
    for r in rows:
        r.grad = None
    layer.zero_grad()
    sum((layer(r).tanh() * 2).sum() for r in rows).backward()
    for one, r in zip(got, rows, strict=True):
        np.testing.assert_allclose(one.numpy(), r.grad.numpy(), 1e-5, 1e-6)
    np.testing.assert_allclose(weight.numpy(), layer.weight.grad.numpy(), 1e-5, 1e-6)


def test_a_leaf_has_a_nested_gradient():
    x = nested.nested_tensor(entries(), requires_grad=True)
    (x * x).sum().backward()
    equal(x.grad, [2 * r for r in entries()])
    assert x.grad.is_nested and x.is_leaf and x.requires_grad


def test_attention_of_each_entry():
    x = nested.nested_tensor(entries())
    heads = x.unflatten(-1, (2, 3)).transpose(1, 2)
    got = F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(-2)
    wanted = []
    for r in entries():
        q = r.reshape(1, -1, 2, 3).transpose(1, 2)
        weights = (q.double() @ q.double().transpose(-2, -1) / 3**0.5).softmax(-1)
        wanted.append((weights @ q.double()).transpose(1, 2).reshape(-1, 6).float())
    equal(got, wanted, 1e-5)


def test_padding_and_sizes():
    x = nested.nested_tensor(entries())
    padded = nested.to_padded_tensor(x, -1.0)
    assert padded.shape == (3, 5, 6) and (padded[1, 1:] == -1).all()
    assert x.to_padded_tensor(0, (3, 7, 6)).shape == (3, 7, 6)
    assert x.size(0) == len(x) == 3 and x.size(-1) == 6 and x.dim() == 3 and x.numel() == 54
    for call, what in [
        (lambda: x.size(1), "is irregular"),
        (lambda: x.size(), "doesn't support sizes"),
        (lambda: x.to_padded_tensor(0, (3, 2, 6)), "Truncation is not supported"),
        (lambda: x + nested.nested_tensor(entries()[:2]), "of the same sizes were required"),
        (lambda: F.softmax(x, 0), "across nested dimension 0"),
        (lambda: x.transpose(0, 1), "dimension 0 cannot be transposed"),
        (lambda: x.unbind(1), "along dimension 0"),
        (
            lambda: nested.nested_tensor([facula.ones(2), facula.ones(2, 2)]),
            "have the same dimension",
        ),
    ]:
        with pytest.raises(RuntimeError, match=what):
            call()
    with pytest.raises(NotImplementedError, match="an operator that nested tensors have"):
        facula.linalg.qr(x)
    with pytest.raises(TypeError, match="a list was required"):
        nested.nested_tensor(facula.ones(2, 2))


def test_shapes_that_differ_everywhere():
    rows = [facula.ones(2, 3), facula.ones(4, 1) * 2]
    x = nested.nested_tensor(rows)
    equal(x * 2, [r * 2 for r in rows])
    assert x.to_padded_tensor(0).shape == (2, 4, 3)
    with pytest.raises(RuntimeError, match="layout jagged"):
        nested.nested_tensor(rows, layout=facula.jagged)


def test_jagged_from_values():
    values = facula.randn(6, 3, requires_grad=True)
    x = nested.nested_tensor_from_jagged(values, facula.tensor([0, 2, 6]))
    assert x.layout is facula.jagged and x.offsets().tolist() == [0, 2, 6]
    equal(x, [values[:2], values[2:]])
    (x * 3).sum().backward()
    assert values.grad.sum() == 54
    equal(
        nested.nested_tensor_from_jagged(values, lengths=facula.tensor([1, 5])),
        [values[:1], values[1:]],
    )
    equal(nested.narrow(facula.arange(12).reshape(2, 6), 1, facula.tensor([0, 2]), facula.tensor([3, 1])),
          [facula.arange(3), facula.tensor([8])])  # fmt: skip
    with pytest.raises(RuntimeError, match="offsets that grow"):
        nested.nested_tensor_from_jagged(values, facula.tensor([0, 5, 2]))
    with pytest.raises(RuntimeError, match="offsets or lengths"):
        nested.nested_tensor_from_jagged(values)


def test_encoder_layers_take_nested_batches():
    facula.manual_seed(3)
    layer = nn.TransformerEncoderLayer(6, 2, 12, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    rows = entries()
    with facula.no_grad():
        equal(encoder(nested.nested_tensor(rows)), [encoder(r[None])[0] for r in rows], 1e-4)
        x = nested.nested_tensor(rows)
        with pytest.raises(RuntimeError, match="inference without masks"):
            encoder.layers[0](x, facula.zeros(5, 5))


LAYOUTS = pytest.mark.parametrize("layout", [facula.strided, facula.jagged])
ALONG = {
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "softmax": lambda x: F.softmax(x, -1),
    "softmax of another dtype": lambda x: F.softmax(x, -1, dtype=facula.float64),
    "sum": lambda x: x.sum(-1),
    "kept mean": lambda x: x.mean(-1, keepdim=True),
    "sum of another dtype": lambda x: x.sum(-1, dtype=facula.float64),
}


@LAYOUTS
@pytest.mark.parametrize("name", ALONG)
def test_what_goes_along_the_last_dimension_is_that_of_each_entry(name, layout):
    """`log_softmax` gave the softmax, and dtypes were passed over."""
    parts = [facula.randn(2, 4), facula.randn(5, 4)]
    nested = facula.nested.nested_tensor(parts, layout=layout)
    for found, part in zip(ALONG[name](nested).unbind(), parts, strict=True):
        expected = ALONG[name](part)
        assert found.dtype is expected.dtype and facula.allclose(found, expected)


REFUSED = {
    "a sum over entries": lambda x, y: x.sum(0),
    "a mean over entries": lambda x, y: x.mean(-3),
    "two dimensions": lambda x, y: x.sum((1, 2)),
    "a dense tensor that is written to": lambda x, y: facula.zeros(2, 1, 4).add_(x),
    "other lengths by name": lambda x, y: facula.add(x, other=y),
    "a dense tensor of as many elements": lambda x, y: ragged() + facula.ones(14),
    "transpose_": lambda x, y: x.transpose_(1, 2),
    "softmax over entries": lambda x, y: F.log_softmax(x, 0),
}


def ragged():
    return facula.nested.nested_tensor([facula.ones(2, 4), facula.ones(3, 2)])


@pytest.mark.parametrize("name", REFUSED)
def test_what_nested_tensors_cannot_do_is_refused_and_not_done_to_something_else(name):
    x = facula.nested.nested_tensor([facula.ones(2, 4), facula.ones(3, 4)], layout=facula.jagged)
    y = facula.nested.nested_tensor([facula.ones(3, 4), facula.ones(2, 4)], layout=facula.jagged)
    with pytest.raises((RuntimeError, NotImplementedError), match=r"^\[\w+\] "):
        REFUSED[name](x, y)


def test_entries_of_other_widths_are_reduced_one_by_one():
    sums = ragged().sum(-1).unbind()
    assert [s.tolist() for s in sums] == [[4.0, 4.0], [2.0, 2.0, 2.0]]


def test_a_write_gives_the_tensor_itself():
    x = facula.nested.nested_tensor([facula.ones(2), facula.ones(3)])
    assert x.add_(1) is x and x.unbind()[1].tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("layout", [facula.jagged, facula.strided])
def test_parts_of_complex_entries(layout) -> None:
    entries = [np.array([1 + 2j, 3 - 1j]), np.array([0.5j])]
    made = facula.nested.nested_tensor([facula.tensor(e) for e in entries], layout=layout)
    for name in ("real", "imag"):
        for found, expected in zip(getattr(made, name).unbind(), entries, strict=True):
            np.testing.assert_array_equal(found, getattr(expected, name))
    for found, expected in zip(made.conj().unbind(), entries, strict=True):
        np.testing.assert_array_equal(found.resolve_conj(), expected.conj())


@pytest.mark.parametrize("layout", [facula.strided, facula.jagged])
def test_padding_to_more_entries(layout):
    rows = entries()
    batch = nested.nested_tensor(rows, layout=layout)
    padded = batch.to_padded_tensor(-1.0, (4, 7, 8))
    wanted = np.full((4, 7, 8), -1.0, np.float32)
    for i, row in enumerate(rows):
        wanted[i, : len(row), :6] = row.numpy()
    assert np.array_equal(padded.numpy(), wanted)
    with pytest.raises(RuntimeError, match="output_size is less than NestedTensor padded size"):
        batch.to_padded_tensor(0.0, (2, 5, 6))


def test_printed_rows_stand_below_each_other():
    text = repr(nested.nested_tensor([facula.ones(2, 1), facula.ones(1, 1)]))
    assert text.splitlines()[1:3] == ["  tensor([[1.],", "          [1.]]),"]
