"""Decompositions give what the operators give, down to the core.

Takes the samples of the operator table.
Keeps true: shape and dtype are those of the operator, 16-bit floats included; core operators are made
of nothing else.
"""

import pytest

import facula
from facula import _decomp, _prims, _refs
from facula.fx import _pytree as pytree
from facula.fx.experimental.proxy_tensor import make_fx
from facula.lower import decompositions
from facula.lower.decompositions.rules import rule_of
from facula.lower.table import operator_of
from facula.ops import TABLE
from facula.ops.table.registry import own_operators
from facula.testing.samples import Samples, pointwise_samples

DECOMPOSED = [
    name
    for name, op in own_operators().items()
    if rule_of(op) is not None
    and (op.definition.kind == "pointwise" or op.definition.samples is not None)
]
KINDS = {"float": facula.float64, "int": facula.int64, "half": facula.bfloat16}
TOLERANCE = {"float": 1e-6, "int": 1e-6, "half": 2e-2}


def calls(name, S):
    definition = TABLE[name].definition
    if definition.kind == "pointwise":
        return list(pointwise_samples(definition, S))
    return list(definition.samples(S))


def admits(name, kind):
    definition = TABLE[name].definition
    if definition.kind != "pointwise":
        return kind == "float"
    return ("float" if kind == "half" else kind) in definition.dtypes.split()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", DECOMPOSED)
def test_decompositions_equal_operators(name, kind):
    if not admits(name, kind):
        return
    for args, kwargs in calls(name, Samples(KINDS[kind])):
        expected = pytree.tree_leaves(TABLE[name](*args, **kwargs))
        found = pytree.tree_leaves(rule_of(TABLE[name])(*args, **kwargs))
        for a, b in zip(found, expected, strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype
            tolerance = TOLERANCE[kind]
            assert facula.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)


def names_in(module):
    return {operator_of(n.target).name for n in module.graph.nodes if operator_of(n.target)}


def test_elementwise_programs_come_down_to_primitives():
    F = facula.nn.functional

    def program(x):
        return F.silu(x) + F.gelu(x) + F.hardswish(x) + F.mish(x) + facula.lerp(x, x * 2, 0.3)

    x = facula.randn(6, 6)
    table = _decomp.core_aten_decompositions()
    module = make_fx(program, decomposition_table=table)(x)
    assert names_in(module) <= decompositions.core_operators()
    assert facula.allclose(module(x), program(x), atol=1e-6)
    assert not list(module.buffers())


def test_core_operators_have_no_decomposition_in_the_core_table():
    keys = {operator_of(key).name for key in _decomp.core_aten_decompositions()}
    assert not keys & decompositions.core_operators()


def test_tables_by_operators_take_any_overload():
    found = _decomp.get_decompositions([facula.ops.aten.silu, facula.ops.aten.sin.default])
    assert list(found) == [facula.ops.aten.silu.default]


def test_an_own_decomposition_replaces_the_derived_one():
    registry = {}

    @_decomp.register_decomposition(facula.ops.aten.tanh.default, registry)
    def tanh(x):
        return 1 - 2 / ((2 * x).exp() + 1)

    x = facula.randn(5, dtype=facula.float64)
    module = make_fx(lambda x: x.tanh(), decomposition_table=registry)(x)
    assert "tanh" not in names_in(module)
    assert facula.allclose(module(x), x.tanh())


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_references_run_row_programs_by_operators(name):
    x = facula.randn(4, 5)
    module = make_fx(lambda x: getattr(_refs, name)(x, 1))(x)
    assert name not in names_in(module) and "exp" in names_in(module)
    assert facula.allclose(module(x), getattr(facula, name)(x, 1), atol=1e-6)


def test_references_serve_tensors_without_elements():
    out = _refs.nn.functional.gelu(facula.empty(3, 4, device="meta"))
    assert out.is_meta and out.shape == (3, 4)


def test_primitives_are_few_and_named():
    assert 80 < len(_prims.__all__) < 300
    x = facula.arange(6).reshape(2, 3)
    assert _prims.broadcast_in_dim(x, (4, 2, 3), (1, 2)).shape == (4, 2, 3)
    assert _prims.convert_element_type(x, facula.float64).dtype == facula.float64
    assert _prims.sum(x, (0,)).tolist() == [3, 5, 7]
    assert _prims.split_dim(x, 1, 3).shape == (2, 3, 1)
    assert _prims.iota(3, start=2, step=2).tolist() == [2, 4, 6]
    assert _prims.iota(5, start=1, step=3).tolist() == [1, 4, 7, 10, 13]
    assert _prims.iota(4, start=7, step=-3).tolist() == [7, 4, 1, -2]
    assert _prims.iota(0, step=2).tolist() == []
