"""Overloads that programs define, what registrations refuse, and `opcheck` of whole programs."""

from __future__ import annotations

import itertools

import pytest

import facula
from facula import library
from facula.fx.experimental.proxy_tensor import make_fx


def test_functions_may_come_before_the_definition():
    """Packages import the functions of single devices first, and define the operators after them."""

    @library.impl("overs_early::f", "CPU")
    def plus_one(x):
        return x + 1

    assert not hasattr(facula.ops.overs_early, "f")
    library.define("overs_early::f", "(Tensor x) -> Tensor")
    assert facula.ops.overs_early.f(facula.ones(2)).tolist() == [2.0, 2.0]
    with library._scoped_library("overs_early", "FRAGMENT") as lib:
        lib.impl("g", lambda x: -x, "CPU")
        lib.define("g(Tensor x) -> Tensor")
        assert facula.ops.overs_early.g(facula.ones(1)).tolist() == [-1.0]


def test_methods_of_layouts_have_overloads():
    """Subclasses of tensors say by these keys what they do with the methods."""
    x = facula.eye(3).to_sparse()
    aten = facula.ops.aten
    assert aten._values.default(x).tolist() == [1.0] * 3 and aten.crow_indices.default is not None
    assert str(aten.values.default) == "aten.values.default"
    assert not hasattr(aten, "no_such_method")


def test_overloads_are_operators_of_their_own():
    with library._scoped_library("overs", "FRAGMENT") as lib:
        lib.define("f(Tensor x) -> Tensor")
        lib.define("f.scaled(Tensor x, float by) -> Tensor")
        lib.define("g.only(Tensor x) -> Tensor")
        lib.impl("f", lambda x: x + 1, "CPU")
        lib.impl("f.scaled", lambda x, by: x * by, "CPU")
        library.register_fake("overs::f.scaled", lambda x, by: x.new_empty(x.shape), lib=lib)
        lib.impl("g.only", lambda x: -x, "CPU")
        ops, x = facula.ops.overs, facula.ones(2)
        assert ops.f(x).tolist() == [2.0, 2.0] and ops.f(x, 3.0).tolist() == [3.0, 3.0]
        assert ops.f.scaled(x, 4.0).tolist() == [4.0, 4.0]
        assert ops.f.default(x).tolist() == [2.0, 2.0]
        assert ops.f.scaled(x.to("meta"), 2.0).shape == (2,)
        assert ops.f.overloads() == ["default", "scaled"] and ops.g.overloads() == ["only"]
        assert ops.g(x).tolist() == ops.g.only(x).tolist() == [-1.0, -1.0]
        assert (
            ops.f.scaled._defined_in_python and not facula.ops.aten.sin.default._defined_in_python
        )
        assert ops.f.scaled.name() == "overs::f.scaled"
        with pytest.raises(TypeError):
            ops.f(x, 1.0, 2.0)
    assert not hasattr(facula.ops.overs, "f")


def test_words_that_are_no_types_are_named():
    for schema, word in (
        ("a(Tensor x) -> blob", "blob"),
        ("b(blob x) -> Tensor", "blob"),
        ("c(int64_t n) -> Tensor", "Use `SymInt` or `int`"),
        ("d(double n) -> Tensor", "Use `float`"),
    ):
        with library._scoped_library("typed", "FRAGMENT") as lib:
            with pytest.raises(RuntimeError, match=word):
                lib.define(schema)


def test_tensors_by_keyword_alone_have_no_gradient_and_no_batches():
    with pytest.raises(NotImplementedError, match="kwarg-only Tensor args"):

        @library.custom_op("kept::f", mutates_args=())
        def f(x: facula.Tensor, *, y: facula.Tensor) -> facula.Tensor:
            return x + y

    with library._scoped_library("kept", "FRAGMENT") as lib:
        lib.define("g(Tensor x, *, Tensor y) -> Tensor")
        for register in (library.register_autograd, library.register_vmap):
            with pytest.raises(NotImplementedError, match="kwarg-only Tensor args"):
                register("kept::g", lambda *a: a)


def test_registrations_that_would_have_no_effect_are_refused():
    with library._scoped_library("refusing", "FRAGMENT") as lib:
        lib.define("whole(Tensor x) -> Tensor")
        lib.impl("whole", lambda x: x.sin(), "CompositeImplicitAutograd")
        with pytest.raises(RuntimeError, match="CompositeImplicitAutograd"):
            library.register_fake("refusing::whole", lambda x: x, lib=lib)
        lib.define("seen(Tensor(a) x) -> Tensor(a)")
        with pytest.raises(RuntimeError, match="operator that returns views"):
            library.register_autograd("refusing::seen", lambda ctx, g: g)
        lib.define("twice(Tensor x) -> Tensor")
        library.register_fake("refusing::twice", lambda x: x.clone(), lib=lib)
        with pytest.raises(RuntimeError, match=r"test_overloads_and_checks\.py:\d+"):
            library.register_fake("refusing::twice", lambda x: x.clone(), lib=lib)
        lib.define("made(int n) -> Tensor")
        with pytest.raises(NotImplementedError, match="no Tensor inputs"):
            facula.ops.refusing.made(3)


def test_one_function_for_every_device_serves_tensors_without_data():
    with library._scoped_library("everywhere", "FRAGMENT") as lib:
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", lambda x: facula.cat([x, x]), "CompositeExplicitAutograd")
        assert facula.ops.everywhere.f(facula.ones(3, device="meta")).shape == (6,)
        library.register_fake(
            "everywhere::f", lambda x: x.new_empty(7), lib=lib, allow_override=True
        )
        assert facula.ops.everywhere.f(facula.ones(3, device="meta")).shape == (7,)


def test_schemas_of_annotations_say_what_would_be_supported():
    def pair(x: facula.Tensor, sizes: tuple[int, int]) -> facula.Tensor:
        return x

    def named(x: facula.Tensor, mode: str = "mean") -> facula.Tensor:
        return x

    with pytest.raises(ValueError, match=r"unsupported type.*\n.*For example, list\[int\]"):
        library.infer_schema(pair, mutates_args=())
    assert library.infer_schema(named, mutates_args=()) == '(Tensor x, str mode="mean") -> Tensor'


def test_sizes_that_depend_on_data_in_traces_with_fixed_sizes():
    @library.custom_op("counted::positive", mutates_args=())
    def positive(x: facula.Tensor) -> facula.Tensor:
        return x[x > 0].clone()

    @positive.register_fake
    def _(x):
        for wrong in ({"min": -1}, {"min": -2, "max": 3}):
            with pytest.raises(ValueError, match="greater than or equal to 0"):
                library.get_ctx().new_dynamic_size(**wrong)
        return x.new_empty(library.get_ctx().new_dynamic_size())

    graph = make_fx(positive, tracing_mode="fake")(facula.tensor([1.0, -1.0, 2.0]))
    assert graph(facula.tensor([1.0, -1.0, -2.0, 3.0])).tolist() == [1.0, 3.0]


def test_opcheck_traces_programs_and_takes_operators_of_facula():
    x = facula.rand(3, requires_grad=True)
    assert set(library.opcheck(facula.ops.aten.sin.default, (x,)).values()) == {"SUCCESS"}
    assert set(library.opcheck(facula.ops.aten.relu_.default, (x.detach(),)).values()) == {
        "SUCCESS"
    }
    calls = itertools.count(1)
    with library._scoped_library("unsteady", "FRAGMENT") as lib:
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", lambda x: x * next(calls), "CompositeImplicitAutograd")
        f = facula.ops.unsteady.f.default
        with pytest.raises(library.check.OpCheckError, match="Absolute difference"):
            library.opcheck(f, (x,), test_utils="test_aot_dispatch_dynamic")
        library.opcheck(f, (x,), test_utils="test_aot_dispatch_dynamic", rtol=100.0, atol=100.0)
    with pytest.raises(ValueError, match="tests among"):
        library.opcheck(facula.ops.aten.sin.default, (x,), test_utils="unknown")


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_numbers_under_vmap_are_those_of_every_entry():
    """A result that is no tensor cannot be one for each entry: the first one's was taken for all."""
    library = facula.library.Library("numbers_of_entries", "DEF")
    library.define("count(Tensor x) -> int")
    library.impl("count", lambda x: x.numel(), "CPU")
    library.define("positive(Tensor x) -> int")
    library.impl("positive", lambda x: int((x > 0).sum()), "CPU")
    operators = facula.ops.numbers_of_entries
    for batch in (1, 3):
        scaled = facula.vmap(lambda x: x * operators.count(x))(facula.ones(batch, 4))
        assert scaled.tolist() == [[4.0] * 4] * batch
    x = facula.tensor([[1.0, 1.0], [1.0, 2.0]])
    assert facula.vmap(lambda x: x * operators.positive(x))(x).tolist() == [[2.0, 2.0], [2.0, 4.0]]
    x = facula.tensor([[1.0, 1.0], [1.0, -2.0]])
    with pytest.raises(RuntimeError, match=r"one number for all entries .* got \[2, 1\]"):
        facula.vmap(lambda x: x * operators.positive(x))(x)


def test_checks_take_packets_and_refuse_plain_functions():
    @facula.library.custom_op("checks_of::doubled", mutates_args=())
    def doubled(x: facula.Tensor) -> facula.Tensor:
        return x * 2

    doubled.register_fake(facula.empty_like)
    packet = facula.ops.checks_of.doubled
    found = facula.library.opcheck(packet, (facula.ones(2),), test_utils="test_schema")
    assert found == {"test_schema": "SUCCESS"}
    with pytest.raises(ValueError, match="OpOverload"):
        facula.library.opcheck(facula.sin, (facula.ones(2),))
    with pytest.raises(ValueError, match="test_utils to be subset of"):
        facula.library.opcheck(packet, (facula.ones(2),), test_utils="blah")


def test_the_strictest_tag_about_strides_counts():
    from facula.ops.table.tags import Tag
    from facula.torch_api._library.utils import get_layout_constraint_tag

    for number, (tags, expected) in enumerate(
        (
            ({Tag.flexible_layout}, Tag.flexible_layout),
            ({Tag.flexible_layout, Tag.needs_fixed_stride_order}, Tag.needs_fixed_stride_order),
            (set(), Tag.needs_exact_strides),
        )
    ):
        with facula.library._scoped_library("layouts_of", "FRAGMENT") as library:
            library.define(f"f{number}(Tensor x) -> Tensor", tags=tags)
            operator = getattr(facula.ops.layouts_of, f"f{number}").default
            assert get_layout_constraint_tag(operator) is expected


def test_a_library_says_what_a_class_does_with_its_operators():
    from facula.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with facula.library._scoped_library("rules_of", "FRAGMENT") as library:
        library.define("f(Tensor x) -> Tensor")
        library.impl("f", lambda x: x + 1, "CPU")
        library._register_torch_dispatch_rule("f", Mode, lambda mode, func, types, a, k: a[0] * 10)
        with Mode():
            assert facula.ops.rules_of.f(facula.ones(1)).item() == 10
        assert facula.ops.rules_of.f(facula.ones(1)).item() == 2


def test_results_that_share_memory_are_known():
    from facula.torch_api._C import _any_output_is_alias_to_input_or_output as aliases

    x = facula.ones(2, 2)
    assert aliases((x,), {}, (x.t(),)) and aliases((), {"a": x.view(-1)}, (x,))
    assert not aliases((x,), None, (x * 2,)) and not aliases((x,), {"a": x}, ())
    y = x * 2
    assert aliases((), {}, (y, y[1:]))


@pytest.mark.parametrize("name", ["cos", "t_", "convolution", "native_group_norm", "nonzero"])
def test_overloads_are_found_inside_of_compiled_programs(name):
    found = facula.compile(
        lambda x: (getattr(facula.ops.aten, name).default, x + 1), backend="eager", fullgraph=True
    )(facula.ones(2))
    assert found[0] == getattr(facula.ops.aten, name).default
