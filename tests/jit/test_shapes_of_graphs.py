"""What passes say of a graph's tensors before it runs: compared with what the functions give when they run."""

from __future__ import annotations

import pytest

import facula
import facula.nn.functional as F
from facula import jit

C = facula._C


def told(function, *shapes, dtype=None):
    """The graph of a function whose inputs have such sizes, with what follows from them."""
    graph = jit.script(function).graph
    C._jit_pass_erase_shape_information(graph)
    for value, sizes in zip(graph.inputs(), shapes, strict=True):
        if sizes is not None:
            value.setType(value.type().with_sizes(sizes).with_dtype(dtype))
    C._jit_pass_propagate_shapes_on_graph(graph)
    return graph


def kinds(graph):
    return [v.type() for v in graph.outputs()]


def product(x, y):
    return x * y


def convolved(x, w):
    return F.conv2d(x, w, None, 2, 1)


def joined(x, y):
    return facula.cat([x, y], 1).transpose(0, 1)


def many(x, y):
    a, b = (x @ y).max(1)
    return a.unsqueeze(0), b, x.sum(), facula.zeros([2, x.size(0)]), x > 1


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (product, [(1, 6, 5), (1, 7, 1, 5)]),
        (convolved, [(2, 3, 9, 10), (4, 3, 3, 3)]),
        (joined, [(2, 3), (2, 5)]),
        (many, [(3, 4), (4, 5)]),
    ],
)
def test_sizes_and_dtypes_are_those_of_the_run(function, shapes):
    found = kinds(told(function, *shapes, dtype=facula.float64))
    made = function(*[facula.ones(s, dtype=facula.float64) for s in shapes])
    made = made if isinstance(made, tuple) else (made,)
    found = found if len(found) == len(made) else list(found[0].elements())
    for kind, tensor in zip(found, made, strict=True):
        if hasattr(kind, "sizes"):
            assert kind.sizes() == list(tensor.shape) and kind.dtype() == tensor.dtype


def test_names_of_sizes_go_on():
    a, b, c = (C._new_symbolic_shape_symbol() for _ in range(3))
    assert len({a, b, c}) == 3 and max(a, b, c) < 0
    assert kinds(told(product, [a, 1, c], [1, b, c]))[0].symbolic_sizes() == [a, b, c]
    (found,) = kinds(told(product, [a, b], [b, a]))
    assert not set(found.symbolic_sizes()) & {a, b}  # either may be one of the other's
    (found,) = kinds(told(convolved, [a, b, c, c], (4, 3, 3, 3)))
    first, channels, *rest = found.symbolic_sizes()
    assert (first, channels) == (a, 4) and max(rest) < 0 and not set(rest) & {a, b, c}
    (found,) = kinds(told(joined, [a, b], [a, 5]))
    assert found.symbolic_sizes()[1] == a and found.symbolic_sizes()[0] not in (a, b)


def sliced(x):
    return x[:100]


def test_a_size_with_a_bound_is_another_size():
    a = C._new_symbolic_shape_symbol()
    (found,) = kinds(told(sliced, [a]))
    assert found.symbolic_sizes()[0] < 0 and found.symbolic_sizes()[0] != a


def summed(x, dim: int):
    return x.sum(dim)


def test_a_number_that_may_be_anything_says_nothing():
    assert kinds(told(summed, (2, 3), None))[0].symbolic_sizes() is None


def branches(x, y, first: bool):
    if first:
        z = x + 1
    else:
        z = y.sum(0, keepdim=True)
    for _ in range(3):
        z = z * 2
    return z


def grows(x):
    for _ in range(3):
        x = x.unsqueeze(0)
    return x


def test_branches_and_loops_say_what_all_ways_agree_in():
    (found,) = kinds(told(branches, (4, 3), (9, 3), None))
    assert found.symbolic_sizes()[1] == 3 and found.symbolic_sizes()[0] < 0
    assert kinds(told(grows, (4, 3)))[0].dim() is None


def resized(x):
    y = x + 1
    z = y.view(-1)
    y.resize_([7])
    return z, x * 2


def test_nothing_is_said_of_what_is_resized():
    graph = told(resized, (2, 3))
    assert graph.findNode("aten::view").output().type().dim() is None
    assert graph.findNode("aten::mul").output().type().sizes() == [2, 3]


def test_complete_analysis_shows_in_the_text():
    graph = jit.script(product).graph
    x, y = facula.randn(3, 1, 5, requires_grad=True), facula.randn(4, 1, 8, 5, requires_grad=True)
    C._jit_pass_complete_shape_analysis(graph, (x, y), False)
    assert "Float(4, 3, 8, 5, strides=[120, 40, 5, 1], device=cpu) = aten::mul" in str(graph)
    graph = C._propagate_shapes(graph, (x.detach(), y.detach().double()), False)
    assert "Double(*, *, *, *, requires_grad=0, device=cpu) = aten::mul" in str(graph)
    C._jit_erase_non_input_shape_information(graph)
    assert next(graph.inputs()).type().dim() == 3 and "Tensor = aten::mul" in str(graph)
    with pytest.raises(RuntimeError, match="2 values for the graph's inputs"):
        C._propagate_shapes(graph, (x,), False)


def test_types_that_say_more_are_types_that_say_less():
    whole = C.TensorType.create_from_tensor(facula.ones(2, 3))
    named = C.TensorType.get().with_sizes([None, 3])
    assert whole.isSubtypeOf(named) and not named.isSubtypeOf(whole)
    assert whole.isSubtypeOf(C.TensorType.get()) and whole != C.TensorType.get()
    assert str(whole.str()) == "Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)"
    assert (whole.scalarType(), whole.strides(), whole.dim()) == ("Float", [3, 1], 2)
    parsed = C.parse_ir("graph(%x : Float(SS(-2), SS(-3), 4)):\n  return (%x)")
    assert next(parsed.inputs()).type().symbolic_sizes() == [-2, -3, 4]
