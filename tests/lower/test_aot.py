"""Ahead-of-time graphs run as the program does: results, gradients, writes, views, random numbers.

Takes programs and inputs.
Keeps true: every graph is verified after each pass; both partitions give what eager execution gives.
"""

import pytest

import facula
from facula import nn
from facula.compiler import options
from facula.compiler.pipeline import optimise
from facula.lower.aot import api
from facula.lower.verify import verify

F = nn.functional
PARTITIONS = (api.default_partition, api.min_cut_rematerialization_partition)


def verified(module, inputs):
    verify(module)
    return module


def optimised(module):
    with options.patch(debug=True):
        return optimise(module)


def tensors_in(value):
    value = value if isinstance(value, (tuple, list)) else (value,)
    return [x for x in value if isinstance(x, facula.Tensor)]


def run(function, inputs):
    """Results of a function, and the gradients that it leaves at its inputs."""
    facula.manual_seed(5)
    results = function(*inputs)
    tracked = [x for x in tensors_in(results) if x.requires_grad]
    if tracked:
        facula.manual_seed(9)
        sum((x * facula.randn_like(x)).sum() for x in tracked).backward()
    leaves = [x for x in inputs if isinstance(x, facula.Tensor) and x.is_leaf]
    return results, [x.grad for x in leaves]


def assert_same(found, expected):
    assert (found is None) == (expected is None)
    if expected is not None:
        assert found.shape == expected.shape and found.dtype == expected.dtype
        assert facula.allclose(found.double(), expected.double(), rtol=1e-4, atol=1e-5)


def check(program, make, partition=api.default_partition, passes=optimised):
    facula.manual_seed(0)
    inputs = make()
    facula.manual_seed(0)
    others = make()
    expected, gradients = run(program, inputs)
    compiled = api.aot_function(program, verified, partition_fn=partition, passes=passes)
    found, own = run(compiled, others)
    for a, b in zip(tensors_in(found), tensors_in(expected), strict=True):
        assert_same(a, b)
        assert a.stride() == b.stride() and a.requires_grad == b.requires_grad
    for a, b in zip(own, gradients, strict=True):
        assert_same(a, b)
    for a, b in zip(tensors_in(others), tensors_in(inputs), strict=True):
        assert_same(a, b)


def leaf(*shape):
    return facula.randn(*shape).requires_grad_()


@pytest.mark.parametrize("partition", PARTITIONS)
def test_arguments_that_are_one_tensor_or_not_read(partition):
    compiled = api.aot_function(
        lambda x, y, z, w: (x * 2 + y * 3 - w * z.size(0)).sin(), verified, partition_fn=partition
    )
    x, z, w = leaf(3), leaf(5), leaf(3)
    compiled(x, x, z, w).sum().backward()
    slope = (x * 5 - w * 5).cos()
    assert facula.allclose(compiled(x, x, z, w), (x * 5 - w * 5).sin(), atol=1e-6)
    assert facula.allclose(x.grad, 5 * slope, atol=1e-5) and z.grad is None
    assert facula.allclose(w.grad, -5 * slope, atol=1e-5)


@pytest.mark.parametrize("partition", PARTITIONS)
def test_cotangents_arrive_as_the_graph_was_made_for(partition):
    """A view in the backward graph can be taken of the strides that were traced, not of all."""
    compiled = api.aot_function(
        lambda x: x.exp().view(6, 2), verified, partition_fn=partition, passes=optimised
    )
    x = leaf(3, 4)
    for cotangent in (
        facula.randn(6, 2),
        facula.randn(2, 6).t(),
        facula.randn(12, 4)[::2, ::2],
        facula.randn(6, 1).expand(6, 2),
        facula.randn(()).expand(6, 2),
    ):
        (found,) = facula.autograd.grad(compiled(x), x, cotangent)
        assert facula.allclose(found, x.exp() * cotangent.reshape(3, 4), rtol=1e-5)


def write_inputs(x, y):
    x.add_(1)
    y.mul_(x.sum())
    return x * 2, y


def write_then_use(x, w):
    x.mul_(2)
    return (x * w).sum()


def write_leaf(x, w):
    with facula.no_grad():
        w.add_(1)
    return (x * w).sum()


def aliases(x):
    y = x * 2
    return y, y.view(-1), y.t(), x.view(-1), x


def new_geometry(x):
    x.t_()
    x.add_(1)
    return x.sum(0)


def subscripts(x):
    y = x.clone()
    y[:, 0] = x[:, 1]
    return y.mul_(3)


def dropouts(x):
    return F.dropout(x * 2, 0.5, True).sum(0) * facula.rand(5) + facula.randn_like(x[0])


def normalised(x, w, b, mean, var):
    return F.relu(F.batch_norm(x, mean, var, w, b, True))


def classified(x, w):
    return F.cross_entropy(F.linear(x, w), facula.tensor([0, 1, 2]))


def images(x, w, b):
    return F.max_pool2d(F.relu(F.conv2d(x, w, b, padding=1)), 2).flatten(1)


def kept_from_before_a_write(x):
    y = x * 2
    y.mul_(x)
    y[0] = 0.0
    return y.sum()


PROGRAMS = {
    "pointwise": (
        lambda a, b: ((a * b).tanh() + a).sum(0),
        lambda: (leaf(3, 4), facula.randn(3, 4)),
    ),
    "written inputs": (write_inputs, lambda: (facula.randn(3), facula.randn(3))),
    "written then used": (write_then_use, lambda: (facula.randn(3), leaf(3))),
    "written leaf": (write_leaf, lambda: (facula.randn(3), leaf(3))),
    "aliases": (aliases, lambda: (leaf(3, 4),)),
    "aliases, no history": (aliases, lambda: (facula.randn(3, 4),)),
    "new geometry": (new_geometry, lambda: (facula.randn(3, 4),)),
    "subscripts": (subscripts, lambda: (leaf(3, 3),)),
    "dropout": (dropouts, lambda: (leaf(6, 5),)),
    "batch norm": (
        normalised,
        lambda: (leaf(2, 3, 4, 4), leaf(3), leaf(3), facula.zeros(3), facula.ones(3)),
    ),
    "cross entropy": (classified, lambda: (leaf(3, 5), leaf(4, 5))),
    "images": (images, lambda: (leaf(2, 3, 8, 8), leaf(4, 3, 3, 3), leaf(4))),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda: (leaf(2, 2, 6, 4), leaf(2, 2, 6, 4), leaf(2, 2, 6, 4)),
    ),
    "attention with dropout": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.3),
        lambda: (leaf(2, 2, 6, 4), leaf(2, 2, 6, 4), leaf(2, 2, 6, 4)),
    ),
    "kept from before a write": (kept_from_before_a_write, lambda: (leaf(4),)),
    "other results": (
        lambda x, y: (x.sum(), y * 2, 3, None, x.argmax(), x > 0, x.detach() * 2),
        lambda: (leaf(3), facula.randn(2)),
    ),
    "constants": (
        lambda x: x * facula.arange(3) + facula.tensor([1.0, 2.0, 3.0]),
        lambda: (leaf(3),),
    ),
}


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_equal_eager(name, partition):
    check(*PROGRAMS[name], partition)


def test_inputs_on_one_memory_see_each_others_writes():
    def program(x, y):
        x.add_(1)
        return y.sum(), x * 1

    def make():
        whole = facula.randn(4, 4)
        return whole[0], whole

    check(program, make)


def test_one_tensor_given_twice_is_one_input():
    def program(x, y):
        x.add_(1)
        return x + y

    graphs = []
    compiled = api.aot_function(program, lambda g, e: graphs.append(g) or g)
    x = facula.ones(3)
    assert compiled(x, x).tolist() == [4.0] * 3
    assert len(graphs[0].graph.find_nodes(op="placeholder")) == 1
    assert compiled(facula.ones(3), facula.ones(3)).tolist() == [3.0] * 3


def test_a_view_of_an_input_is_a_view_of_the_real_one():
    compiled = api.aot_function(lambda x: x.view(-1), api.nop)
    x = facula.zeros(2, 2)
    compiled(x)[0] = 7
    assert x[0, 0].item() == 7


def saved_count(program, x, partition):
    graphs = []
    api.aot_function(program, lambda g, e: graphs.append(g) or g, api.nop, partition_fn=partition)(
        x
    )
    return len(graphs[0].graph.output_node().args[0]) - 1, graphs[0]


def test_the_cut_computes_cheap_things_again():
    x = leaf(500)

    def program(x):
        return x.cos().cos().cos().cos().sum()

    assert saved_count(program, x, PARTITIONS[0])[0] == 4
    assert saved_count(program, x, PARTITIONS[1])[0] == 1


def test_of_equal_prices_the_later_value_is_kept():
    x, w = leaf(4, 4), leaf(4, 4)
    _, forward = saved_count(lambda x: ((x @ w).relu() @ w).sum(), x, PARTITIONS[1])
    kept = forward.graph.output_node().args[0][1:]
    assert [str(n.target) for n in kept if n.op == "call_function"] == ["aten.relu.default"]


def test_dropout_keeps_its_state_and_no_mask():
    x = leaf(100, 100)
    _, forward = saved_count(lambda x: F.dropout(x, 0.5, True).sum(), x, PARTITIONS[1])
    kept = forward.graph.output_node().args[0][1:]
    assert sum(n.meta["val"].numel() for n in kept) == 2


def test_products_are_never_computed_again():
    graphs = []
    x, w = leaf(4, 4), leaf(4, 4)
    api.aot_function(
        lambda x, w: (x @ w).sin().sum(), api.nop, lambda g, e: graphs.append(g) or g,
        partition_fn=PARTITIONS[1],
    )(x, w).backward()  # fmt: skip
    names = [str(n.target) for n in graphs[0].graph.nodes]
    assert names.count("aten.mm.default") == 2


def test_differentiating_twice_is_an_error():
    x = leaf(3)
    out = api.aot_function(lambda x: x.sin().sum(), api.nop)(x)
    (grad,) = facula.autograd.grad(out, x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        grad.sum().backward()


def test_backward_twice_needs_the_graph_kept():
    x = leaf(3)
    out = api.aot_function(lambda x: x.sin().sum(), api.nop)(x)
    out.backward(retain_graph=True)
    out.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        out.backward()


def test_writing_to_a_kept_input_is_an_error():
    x, w = facula.randn(3), leaf(3)
    out = api.aot_function(lambda x, w: (x * w).sum(), api.nop)(x, w)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_modules_train_in_their_own_parameters():
    facula.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3)
    )
    import copy

    other = copy.deepcopy(net)
    compiled = api.aot_module(other, api.nop, partition_fn=PARTITIONS[1])
    x = facula.randn(2, 1, 6, 6)
    for _ in range(2):
        net(x).square().sum().backward()
        compiled(x).square().sum().backward()
    for a, b in zip(other.parameters(), net.parameters(), strict=True):
        assert facula.allclose(a.grad, b.grad, rtol=1e-4, atol=1e-4)
    for a, b in zip(other.buffers(), net.buffers(), strict=True):
        assert facula.allclose(a.double(), b.double())


def test_other_kinds_of_inputs_are_traced_anew():
    graphs = []
    compiled = api.aot_function(lambda x: x * 2, lambda g, e: graphs.append(g) or g, api.nop)
    compiled(facula.ones(2))
    compiled(facula.ones(2))
    assert len(graphs) == 1
    compiled(facula.ones(3))
    compiled(leaf(3))
    assert len(graphs) == 3


def test_public_compilers(tmp_path, capsys):
    from facula.functorch import compile as public

    x = leaf(3)
    picture = tmp_path / "graph.svg"
    drawn = public.aot_function(
        lambda x: x.sin().sum(), public.draw_graph_compile(picture), public.nop
    )
    assert facula.allclose(drawn(x), x.sin().sum()) and "<svg" in picture.read_text()
    public.aot_function(lambda x: x * 2, public.print_compile, public.nop)(x)
    assert "aten.mul" in capsys.readouterr().out
    fused = public.memory_efficient_fusion(lambda x: x.sin().cos().sum())
    fused(x).backward()
    expected = -x.sin().sin() * x.cos()
    assert facula.allclose(x.grad, expected)


def test_backends_take_captured_graphs():
    from facula._dynamo.backends.common import aot_autograd
    from facula.fx import symbolic_trace

    net = nn.Linear(3, 2)
    seen = []
    backend = aot_autograd(fw_compiler=lambda g, e: seen.append(g) or g)
    compiled = backend(symbolic_trace(net), [facula.randn(4, 3)])
    x = facula.randn(4, 3)
    assert facula.allclose(compiled(x), net(x)) and len(seen) == 2
    compiled(x).sum().backward()
    assert facula.allclose(net.bias.grad, facula.full((2,), 4.0))


def test_what_is_computed_again_draws_the_same_numbers():
    from facula.utils.checkpoint import checkpoint

    def program(x):
        inner = lambda y: F.dropout(y.sin(), 0.5, True) * F.dropout(y, 0.5, True)  # noqa: E731
        return checkpoint(inner, x, use_reentrant=False).sum()

    for partition in PARTITIONS:
        check(program, lambda: (leaf(30),), partition)


def test_a_tensor_with_history_may_be_written():
    def program(y):
        y.mul_(3)
        return y.sum()

    x = leaf(3)
    y = x * 2
    api.aot_function(program, api.nop)(y).backward()
    assert x.grad.tolist() == [6.0] * 3 and facula.equal(y, x * 6)
