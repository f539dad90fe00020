"""`facula.export`: what a program gives is what the module gives, for all sizes that were promised."""

from __future__ import annotations

import copy
import dataclasses
import io
import json
import zipfile

import numpy as np
import pytest

import facula
from facula import export, nn
from facula.capture.errors import UserError
from facula.export import Dim
from facula.export.archive import own_bytes


class Everything(nn.Module):
    """Parameters, buffers of both kinds, a constant, writes, nested arguments and results."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.tied = nn.Linear(4, 3)
        self.tied.weight = self.linear.weight
        self.register_buffer("count", facula.zeros(()))
        self.register_buffer("hidden", facula.ones(3), persistent=False)
        self.constant = facula.full((3,), 2.0)

    def forward(self, x, *, extra, scale=2.0):  # type: ignore[no-untyped-def]
        self.count.add_(1)
        y = self.linear(x) * self.hidden + self.tied(x) + self.constant
        return {"y": y * scale, "more": (extra["a"] + self.count, 7, None)}


def exported(**options):  # type: ignore[no-untyped-def]
    module = Everything()
    x, a = facula.randn(5, 4), facula.ones(3)
    return module, export.export(module, (x,), {"extra": {"a": a}}, **options)


def test_program_computes_what_the_module_does_and_writes_its_buffers():
    module, program = exported()
    run = copy.deepcopy(program).module()
    x, extra = facula.randn(5, 4), {"a": facula.rand(3)}
    expected, found = module(x, extra=extra), run(x, extra=extra)
    assert facula.equal(found["y"], expected["y"]) and found["more"][1:] == (7, None)
    assert facula.equal(found["more"][0], expected["more"][0])
    assert float(run.count) == 1
    found["y"].sum().backward()
    assert run.linear.weight.grad is not None


def test_export_leaves_the_module_alone():
    module, program = exported()
    assert float(module.count) == 0 and module.linear.weight.grad is None
    assert program.state_dict["linear.weight"] is module.linear.weight


def test_signature_describes_inputs_and_outputs():
    _, program = exported()
    s = program.graph_signature
    assert s.parameters == ("linear.weight", "linear.bias", "tied.bias")
    assert s.buffers == ("count", "hidden") and s.non_persistent_buffers == ("hidden",)
    assert s.lifted_tensor_constants == ("constant",)
    assert s.user_inputs == ("x", "extra_a") and s.user_outputs[1:] != ()
    assert not s.buffers_to_mutate and "add_" in [n.name for n in program.graph.nodes]
    functional = program.run_decompositions({})
    assert list(functional.graph_signature.buffers_to_mutate.values()) == ["count"]
    assert set(program.constants) == {"hidden", "constant"} and "hidden" not in program.state_dict
    program.validate()


@pytest.mark.parametrize("strict", [False, True])
def test_dynamic_batch(strict: bool):
    net = nn.Sequential(
        nn.Linear(6, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3), nn.Softmax(-1)
    )
    batch = Dim("batch", min=2, max=32)
    program = export.export(net, (facula.randn(4, 6),), dynamic_shapes=({0: batch},), strict=strict)
    assert [str(r) for r in program.range_constraints.values()] == ["VR[2, 32]"]
    for one in (program, program.run_decompositions()):
        for n in (2, 7, 32):
            x = facula.randn(n, 6)
            assert facula.allclose(one.module()(x), net(x), atol=1e-6)
        with pytest.raises(AssertionError, match=r"Guard failed: input.size\(\)\[0\] <= 32"):
            one.module()(facula.randn(33, 6))


def test_derived_and_shared_sizes():
    class Pairs(nn.Module):
        def forward(self, x, y):  # type: ignore[no-untyped-def]
            return x[::2] + y

    n = Dim("n", min=2, max=50)
    shapes = {"x": {0: 2 * n}, "y": {0: n}}
    program = export.export(Pairs(), (facula.randn(6), facula.randn(3)), dynamic_shapes=shapes)
    x, y = facula.randn(20), facula.randn(10)
    assert facula.equal(program.module()(x, y), x[::2] + y)
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(facula.randn(20), facula.randn(9))


def test_sizes_are_results_too():
    class Sizes(nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            return x.reshape(-1), x.shape[0] * 2, facula.arange(x.shape[0])

    program = export.export(Sizes(), (facula.ones(3, 2),), dynamic_shapes=({0: Dim.DYNAMIC},))
    buffer = io.BytesIO()
    export.save(program, buffer)
    buffer.seek(0)
    for one in (program, export.load(buffer), program.run_decompositions()):
        flat, double, numbers = one.module()(facula.ones(5, 2))
        assert flat.shape == (10,) and double == 10 and numbers.tolist() == [0, 1, 2, 3, 4]


def test_a_size_is_bounded_by_the_table_that_it_cuts():
    class Places(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(facula.randn(12, 3))

        def forward(self, x):  # type: ignore[no-untyped-def]
            return x + self.table[: x.shape[0]]

    net = Places()
    with pytest.raises(UserError, match=r"n = Dim\('n', max=12\)"):
        export.export(net, (facula.randn(5, 3),), dynamic_shapes=({0: Dim("n")},))
    program = export.export(net, (facula.randn(5, 3),), dynamic_shapes=({0: Dim("n", max=12)},))
    x = facula.randn(12, 3)
    assert facula.equal(program.module()(x), net(x))


def test_transformer_with_two_dynamic_sizes():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    net = nn.TransformerEncoder(layer, 2).eval()
    shapes = {"src": {0: Dim("batch"), 1: Dim("length")}}
    program = export.export(net, (facula.randn(3, 7, 8),), dynamic_shapes=shapes)
    x = facula.randn(5, 4, 8)
    assert facula.allclose(program.module()(x), net(x), atol=1e-5)


class Fixed(nn.Module):
    def forward(self, x, y):  # type: ignore[no-untyped-def]
        if x.shape[0] > 5:
            return x + 1
        return x + y


def test_ranges_that_do_not_hold_are_refused_with_a_suggestion():
    inputs = (facula.randn(8), facula.randn(8))
    with pytest.raises(UserError, match=r"Constraints violated \(n\)(.|\n)*n = Dim\('n', min=6\)"):
        export.export(Fixed(), inputs, dynamic_shapes=({0: Dim("n")}, None))
    program = export.export(Fixed(), inputs, dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}))
    assert program.range_constraints["s77"].lower == 6
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(facula.randn(3), facula.randn(3))
    small = (facula.randn(3), facula.randn(3))
    two = ({0: Dim("a", max=5)}, {0: Dim("b", max=5)})
    with pytest.raises(UserError, match="must always be equal"):
        export.export(Fixed(), small, dynamic_shapes=two)


@pytest.mark.parametrize(
    "shapes", [{"z": None, "y": None}, ({0: Dim("n")},), {"x": {3: Dim("n")}, "y": None}]
)
def test_shapes_of_another_structure_are_refused(shapes):  # type: ignore[no-untyped-def]
    with pytest.raises(UserError):
        export.export(Fixed(), (facula.randn(8), facula.randn(8)), dynamic_shapes=shapes)


def test_all_that_is_wrong_with_shapes_is_said_at_once():
    class Product(nn.Module):
        def forward(self, x, y):  # type: ignore[no-untyped-def]
            if x.shape[0] < 16 and y.shape[1] % 3 == 0:
                return facula.matmul(x, y)
            return x + y

    inputs = (facula.randn(10, 2, 3), facula.randn(10, 3, 4))
    batch, m, k, n = export.dims("batch", "m", "k", "n")
    with pytest.raises(UserError, match="Not all values of batch(.|\n)*Suggested fixes") as caught:
        export.export(Product(), inputs, dynamic_shapes={"x": (batch, m, k), "y": (batch, k, n)})
    text = str(caught.value)
    assert "Not all values of k = L['x'].size()[2]" in text and "k = 3*_k" in text
    assert "batch = Dim('batch', max=15)" in text
    with pytest.raises(UserError, match=r"related to the values of a(.|\n)*b = a \+ 1"):
        export.export(
            Shifted(), (facula.randn(5), facula.randn(6)),
            dynamic_shapes=({0: Dim("a")}, {0: Dim("b")}),
        )  # fmt: skip


class Shifted(nn.Module):
    def forward(self, x, y):  # type: ignore[no-untyped-def]
        return x + y[1:]


def test_relations_of_sizes_are_checked_in_the_words_of_the_inputs():
    class Flat(nn.Module):
        def forward(self, x, more):  # type: ignore[no-untyped-def]
            return x.flatten() + more["y"][0]

    shapes = {"x": (Dim("a"), Dim("b")), "more": {"y": [(Dim("c"),)]}}
    program = export.export(
        Flat(), (facula.randn(4, 3), {"y": [facula.randn(12)]}), dynamic_shapes=shapes
    )
    x, y = facula.randn(7, 5), facula.randn(35)
    assert facula.equal(program.module()(x, {"y": [y]}), x.flatten() + y)
    with pytest.raises(AssertionError, match=r"more\['y'\]\[0\].size\(\)\[0\]"):
        program.module()(x, {"y": [y[1:]]})
    bounded = ({0: Dim.AUTO(min=3, max=8)}, {0: Dim.AUTO})
    run = export.export(Shifted(), (facula.randn(5), facula.randn(6)), dynamic_shapes=bounded)
    with pytest.raises(AssertionError, match=r"Guard failed: x.size\(\)\[0\] <= 8"):
        run.module()(facula.randn(9), facula.randn(10))


def test_hints_that_leave_no_size_are_refused():
    x = facula.randn(0, 1)
    with pytest.raises(ValueError, match="specialized due to hint of 0(.|\n)*due to hint of 1"):
        export.export(nn.ReLU(), (x,), dynamic_shapes=({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},))
    with pytest.raises(ValueError, match=r"\[6, 8\], conflicting with the inferred .*\[4, 4\]"):
        export.export(
            nn.ReLU(), (facula.randn(4),), dynamic_shapes=({0: Dim.STATIC(min=6, max=8)},)
        )
    with pytest.raises(ValueError, match=r"\[None, 5\], conflicting with"):
        export.export(
            Fixed(),
            (facula.randn(8), facula.randn(8)),
            dynamic_shapes=({0: Dim.DYNAMIC(max=5)}, None),
        )


def test_a_named_size_may_be_one_in_the_example():
    net = nn.Linear(3, 2)
    program = export.export(net, (facula.randn(1, 3),), dynamic_shapes=({0: Dim("batch", max=4)},))
    for count in (1, 2, 4):
        x = facula.randn(count, 3)
        assert facula.allclose(program.module()(x), net(x))


def test_shapes_collection():
    x, y = facula.randn(4), facula.randn(4)
    shapes = export.ShapesCollection()
    n = Dim("n", max=5)
    shapes[x], shapes[y] = {0: n}, {0: n}
    program = export.export(Fixed(), (x, y), dynamic_shapes=shapes)
    assert facula.equal(program.module()(x[:3], y[:3]), x[:3] + y[:3])


def test_inputs_that_do_not_fit_are_refused():
    run = exported()[1].module()
    good = {"extra": {"a": facula.ones(3)}}
    for args, kwargs, error in (
        ((facula.randn(5, 5),), good, AssertionError),
        ((facula.randn(5, 4).double(),), good, AssertionError),
        ((facula.randn(20),), good, AssertionError),
        ((facula.randn(5, 4),), {}, ValueError),
        ((facula.randn(5, 4),), {"extra": {"b": facula.ones(3)}}, ValueError),
    ):
        with pytest.raises(error):
            run(*args, **kwargs)


def test_input_writes_reach_the_input():
    class Writes(nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            x.mul_(2)
            return x + 1

    written = export.export(Writes(), (facula.ones(3),))
    program = written.run_decompositions({})
    for run in (written.module(), program.module()):
        x = facula.ones(3)
        assert run(x).tolist() == [3, 3, 3] and x.tolist() == [2, 2, 2]
    assert written.graph_signature.user_inputs_to_mutate == {}
    assert list(program.graph_signature.user_inputs_to_mutate.values()) == ["x"]


def test_decompositions_keep_numbers_and_state():
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Hardswish(), nn.Flatten()
    ).double()
    x = facula.randn(2, 2, 6, 6, dtype=facula.float64)
    program = export.export(net, (x,))
    core = program.run_decompositions()
    names = {str(n.target) for n in core.graph.nodes if n.op == "call_function"}
    assert not any("hardswish" in n for n in names)
    first = core.module()
    before = net[1].running_mean.clone()
    got = first(x)
    assert not facula.equal(first.get_buffer("1.running_mean"), before)
    net[1].running_mean.copy_(before)
    assert facula.allclose(got, net(x))


def test_control_flow_on_values_is_an_error():
    class Branch(nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            return x if x.sum() > 0 else -x

    with pytest.raises(RuntimeError, match="Could not guard on data-dependent expression"):
        export.export(Branch(), (facula.ones(2),))
    with pytest.raises(RuntimeError):
        export.export(Branch(), (facula.ones(2),), strict=True)


def test_other_arguments_are_errors():
    with pytest.raises(ValueError, match="Module"):
        export.export(lambda x: x, (facula.ones(2),))
    with pytest.raises(UserError, match="tuple"):
        export.export(nn.ReLU(), [facula.ones(2)])
    program = exported()[1]
    with pytest.raises(RuntimeError, match="Unable to call ExportedProgram directly"):
        program(facula.ones(5, 4))
    with pytest.raises(NotImplementedError):
        program.module().train()


@dataclasses.dataclass
class Pair:
    first: facula.Tensor
    second: facula.Tensor


export.register_dataclass(Pair)


def test_files_give_the_program_back(tmp_path):  # type: ignore[no-untyped-def]
    class Swap(nn.Module):
        def forward(self, p):  # type: ignore[no-untyped-def]
            return Pair(p.second * 2, p.first.to(facula.float64))

    batch = Dim("batch", min=2, max=9)
    pair = Pair(facula.ones(3, 2), facula.ones(3, 2))
    program = export.export(Swap(), (pair,), dynamic_shapes=None)
    everything = exported(dynamic_shapes={"x": {0: batch}, "extra": {"a": None}})[1]
    export.save(program, tmp_path / "swap.pt2")
    export.save(everything, tmp_path / "all.pt2", extra_files={"note": "hello"})
    back = export.load(tmp_path / "swap.pt2").module()(pair)
    assert isinstance(back, Pair) and back.second.dtype is facula.float64
    notes = {"note": ""}
    loaded = export.load(tmp_path / "all.pt2", extra_files=notes)
    assert notes == {"note": "hello"} and str(loaded) == str(everything)
    x, extra = facula.randn(7, 4), {"a": facula.ones(3)}
    expected = everything.module()(x, extra=extra)
    everything.state_dict["count"].zero_()
    assert facula.equal(loaded.module()(x, extra=extra)["y"], expected["y"])
    assert isinstance(loaded.state_dict["linear.weight"], nn.Parameter)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["all.pt2", "swap.pt2"]
    assert facula.allclose(
        loaded.run_decompositions().module()(x, extra=extra)["y"], expected["y"], atol=1e-6
    )


def test_files_can_name_operators_only():
    made = own_bytes(export.export(nn.ReLU(), (facula.ones(2),)))
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        described, tensors = json.loads(archive.read("program.json")), archive.read("tensors.pt")
    for change, match in (
        ({"version": 99}, "version"),
        (
            {
                "nodes": [
                    {**n, "target": "os.system"} if n["op"] == "call_function" else n
                    for n in described["nodes"]
                ]
            },
            "operator",
        ),
    ):
        changed = io.BytesIO()
        with zipfile.ZipFile(changed, "w") as archive:
            archive.writestr("program.json", json.dumps({**described, **change}))
            archive.writestr("tensors.pt", tensors)
        with pytest.raises(RuntimeError, match=match):
            export.load(changed)
    with pytest.raises(RuntimeError, match="export.save"):
        export.load(io.BytesIO(b"nothing"))


def test_tensors_that_a_module_inside_holds_are_inputs():
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = facula.tensor([2.0, 3.0])

        def forward(self, x):
            return x * self.weight

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return self.inner(x) + 1

    program = export.export(Outer(), (facula.ones(2),))
    assert list(program.constants) == ["inner.weight"]
    assert program.module()(facula.tensor([1.0, -1.0])).tolist() == [3, -2]


def test_control_flow_is_kept_in_programs_and_files(tmp_path):
    from facula._higher_order_ops import map as map_rows
    from facula._higher_order_ops import scan, while_loop

    class Module(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("step", facula.tensor([1.0, 2.0]))

        def forward(self, x):
            y = facula.cond(x.shape[0] > 3, lambda x: x + self.step, lambda x: x - self.step, (x,))
            z = facula.cond(x.sum() > 0, lambda x: x * 2, lambda x: x * 3, (x,))
            _, w = while_loop(
                lambda i, v: i < 3, lambda i, v: (i + 1, v + self.step), (facula.tensor(0), x)
            )
            carry, rows = scan(lambda c, x: (c + x, c * x), self.step * 0, x)
            return y, z, w, carry, rows, map_rows(lambda x, s: x * s, x, self.step)

    program = export.export(
        Module(), (facula.ones(4, 2),), dynamic_shapes=({0: export.Dim("n", min=2)},)
    )
    export.save(program, tmp_path / "program.pt2")
    forms = [program, export.load(tmp_path / "program.pt2"), program.run_decompositions()]
    generator = np.random.default_rng(0)
    step = np.array([1.0, 2.0], dtype=np.float32)
    for form in forms:
        module = form.module()
        for rows, sign in ((2, 1), (3, -1), (4, 1), (7, -1)):
            a = sign * generator.random((rows, 2), dtype=np.float32)
            before = np.cumsum(a, 0) - a
            wanted = (
                a + step if rows > 3 else a - step, a * (2 if sign > 0 else 3), a + 3 * step,
                a.sum(0), before * a, a * step,
            )  # fmt: skip
            for found, exact in zip(module(facula.from_numpy(a)), wanted, strict=True):
                assert np.allclose(found.numpy(), exact, atol=1e-5)


def test_numbers_of_cond_are_places_of_views():
    class Module(nn.Module):
        def forward(self, x):
            return x[facula.cond(x.sum() > 3, lambda: 0, lambda: 1, ())]

    module = export.export(Module(), (facula.ones(3, 2),)).module()
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert np.array_equal(module(facula.from_numpy(x)).numpy(), x[0])
    assert np.array_equal(module(facula.from_numpy(-x)).numpy(), -x[1])


def test_inputs_without_elements():
    from facula.fx.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        inputs = (facula.empty(2, 3),)
    layer = nn.Linear(3, 4)
    x = facula.from_numpy(np.ones((2, 3), dtype=np.float32))
    wanted = layer.weight.detach().numpy().sum(1) + layer.bias.detach().numpy()
    found = export.export(layer, inputs).module()(x)
    assert np.allclose(found.detach().numpy(), np.stack([wanted] * 2), atol=1e-6)


def test_a_size_that_inputs_hold_only_doubled_is_computed_from_them():
    class Halves(nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            return x[: x.shape[0] // 2] + 1

    shapes = ({0: 2 * Dim("half", max=100)},)
    program = export.export(Halves(), (facula.ones(10),), dynamic_shapes=shapes)
    for one in (program, program.run_decompositions()):
        assert one.module()(facula.ones(6)).tolist() == [2, 2, 2]
    with pytest.raises(AssertionError, match=r"Guard failed: x.size\(\)\[0\] % 2 == 0"):
        program.module()(facula.ones(7))


def test_a_module_with_a_layer_under_two_names_stays_as_it_is():
    layer = nn.Linear(3, 3)
    net = nn.Sequential(layer, nn.ReLU(), layer)
    expected = {name: value.clone() for name, value in net.state_dict().items()}
    program = export.export(net, (facula.ones(2, 3),))
    for name, value in net.state_dict().items():
        assert type(value) is facula.Tensor and facula.equal(value, expected[name])
    x = facula.randn(4, 3)
    with pytest.raises(AssertionError):
        program.module()(x)
    assert facula.allclose(program.module()(x[:2]), net(x[:2]))


def test_a_forward_that_writes_to_a_constant_is_refused():
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count = facula.zeros(2)

        def forward(self, x):  # type: ignore[no-untyped-def]
            self.count.add_(1)
            return x + self.count

    module = Counts()
    with pytest.raises(RuntimeError, match="Constant count is mutated"):
        export.export(module, (facula.ones(2),))
    assert module.count.tolist() == [0, 0]


def test_tensors_that_a_forward_keeps_are_told_and_do_not_stay():
    class Keeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[facula.Tensor] = [facula.zeros(1)]
            self.last = None
            self.calls = 0

        def forward(self, x):  # type: ignore[no-untyped-def]
            self.calls += 1
            self.last = x.sum()
            self.new = x * 2
            self.seen.append(x + 1)
            return x + 2

    module = nn.Sequential(Keeps())
    with pytest.warns(UserWarning, match="The tensor attributes self.0.seen, self.0.last"):
        program = export.export(module, (facula.ones(2),))
    assert module[0].last is None and len(module[0].seen) == 1 and not hasattr(module[0], "new")
    assert program.module()(facula.ones(2)).tolist() == [3, 3]
