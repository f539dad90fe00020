"""Every operator's samples, as flat graphs: equal to eager, gradients too.

Takes the samples of the operator table.
Keeps true: an operator that eager execution differentiates is differentiated in a joint graph; graphs
pass the verifier.
"""

import inspect

import pytest

import facula
from facula.compiler import options
from facula.compiler.pipeline import optimise
from facula.fx import _pytree as pytree
from facula.fx.fake_tensor import DynamicOutputShapeException
from facula.lower.aot import api
from facula.lower.verify import verify
from facula.ops import TABLE
from facula.ops.table.registry import own_operators
from facula.testing.samples import Samples, pointwise_samples

NAMES = [
    name
    for name, op in own_operators().items()
    if op.definition.kind == "pointwise" or op.definition.samples is not None
]


def calls(name, S):
    definition = TABLE[name].definition
    if definition.kind == "pointwise":
        return list(pointwise_samples(definition, S))[:2]
    return list(definition.samples(S))[:3]


def dtype_of(name):
    admitted = getattr(TABLE[name].definition, "dtypes", "float").split()
    return facula.float64 if "float" in admitted else facula.int64


def copies(flat, tracked):
    made = []
    for x in flat:
        if isinstance(x, facula.Tensor):
            x = x.detach().clone()
            x = x.requires_grad_(tracked and x.is_floating_point())
        made.append(x)
    return made


def floating(results):
    leaves = pytree.tree_leaves(results)
    return [x for x in leaves if isinstance(x, facula.Tensor) and x.requires_grad]


def eager(function, flat):
    """Results and gradients; with history only where every argument has a derivative."""
    for tracked in (True, False):
        inputs = copies(flat, tracked)
        try:
            facula.manual_seed(0)
            results = function(*inputs)
            cotangents = [facula.ones_like(x) for x in floating(results)]
            if cotangents:
                facula.autograd.backward(floating(results), cotangents)
            return tracked, results, inputs
        except NotImplementedError:
            if not tracked:
                raise
    raise AssertionError("unreachable")


def assert_equal(found, expected):
    assert (found is None) == (expected is None)
    if isinstance(expected, facula.Tensor):
        assert found.shape == expected.shape and found.dtype == expected.dtype
        same = (
            facula.allclose
            if expected.is_floating_point() or expected.is_complex()
            else facula.equal
        )
        options = {"equal_nan": True} if same is facula.allclose else {}
        assert same(found.detach(), expected.detach(), **options)


def improved(module):
    with options.patch(debug=True):
        return optimise(module)


def verified(module, inputs):
    verify(module)
    return module


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_samples_equal_eager(name):
    operator = TABLE[name]
    if operator.definition.random:
        return
    for args, kwargs in calls(name, Samples(dtype_of(name))):
        flat, structure = pytree.tree_flatten((args, kwargs))

        def program(*xs, structure=structure):
            positional, named = pytree.tree_unflatten(list(xs), structure)
            return operator(*positional, **named)

        tracked, expected, inputs = eager(program, flat)
        others = copies(flat, tracked)
        compiled = api.aot_function(
            program, verified, partition_fn=api.min_cut_rematerialization_partition,
            passes=improved,
        )  # fmt: skip
        facula.manual_seed(0)
        try:
            found = compiled(*others)
        except DynamicOutputShapeException:
            assert needs_elements(operator), name
            continue
        results = pytree.tree_leaves(expected)
        for a, b in zip(pytree.tree_leaves(found), results, strict=True):
            assert_equal(a, b)
        if floating(found):
            facula.autograd.backward(
                floating(found), [facula.ones_like(x) for x in floating(found)]
            )
        for a, b in zip(others, inputs, strict=True):
            if isinstance(a, facula.Tensor):
                assert_equal(a.grad, b.grad)


def needs_elements(operator):
    """Whether a result's shape, or that of a gradient's part, depends on elements."""
    definition = operator.definition
    if getattr(definition, "dynamic", False):
        return True
    formula = inspect.getsource(definition.backward) if definition.backward else ""
    return any(
        f"F.{name}(" in formula
        for name, op in own_operators().items()
        if getattr(op.definition, "dynamic", False)
    )
