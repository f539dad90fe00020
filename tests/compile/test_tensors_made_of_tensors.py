"""Tensors that are made of others, in compiled functions: results and gradients are those of eager execution."""

from __future__ import annotations

import pytest

import facula
from facula import nested
from facula.fx import _pytree as pytree
from facula.utils._python_dispatch import return_and_correct_aliasing

BACKENDS = ["inductor", "aot_eager", "eager"]


class Pair(facula.Tensor):
    """Does everything twice: with `a`, and with `b`."""

    @staticmethod
    def __new__(cls, a, b, size=None, stride=None):
        size, stride = size or a.size(), stride or a.stride()
        return facula.Tensor._make_wrapper_subclass(
            cls, size, strides=stride, dtype=a.dtype, device=a.device, requires_grad=a.requires_grad
        )

    def __init__(self, a, b, size=None, stride=None):
        self.a, self.b = a, b

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(parts, context, size, stride):
        return Pair(parts["a"], parts["b"], size, stride)

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        def of(name):
            inner = pytree.tree_map_only(Pair, lambda x: getattr(x, name), (args, kwargs or {}))
            return pytree.tree_flatten(func(*inner[0], **inner[1]))

        (first, spec), (second, _) = of("a"), of("b")
        made = [
            cls(x, y) if isinstance(x, facula.Tensor) else x
            for x, y in zip(first, second, strict=True)
        ]
        out = pytree.tree_unflatten(made, spec)
        return return_and_correct_aliasing(func, args, kwargs, out)


class Scaled(facula.Tensor):
    """Elements that are kept divided by a number."""

    __torch_function__ = facula._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, kept, factor):
        return facula.Tensor._make_wrapper_subclass(cls, kept.size(), dtype=kept.dtype)

    def __init__(self, kept, factor):
        self.kept, self.factor = kept, factor

    def __tensor_flatten__(self):
        return ["kept"], self.factor

    @staticmethod
    def __tensor_unflatten__(parts, factor, size, stride):
        return Scaled(parts["kept"], factor)

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        whole = pytree.tree_map_only(Scaled, lambda x: x.kept * x.factor, (args, kwargs or {}))
        return func(*whole[0], **whole[1])


class Tagged(facula.Tensor):
    """Elements with whole numbers beside them, and others that nothing reads."""

    @staticmethod
    def __new__(cls, kept, tags, unread):
        grad = kept.requires_grad
        return facula.Tensor._make_wrapper_subclass(cls, kept.size(), requires_grad=grad)

    def __init__(self, kept, tags, unread):
        self.kept, self.tags, self.unread = kept, tags, unread

    def __tensor_flatten__(self):
        return ["kept", "tags", "unread"], None

    @staticmethod
    def __tensor_unflatten__(parts, context, size, stride):
        return Tagged(parts["kept"], parts["tags"], parts["unread"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        (first,) = [x for x in pytree.tree_leaves(args) if isinstance(x, Tagged)][:1]
        args, kwargs = pytree.tree_map_only(Tagged, lambda x: x.kept, (args, kwargs or {}))
        return pytree.tree_map_only(
            facula.Tensor,
            lambda x: Tagged(x, first.tags, first.unread.detach()),
            func(*args, **kwargs),
        )


def pair(*shape, grad=False, seed=0):
    generator = facula.Generator().manual_seed(seed)
    made = Pair(facula.randn(shape, generator=generator), facula.randn(shape, generator=generator))
    return made.requires_grad_(grad)


def parts(x):
    if isinstance(x, Pair):
        return [Pair, parts(x.a), parts(x.b)]
    if isinstance(x, (tuple, list)):
        return [type(x), *map(parts, x)]
    if isinstance(x, facula.Tensor) and x.is_nested:
        return ["nested", *[t.detach().clone() for t in x.unbind()]]
    return x.detach().clone() if isinstance(x, facula.Tensor) else x


def assert_same(a, b):
    if isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(a, facula.Tensor):
        facula.testing.assert_close(a, b)
    else:
        assert a == b


def check(function, make, backend):
    """Compare a compiled function with the same function, and the gradients of its arguments."""
    given, other = make(), make()
    expected = function(*given)
    facula._dynamo.reset()
    found = facula.compile(function, backend=backend, fullgraph=True)(*other)
    assert_same(parts(expected), parts(found))
    assert_same(parts(given), parts(other))
    for result in (expected, found):
        for x in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(x, facula.Tensor) and x.requires_grad:
                x.sum().backward(retain_graph=True)
    for x, y in zip(given, other, strict=True):
        assert_same(parts(x.grad), parts(y.grad))


def write_to_a_view(x):
    x[0].add_(1)
    return x + 0


PROGRAMS = [
    (lambda x: (x * 2).sin(), lambda: [pair(3, 4, grad=True)]),
    (lambda x, y: (x @ y).relu(), lambda: [pair(3, 4, grad=True), pair(4, 2, grad=True, seed=1)]),
    (lambda x: x.mul_(2) + 1, lambda: [pair(3, 4)]),
    (lambda x: (x + 1).mul_(3), lambda: [pair(3, 4, grad=True)]),
    (write_to_a_view, lambda: [pair(3, 4)]),
    (lambda x: x.view(-1), lambda: [pair(3, 4, grad=True)]),
    (lambda x: x.split(2, 1), lambda: [pair(3, 4, grad=True)]),
    (lambda x, y: facula.cat([x, y]), lambda: [pair(3, 4, grad=True), pair(2, 4, grad=True)]),
    (lambda x: (x.a + x.b, (x * 2).a), lambda: [pair(3)]),
    (lambda a, b: Pair(a, b) * 2, lambda: [facula.ones(3), facula.zeros(3)]),
    (lambda x: x * 2, lambda: [Pair(pair(3), pair(3, seed=1))]),
    (lambda x: facula.nn.functional.layer_norm(x, (4,)), lambda: [pair(3, 4, grad=True)]),
    (
        lambda x, y: (x * x.shape[0], y + 1),
        lambda: [pair(3, 4, grad=True), facula.ones(2, requires_grad=True)],
    ),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_pairs(number, backend):
    check(*PROGRAMS[number], backend)


def test_what_a_class_says_beside_the_parts_is_guarded():
    compiled = facula.compile(lambda x: x + 1, fullgraph=True)
    for factor in (2.0, 3.0, 2.0):
        found = compiled(Scaled(facula.ones(2), factor))
        assert found.tolist() == [factor + 1, factor + 1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_parts_without_gradients(backend):
    facula._dynamo.reset()
    x = Tagged(facula.ones(3), facula.arange(3), facula.zeros(2)).requires_grad_()
    y = facula.compile(lambda x: (x * 3).sin(), backend=backend, fullgraph=True)(x)
    assert type(y) is Tagged and y.tags.tolist() == [0, 1, 2]
    y.sum().backward()
    assert type(x.grad) is Tagged
    facula.testing.assert_close(x.grad.kept, 3 * facula.cos(facula.full((3,), 3.0)))


def test_other_sizes_are_one_dynamic_program():
    count = []

    def backend(module, inputs):
        count.append(1)
        return module.forward

    compiled = facula.compile(lambda x: x * x.shape[0], backend=backend, fullgraph=True)
    for n in (3, 4, 5, 6):
        assert compiled(pair(n, 2)).a.shape == (n, 2)
    assert len(count) == 2


def test_marks_reach_the_parts():
    x = pair(3, 4)
    facula._dynamo.mark_dynamic(x, 0)
    count = []

    def backend(module, inputs):
        count.append(1)
        return module.forward

    compiled = facula.compile(lambda x: x.sin(), backend=backend, fullgraph=True)
    for tensor in (x, pair(5, 4), pair(7, 4)):
        assert_same(parts(compiled(tensor)), parts(tensor.sin()))
    assert len(count) == 1


@pytest.mark.breaks
def test_a_write_with_gradients_to_a_tensor_from_outside_is_left_to_python():
    def function(x, w):
        x.mul_(w)
        return x

    facula._dynamo.reset()
    x, w = pair(3), pair(3, grad=True, seed=1)
    facula.compile(function)(x, w)
    x.sum().backward()
    assert_same(parts(w.grad), parts(pair(3)))


def test_a_comparison_of_contexts_is_a_class_method():
    class Mine(Scaled):
        def __metadata_guard__(self, one, other):
            return True

    facula._dynamo.reset()
    with pytest.raises(facula._dynamo.exc.InternalTorchDynamoError, match="must be a classmethod"):
        facula.compile(lambda x: x + 1)(Mine(facula.ones(2), 2.0))


def jagged(*lengths, grad=False):
    generator = facula.Generator().manual_seed(0)
    rows = [facula.randn(n, 4, generator=generator) for n in lengths]
    return nested.nested_tensor(rows, layout=facula.jagged, requires_grad=grad)


WEIGHT = facula.linspace(-1, 1, 12).reshape(3, 4)
RAGGED = [
    lambda x: x.sin() * 2,
    lambda x: x * x,
    lambda x: facula.nn.functional.linear(x, WEIGHT).relu(),
    lambda x: nested.to_padded_tensor(x, 0.0) + 1,
    lambda x: x.values() + 1,
    lambda x: x.unbind(),
    lambda x: x.softmax(-1).sum(1),
    lambda x: x.sin() if x.is_nested else x.cos(),
    lambda x: (x.clone() + x.detach(), x.shape[0], x.size(2)),
]


@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
@pytest.mark.parametrize("number", range(len(RAGGED)))
def test_nested_tensors(number, backend):
    function = RAGGED[number]
    for lengths in ((2, 3, 4), (3, 1, 5)):
        given, other = jagged(*lengths, grad=True), jagged(*lengths, grad=True)
        expected = function(given)
        found = facula.compile(function, backend=backend, fullgraph=True)(other)
        assert_same(parts(expected), parts(found))
        for result in (expected, found):
            for x in result if isinstance(result, (tuple, list)) else [result]:
                if isinstance(x, facula.Tensor) and x.requires_grad:
                    (x.values() if x.is_nested else x).sum().backward(retain_graph=True)
        assert_same(parts(given.grad), parts(other.grad))


def test_results_have_the_ragged_size_of_their_arguments():
    facula._dynamo.reset()
    compiled = facula.compile(lambda x: x.sin() * 2, fullgraph=True)
    first = jagged(2, 3, 4)
    sizes = facula.compile(lambda x: (x.shape, x.size(1), x.shape[0] == 2), fullgraph=True)
    assert sizes(first)[0] == first.shape
    for lengths in ((2, 3, 4), (3, 1, 5), (2, 3, 4), (1, 7), (3, 1, 5)):
        x = jagged(*lengths)
        found = compiled(x)
        assert found.shape == x.shape and (found + x).shape == x.shape
        assert found.shape != jagged(*lengths).shape
        assert sizes(x) == (x.shape, x.size(1), len(lengths) == 2)


def test_arguments_of_one_origin_have_one_ragged_size():
    def function(x, y):
        return (x * y).sin() if x.shape == y.shape else x.cos()

    facula._dynamo.reset()
    compiled = facula.compile(function, fullgraph=True)
    x = jagged(2, 3, 4, grad=True)
    akin = nested.nested_tensor_from_jagged(x.values().detach() + 1, x.offsets())
    other = jagged(2, 3, 4)
    for y in (akin, other, akin):
        assert_same(parts(compiled(x, y)), parts(function(x, y)))


def test_nested_tensors_are_made_of_rows_and_offsets():
    def function(rows, offsets):
        return nested.nested_tensor_from_jagged(rows, offsets) * 2

    facula._dynamo.reset()
    compiled = facula.compile(function, fullgraph=True)
    rows = facula.arange(18.0).reshape(9, 2)
    for ends in ([0, 2, 5, 9], [0, 4, 5, 9]):
        found = compiled(rows, facula.tensor(ends)).unbind()
        for n, entry in enumerate(found):
            assert facula.equal(entry, rows[ends[n] : ends[n + 1]] * 2)


@pytest.mark.breaks
def test_a_leaf_that_a_compiled_function_makes_has_a_gradient():
    def function(x):
        w = facula.ones(3, requires_grad=True)
        (w * x).sum().backward()
        return w.grad

    facula._dynamo.reset()
    x = facula.tensor([1.0, 2.0, 3.0])
    assert facula.equal(facula.compile(function)(x), x)


_NUMBERS = {
    "one, cast": lambda x: facula.tensor([x[0]], dtype=facula.int64),
    "with a number": lambda x: facula.tensor([x.sum(), 2]),
    "of floats": lambda x: facula.tensor([x.argmax(), 2.5]),
    "nested": lambda x: facula.tensor([[x.sum(), 1], (3.5, x.mean())]),
    "truth": lambda x: facula.tensor([x[0] > 0, True]) & True,
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", _NUMBERS)
def test_numbers_of_tensors_in_a_list_stay_in_the_program_as_in_eager(case, backend):
    facula._dynamo.reset()
    compiled = facula.compile(_NUMBERS[case], fullgraph=True, backend=backend)
    for x in (facula.tensor([1.25, 2.5]), facula.tensor([-3.0, 0.5], requires_grad=True)):
        found, expected = compiled(x), _NUMBERS[case](x.detach())
        assert found.dtype is expected.dtype and found.tolist() == expected.tolist()
        assert not found.requires_grad
