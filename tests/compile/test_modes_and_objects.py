"""Modes that compiled functions enter, objects that are no tensors, lazy modules: compiled equals eager."""

from __future__ import annotations

import pytest

import facula
from facula import nn
from facula.overrides import TorchFunctionMode


class Swapping(TorchFunctionMode):
    """Multiplies where the program adds, and adds `more` to it."""

    def __init__(self, more=0):
        self.more = more

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in (facula.add, facula.Tensor.add):
            return facula.mul(*args) + self.more
        return func(*args, **(kwargs or {}))


class Box:
    """Holds a value, and answers for functions of tensors without being one."""

    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        given = [arg.value if isinstance(arg, Box) else arg for arg in args]
        if func is facula.stack:
            return Box(sum(part.value for part in given[0]))
        return Box(func(*given, **(kwargs or {})))


class Bare(facula.Tensor):
    """Nothing of its own."""


class Flat(facula.Tensor):
    """Says that it has ten dimensions, and carries a number."""

    factor = 5

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func == facula.Tensor.ndim.__get__:
            return 10
        return super().__torch_function__(func, types, args, kwargs or {})


class Tagged(facula.Tensor):
    """Is made of a tensor and a number."""

    def __new__(cls, data, tag=1):
        made = facula.Tensor._make_subclass(cls, data)
        made.tag = tag
        return made


def entered(x):
    with Swapping():
        first = facula.add(x, x)
    with Swapping(), Swapping(2.0):
        second = x.add(x)
    return first, second, facula.add(x, x)


def counted(x):
    stack = facula.overrides._get_current_function_mode_stack
    with Swapping():
        return x * len(stack()), len(stack())


def broken(x):
    with Swapping():
        y = facula.add(x, x)
        facula._dynamo.graph_break()
        z = facula.add(y, 3)
    return facula.add(z, 1)


def boxes(x):
    both = facula.stack([Box(1), Box(2)]).value
    return (
        facula.add(Box(x), 1.0).value,
        facula.add(x, Box(x), alpha=2).value,
        both,
        (x + Box(x)).value,
    )


def local_class(x):
    class Inner(facula.Tensor):
        pass

    return Inner(x) * 2, x


PROGRAMS = [entered, counted, broken, boxes, local_class]
CLASSES = [
    (Bare, lambda x: (x * 2, x.sum(), x + x.as_subclass(facula.Tensor))),
    (Flat, lambda x: (x.ndim + facula.ones(2), x * x.factor)),
    (Bare, lambda x: (Tagged(x, 3) + 1, Tagged(x, 4).tag, Bare(x + 1) * 2)),
]


def same(a, b):
    assert type(a).__name__ == type(b).__name__
    if isinstance(a, (tuple, list)):
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, facula.Tensor):
        assert a.dtype == b.dtype
        assert a.tolist() == b.tolist()
    else:
        assert a == b


@pytest.mark.breaks("explicit", "tensor-subclass", "unsupported-value", "unsupported-instruction")
@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_compiled_equals_eager(program, backend):
    facula.compiler.reset()
    x = facula.tensor([1.0, 2.0])
    same(facula.compile(program, backend=backend)(x), program(x))
    assert not facula.overrides._get_current_function_mode_stack()


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize(("kind", "program"), CLASSES)
def test_results_have_the_class(kind, program, backend):
    facula.compiler.reset()
    x = facula.tensor([1.0, 2.0]).as_subclass(kind)
    same(facula.compile(program, backend=backend)(x), program(x))


@pytest.mark.parametrize("program", [entered, counted, boxes])
def test_one_graph(program):
    x = facula.tensor([1.0, 2.0])
    same(facula.compile(program, fullgraph=True)(x), program(x))


def test_a_mode_of_a_failing_block_is_left():
    def failing(x):
        with Swapping():
            y = facula.add(x, x)
            raise ValueError(f"{y.shape[0]}")

    with pytest.raises(ValueError, match="2"):
        facula.compile(failing)(facula.ones(2))
    assert not facula.overrides._get_current_function_mode_stack()


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_lazy_modules(fullgraph, whole):
    def made():
        facula.manual_seed(0)
        if whole:
            return nn.LazyLinear(4)
        return nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2))

    x, plain, compiled = facula.ones(2, 3), made(), made()
    expected, after = plain(x), facula.rand(2)
    facula.manual_seed(0)
    compiled = made()
    got, drawn = facula.compile(compiled, fullgraph=fullgraph)(x), facula.rand(2)
    assert facula.allclose(got, expected, atol=1e-6)
    assert drawn.tolist() == after.tolist()
    assert {k: v.tolist() for k, v in compiled.state_dict().items()} == {
        k: v.tolist() for k, v in plain.state_dict().items()
    }


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_default_dtype_of_a_part_of_the_program(backend):
    def program(x):
        facula.set_default_dtype(facula.float64)
        y = facula.ones(2) + facula.tensor([1.5, 2.5]) + facula.arange(2)
        facula.set_default_dtype(facula.float32)
        return x + y, facula.ones(2)

    x = facula.ones(2)
    a, b = facula.compile(program, backend=backend)(x)
    assert a.dtype == facula.float64
    assert a.tolist() == [3.5, 5.5]
    assert b.dtype == facula.float32
    assert facula.get_default_dtype() == facula.float32


class Settings:
    def __init__(self, factor):
        self.factor = factor


class Scaled(facula.autograd.Function):
    @staticmethod
    def forward(ctx, x, settings, calls=None):
        ctx.settings = settings
        if calls is not None:
            settings.factor += 1
        return x * settings.factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.settings.factor * 10, None, None


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_objects_as_arguments_of_autograd_functions(backend):
    program = facula.compile(
        lambda x, settings: Scaled.apply(x, settings), backend=backend, fullgraph=True
    )
    settings = Settings(3)
    for factor in (3, 4, 3):
        settings.factor = factor
        for given in (settings, Settings(factor)):
            x = facula.ones(2, requires_grad=True)
            y = program(x, given)
            y.sum().backward()
            assert y.tolist() == [factor] * 2
            assert x.grad.tolist() == [10 * factor] * 2


@pytest.mark.breaks("unsupported-mutation")
def test_objects_that_an_autograd_function_changes():
    program = facula.compile(lambda x, settings: Scaled.apply(x, settings, True))
    settings = Settings(1)
    for expected in (2, 3, 4):
        assert program(facula.ones(2), settings).tolist() == [expected] * 2
        assert settings.factor == expected


@pytest.mark.parametrize("places", [[0, 2], [2, 3], [1, -1], [-3, 0]])
def test_items_at_places_that_were_read(places):
    def program(places, x):
        a, b = places.tolist()
        return x[a] + b, x[a, b], x[places[0].item()] * 2

    x = facula.arange(12.0).view(3, 4)
    got = facula.compile(program, fullgraph=True)(facula.tensor(places), x)
    a, b = places
    rows = [[4.0 * row + column for column in range(4)] for row in range(3)]
    assert got[0].tolist() == [value + b for value in rows[a]]
    assert got[1].item() == rows[a][b]
    assert got[2].tolist() == [2 * value for value in rows[a]]
