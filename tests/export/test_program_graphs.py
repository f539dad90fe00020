"""The graphs of exported programs: what a program calls is what they show, and they do what it does."""

import copy
import warnings

import pytest

import facula
from facula import export, nn
from facula.export import leaks
from facula.fx.fake_tensor import FakeTensorMode

F = nn.functional
aten = facula.ops.aten


def calls(program):
    return [n.target for n in program.graph.nodes if n.op == "call_function"]


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 1)
        self.register_buffer("count", facula.zeros(2))

    def forward(self, x, *, scale=2.0):
        self.count.add_(1)
        y = self.conv(x).reshape(x.shape[0], -1).to(facula.float64)
        return F.softmax(y * scale, 1), F.interpolate(x, scale_factor=2.0), self.count * 2


def test_composites_and_writes_are_calls_of_their_own():
    facula.manual_seed(0)
    net, x = Mixed(), facula.randn(2, 2, 3, 3)
    program = export.export(net, (x,), {"scale": 3.0})
    found = calls(program)
    for target in (aten.add_.Tensor, aten.conv2d.default, aten.reshape.default, aten.to.dtype):
        assert target in found
    assert aten._assert_tensor_metadata.default in found
    assert not any("interpolate" in str(t) for t in found)  # PyTorch's is a function of Python
    assert float(net.count[0]) == 0
    run, plain = program.module(), copy.deepcopy(net)
    for got, wanted in zip(run(x, scale=3.0), plain(x, scale=3.0), strict=True):
        facula.testing.assert_close(got, wanted)
    assert float(run.count[0]) == 1


def test_run_decompositions_takes_writes_and_composites_out():
    net, x = Mixed(), facula.randn(2, 2, 3, 3)
    program = export.export(net, (x,), {"scale": 3.0}).run_decompositions({})
    names = [str(t) for t in calls(program)]
    assert not any(n.partition(".")[2].partition(".")[0].endswith("_") for n in names), names
    assert list(program.graph_signature.buffers_to_mutate.values()) == ["count"]
    run, plain = program.module(), copy.deepcopy(net)
    for got, wanted in zip(run(x, scale=3.0), plain(x, scale=3.0), strict=True):
        facula.testing.assert_close(got, wanted)
    assert float(run.count[0]) == 1


def test_a_written_input_that_is_given_back_is_the_input():
    class Adds(nn.Module):
        def forward(self, x):
            y = x.to("cpu")
            y.add_(1)
            return y, x

    program = export.export(Adds(), (facula.ones(2),))
    for run in (program.module(), program.run_decompositions({}).module()):
        x = facula.ones(2)
        y, again = run(x)
        assert y is x and again is x and x.tolist() == [2, 2]


def test_default_decompositions_reach_the_core_forms():
    program = export.export(nn.Linear(3, 2), (facula.ones(4, 3),)).run_decompositions()
    assert calls(program) == [aten.permute.default, aten.addmm.default]


def test_a_block_without_gradients_is_one_call():
    class Frozen(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x):
            with facula.no_grad():
                fixed = self.inner(x).relu()
            return self.inner(x) * fixed

    net, x = Frozen(), facula.randn(2, 3)
    program = export.export(net, (x,))
    assert "wrap_with_set_grad_enabled" in program.graph_module.code
    run = program.module()
    run(x).sum().backward()
    net(x).sum().backward()
    facula.testing.assert_close(run.inner.weight.grad, net.inner.weight.grad)
    assert "set_grad" not in program.run_decompositions({}).graph_module.code


def test_the_module_has_the_arguments_of_the_forward():
    run = export.export(Mixed(), (facula.randn(2, 2, 3, 3),), {"scale": 3.0}).module()
    assert run.code.lstrip().startswith("def forward(self, x, scale):")
    assert "self._guards_fn(x, scale)" in run.code
    with pytest.raises(AssertionError, match="Guard failed: scale == 3.0"):
        run(facula.randn(2, 2, 3, 3), scale=4.0)
    with pytest.raises(ValueError, match="kwarg keyword mismatch"):
        run(facula.randn(2, 2, 3, 3))


def test_guards_can_be_left_out():
    program = export.export(nn.ReLU(), (facula.ones(3),))
    assert program.module(check_guards=False)(facula.ones(5)).shape == (5,)
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(facula.ones(5))


def test_symbols_are_named_after_the_sizes_that_they_stand_for():
    shapes = {"x": {0: export.Dim("a"), 1: export.Dim("b")}, "y": {0: export.Dim("c")}}

    class Two(nn.Module):
        def forward(self, x, y):
            return x + 1, y + 1

    program = export.export(Two(), (facula.ones(4, 3), facula.ones(5)), dynamic_shapes=shapes)
    assert list(program.range_constraints) == ["s77", "s27", "s17"]  # PyTorch's names of them


def test_bounds_of_derived_sizes_are_told_in_terms_of_the_input():
    root = export.Dim("root", min=5, max=7)

    class Three(nn.Module):
        def forward(self, x, y, z):
            return x + y[1:] + z[2:]

    given = [facula.randn(n) for n in (5, 6, 7)]
    run = export.export(
        Three(), tuple(given), dynamic_shapes=({0: root - 1}, {0: root}, {0: root + 1})
    ).module()
    with pytest.raises(AssertionError, match=r"Guard failed: z.size\(\)\[0\] >= 6"):
        run(facula.randn(6), facula.randn(7), facula.randn(5))
    assert run(facula.randn(6), facula.randn(7), facula.randn(8)).shape == (6,)


def test_tensors_that_outlive_an_export_are_told():
    kept = []

    class Keeps(nn.Module):
        def forward(self, x):
            kept.append(x + 1)
            return x * 2

    leaks.SETTING.write(True)
    try:
        with pytest.warns(UserWarning, match=r"Detected 1 fake tensors(.|\n)*kept.append"):
            export.export(Keeps(), (facula.ones(2),))
        kept.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            export.export(nn.ReLU(), (facula.ones(2),))
    finally:
        leaks.SETTING.write(False)


def test_the_name_of_an_overload_does_not_depend_on_what_was_read_before():
    assert str(aten.greater.Scalar) == "aten.greater.Scalar"
    graph = facula.fx.experimental.proxy_tensor.make_fx(lambda x: x > 3)(facula.ones(2)).graph
    assert str(next(n for n in graph.nodes if n.op == "call_function").target) == "aten.gt.Scalar"


def test_a_program_may_have_an_operator_named_like_the_form_without_writes():
    with facula.library._scoped_library("graphs_export", "DEF") as library:
        library.define("bump(Tensor(a!) x, Tensor y) -> ()")

        def bump(x, y):
            x.add_(y)

        library.impl("bump", bump, "CompositeExplicitAutograd")
        library.define("bump_functional(Tensor x) -> Tensor")
        library.impl("bump_functional", lambda x: x * 5, "CompositeExplicitAutograd")

        class Bumps(nn.Module):
            def forward(self, x):
                y = x.clone()
                facula.ops.graphs_export.bump(y, x)
                return y

        run = export.export(Bumps(), (facula.ones(2),)).run_decompositions({}).module()
        assert run(facula.ones(2)).tolist() == [2, 2]


def test_a_layout_among_the_arguments_of_to():
    x = facula.ones(2)
    assert x.to(dtype=facula.float64, layout=facula.strided).dtype is facula.float64
    with pytest.raises(RuntimeError, match="doesn't support converting to a different layout"):
        x.to(layout=facula.sparse_coo)


def test_batch_norm_and_gradients_of_its_program():
    net = nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3), nn.Dropout(0.0), nn.ReLU())
    x = facula.randn(2, 2, 3, 3)
    program = export.export(net, (x,))
    assert aten.batch_norm.default in calls(program)
    run, plain = program.module(), copy.deepcopy(net)
    facula.testing.assert_close(run(x), plain(x))
    facula.testing.assert_close(dict(run.named_buffers())["1.running_mean"], plain[1].running_mean)


def test_operators_of_programs_are_decomposed_by_default():
    with facula.library._scoped_library("graphs_made", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x.sin() + x.sin(), "CompositeImplicitAutograd")
        twice = facula.ops.graphs_made.twice

        class Twice(nn.Module):
            def forward(self, x):
                return twice(x)

        program = export.export(Twice(), (facula.ones(2),))
        assert calls(program) == [twice.default]
        assert twice.default not in calls(program.run_decompositions())
        table = export.default_decompositions()
        table.pop(twice.default)
        assert calls(program.run_decompositions(table)) == [twice.default]
        with pytest.raises(KeyError, match="graphs_made.twice.default"):
            table.pop(twice.default)
        assert set(facula.ops.graphs_made) == {"twice"}


def test_hooks_of_state_dicts_do_not_rename_what_a_program_reads():
    def shorten(module, state, prefix, *rest):
        for key in list(state):
            state[key.replace("inner.", "")] = state.pop(key)

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)
            self._register_state_dict_hook(shorten)

        def forward(self, x):
            return self.inner(x)

    net, x = Outer(), facula.ones(1, 2)
    facula.testing.assert_close(export.export(net, (x,)).module()(x), net(x))


def test_compile_inside_of_an_export_is_told_to_be_ignored():
    class Compiles(nn.Module):
        def forward(self, x):
            return facula.compile(lambda y: y * 2)(x) + 1

    with pytest.warns(UserWarning, match="ignored when called inside torch.export region"):
        program = export.export(Compiles(), (facula.ones(2),))
    assert program.module()(facula.ones(2)).tolist() == [3, 3]


def test_collectives_of_tensors_without_elements_are_refused():
    # the fake engine needs neither other ranks nor a store
    facula.distributed.init_process_group("fake", rank=0, world_size=2)
    try:
        with (
            FakeTensorMode(),
            pytest.raises(NotImplementedError, match="with elements were required"),
        ):
            facula.distributed.all_gather([facula.empty(2) for _ in range(2)], facula.ones(2))
    finally:
        facula.distributed.destroy_process_group()


def test_structures_are_compared_and_keywords_ordered():
    from facula.export._tree_utils import is_equivalent, reorder_kwargs
    from facula.fx._pytree import tree_structure

    spec = tree_structure(((), {"a": 1, "b": 2}))
    assert list(reorder_kwargs({"b": 1, "a": 2}, spec)) == ["a", "b"]
    with pytest.raises(ValueError, match="kwarg keyword mismatch"):
        reorder_kwargs({"b": 1}, spec)
    same = lambda t, c, u, d: t is u and c == d  # noqa: E731
    assert is_equivalent(spec, tree_structure(((), {"a": 5, "b": 6})), same)
    assert not is_equivalent(spec, tree_structure(((), {"a": 5})), same)


def test_sizes_are_read_in_front_and_shapes_are_lists():
    class Sizes(nn.Module):
        def forward(self, x, y):
            return x.view(-1), facula.zeros(y.shape[0] + x.shape[1]), x.reshape(x.shape[0], -1)

    shapes = {"x": {0: export.Dim("a"), 1: export.Dim("b")}, "y": {0: export.Dim("c")}}
    program = export.export(Sizes(), (facula.ones(4, 3), facula.ones(5)), dynamic_shapes=shapes)
    names = [n.name for n in program.graph.nodes]
    assert names[:5] == ["x", "y", "sym_size_int_3", "sym_size_int_4", "sym_size_int_5"]
    assert program.graph.find_nodes(op="call_function", target=aten.view.default)[0].args[1] == [-1]
    flat = program.run_decompositions({}).graph.output_node().args[0][0]
    assert flat.name == "view" and type(flat.args[1]) is not tuple
    got = program.module()(facula.ones(2, 6), facula.ones(7))
    assert [tuple(t.shape) for t in got] == [(12,), (13,), (2, 6)]
