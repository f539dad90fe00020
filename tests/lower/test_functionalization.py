"""`functionalize`: programs without writes give what the programs with writes give.

Takes programs that write in place, through views, by `out=` and by subscripts.
Keeps true: results, written inputs and gradients equal those of the program itself.
"""

import pytest

import facula
from facula.func import functionalize
from facula.fx.experimental.proxy_tensor import make_fx


def through_flat_view(x):
    y = x.clone()
    y.view(-1)[0:2].add_(1)
    return y.mul_(2)


def pieces(x):
    y = x * 2
    a, b, c = y[:, 0], y[:, 1], y[:, 2]
    b.mul_(3)
    y.unsafe_split(1, 0)[1].fill_(4.0)
    y.diagonal().zero_()
    return a, b, c, y


def geometry(x):
    y = x.clone()
    y.t_()
    y.add_(1)
    z = y.squeeze(0)
    z.unsqueeze_(0)
    z.sub_(2)
    return y, z


def overlapping(x):
    y = x + 0
    y.as_strided((2, 2), (2, 1), 1).mul_(5)
    y.unfold(1, 2, 1).select(1, 0).add_(1)
    u = y.expand(3, 2, 3)
    y.add_(2)
    return y, u


def masks_and_indices(x):
    m = facula.zeros(2, 3)
    m[x > 0] = x[x > 0]
    m.masked_fill_(x < 0, 9.0)
    m.index_add_(0, facula.tensor([0, 1]), x)
    return m.clamp_(min=-1, max=5)


def other_dtype_and_detached(x):
    y = x.clone()
    d = y.detach()
    d.mul_(3)
    y.data.add_(1)
    z = y.contiguous()
    z.add_(1)
    y.to(facula.float32).sub_(1)
    return y, d, z


def complex_parts(x):
    c = facula.complex(x, x * 2)
    c.real.add_(1)
    facula.view_as_real(c)[..., 1].mul_(2)
    c.imag.neg_()
    return c.real.clone(), c.imag.clone()


def subscripts(x):
    y = x.clone()
    y[0] += y[1]
    y[:, 1:] = y[:, :-1].clone()
    y[..., None, 0].add_(1)
    y[facula.tensor([0, 0]), facula.tensor([1, 2])] = 5
    return y


def rows_into_memory(x):
    y = facula.ones(3, 2)
    y[:, 0] = x[0]
    y = y.T
    y.copy_(x)
    return y.reshape(-1)


PROGRAMS = [
    through_flat_view, pieces, geometry, overlapping, masks_and_indices, other_dtype_and_detached,
    complex_parts, subscripts, rows_into_memory,
]  # fmt: skip
MODES = ("mutations", "mutations_and_views")


def as_tuple(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def assert_equal(found, expected):
    found, expected = as_tuple(found), as_tuple(expected)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert facula.allclose(a, b)


@pytest.mark.parametrize("remove", MODES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_results_and_gradients_are_those_of_the_program(program, remove):
    facula.manual_seed(0)
    x = facula.randn(2, 3)
    plain, functional = x.clone().requires_grad_(), x.clone().requires_grad_()
    expected = program(plain * 1.0)
    found = functionalize(program, remove=remove)(functional * 1.0)
    assert_equal(found, expected)
    sum((r * r).sum() for r in as_tuple(expected)).backward()
    sum((r * r).sum() for r in as_tuple(found)).backward()
    assert_equal(functional.grad, plain.grad)


def writes_to_input(x):
    x.add_(1)
    v = x.view(-1)
    v[2] = 7
    w = x.t()
    w[0, 1] += 3
    return w, v * 2


def writes_by_out(x):
    out = facula.empty(0)
    facula.sin(x, out=out)
    other = facula.zeros(2, 3)
    facula.cos(x, out=other[:, :])
    return out, other.relu_()


def hidden_write(x):
    with facula.no_grad():
        x.mul_(2)
    return x.sin()


@pytest.mark.parametrize("remove", MODES)
@pytest.mark.parametrize("program", [writes_to_input, writes_by_out, hidden_write])
def test_inputs_are_written_as_the_program_writes_them(program, remove):
    x = facula.randn(2, 3)
    plain, functional = x.clone(), x.clone()
    expected = program(plain)
    assert_equal(functionalize(program, remove=remove)(functional), expected)
    assert_equal(functional, plain)


def test_a_parameter_written_without_recording_keeps_its_gradient():
    w = facula.tensor([1.0, 2.0], requires_grad=True)

    def program(x):
        with facula.no_grad():
            w.mul_(3)
        return (w * x).sum()

    x = facula.tensor([4.0, 5.0])
    functionalize(program)(x).backward()
    assert w.tolist() == [3.0, 6.0] and w.grad.tolist() == [4.0, 5.0]


def test_what_the_tape_kept_is_from_before_the_write():
    x = facula.tensor([1.0, 2.0, 3.0], requires_grad=True)

    def program(x):
        y = x * 2
        y.mul_(x)
        y[0] = 0.0
        return y.sum()

    functionalize(program)(x).backward()
    assert x.grad.tolist() == [0.0, 8.0, 12.0]


@pytest.mark.parametrize("program", PROGRAMS)
def test_traces_hold_no_writes(program):
    graph = make_fx(functionalize(program))(facula.randn(2, 3)).graph
    calls = [n.target for n in graph.nodes if n.op == "call_function"]
    assert not any(getattr(c, "_schema", None) and c._schema.is_mutable for c in calls)


def test_traces_hold_copies_where_views_are_removed():
    x = facula.randn(2, 3)
    module = make_fx(functionalize(through_flat_view, remove="mutations_and_views"))(x)
    names = [str(n.target) for n in module.graph.nodes if n.op == "call_function"]
    assert "aten.view_copy.default" in names and "aten.view.default" not in names
    assert_equal(module(x), through_flat_view(x))


def test_writing_to_an_expanded_tensor_is_an_error():
    with pytest.raises(RuntimeError, match="more than one element"):
        functionalize(lambda x: x.expand(3, 2).add_(1))(facula.zeros(1, 2))


def test_writing_to_a_leaf_is_an_error():
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        functionalize(lambda x: x.add_(1))(facula.zeros(2, requires_grad=True))


def test_custom_functions_run_through():
    class Doubled(facula.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = facula.empty_like(x)
            y.copy_(x).mul_(2)
            return y

        @staticmethod
        def backward(ctx, grad):
            made = grad.new_zeros(grad.shape)
            made.add_(grad, alpha=2)
            return made

    x = facula.ones(3, requires_grad=True)
    out = functionalize(lambda x: Doubled.apply(x) + 1)(x)
    assert out.tolist() == [3.0] * 3
    out.sum().backward()
    assert x.grad.tolist() == [2.0] * 3
