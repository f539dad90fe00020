"""NumPy in compiled functions: one graph, and what NumPy gives, to dtypes, types and memory."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
from capturing import Graphs

import facula
from facula._dynamo import explain

DTYPES = ("float32", "float64", "int64", "bool")
#: what single precision is computed to, also where NumPy stores it in double precision
CLOSE = {"float32": 1e-5}

#: expressions of two arrays of 3 times 4 elements
ANY_DTYPE = """
np.sin(x); np.exp(x); np.sqrt(abs(x)); np.tanh(x); np.square(x); np.cbrt(x); np.degrees(x); abs(x)
np.sum(x); np.sum(x, axis=0); x.sum(axis=(0, 1), keepdims=True); np.sum(x, dtype=np.float32)
x.mean(); np.mean(x, axis=1); np.mean(x, axis=-1, keepdims=True); np.std(x); x.var(axis=0)
np.var(x, axis=1, ddof=1); np.max(x); x.min(axis=1); np.prod(x, axis=0); np.any(x); np.all(x, axis=1)
np.argmax(x); x.argmin(axis=1); np.cumsum(x); np.cumsum(x, axis=1); x.cumprod(axis=0)
x @ x.T; np.matmul(x, y.T); np.dot(x, y.T); np.einsum('ij,kj->ik', x, y); np.einsum('ij,ij', x, y)
np.inner(x, y); np.outer(x, y); np.tensordot(x, y.T, 1); np.vdot(x, y); np.kron(x, y)
np.linalg.norm(x); np.linalg.norm(x, axis=1); np.linalg.norm(x, ord=1, axis=0, keepdims=True)
np.linalg.det(x @ x.T + np.eye(3)); np.linalg.inv(x @ x.T + 3 * np.eye(3))
np.linalg.solve(x @ x.T + 3 * np.eye(3), x); np.linalg.svd(x, compute_uv=False)
np.where(x > 0, x, y); np.where(x > 0, x, 0); np.where(x > 0, 1.5, x); np.where(x > 0, 1, 0)
np.clip(x, 0, 1); x.clip(0, None); np.maximum(x, y); np.minimum(x, 1); x + y; x * 2; x / y; x // 2
x // y; x % 2; x % y; x ** 2; np.power(x, 3); 1 / (x + 2); x == y; x != 1; x < y; ~(x > 0)
np.logical_and(x, y); np.logical_not(x); np.isfinite(x); np.isnan(x / y); np.rint(x); np.hypot(x, y)
np.arctan2(x, y); np.logaddexp(x, y); np.add(x, y, dtype=np.float64); np.divmod(x, 3)
np.add.reduce(x); np.multiply.outer(x[0], x[1]); np.reciprocal(x + 2.0); np.isclose(x, y)
np.stack([x, y]); np.stack((x, y), axis=-1); np.concatenate([x, y], axis=1); np.hstack([x, y])
np.concatenate([x, y], axis=None); np.vstack([x, y]); np.column_stack([x, y]); np.tile(x, (2, 1))
np.reshape(x, (4, 3)); x.reshape(-1); x.ravel(); x.T; x.transpose(1, 0); np.swapaxes(x, 0, 1)
np.moveaxis(x[None], 0, 2); np.expand_dims(x, 1); np.squeeze(x[None]); np.broadcast_to(x, (2, 3, 4))
np.repeat(x, 2, axis=0); np.roll(x, 1); np.roll(x, 1, axis=1); np.flip(x, 0); x[::-1]; np.rot90(x)
np.split(x, 2, axis=1); np.array_split(x, 3, axis=1); np.pad(x, 1); np.meshgrid(x[0], x[1])
x.astype(np.float32); x.astype('int64'); x.astype(bool); np.array(x, dtype=np.float64); np.asarray(x)
np.float32(2.5) * x; np.int64(2) * x; np.pi * x; np.float32(x[0, 0]); np.sqrt(x[0, 0] + 5)
x + np.arange(4); x + np.ones(4); x * np.zeros((3, 1), dtype=np.float32); x + np.linspace(0, 1, 4)
x + np.array([1, 2, 3, 4]); np.full((2, 2), 7) + x[:2, :2]; np.zeros_like(x); np.full_like(x, 1)
x[0]; x[0, 1]; x[1:, ::2]; x[:, None, :]; x[..., 0]; x[[0, 2]]; x[np.array([0, 2]), 1]; x[-1, -1]
x.shape; x.ndim; x.size; x.dtype; len(x); x.nbytes; isinstance(x, np.ndarray); type(x.sum())
np.sort(x); np.sort(x, axis=0); np.diff(x); np.trace(x); np.diagonal(x); np.diag(x[0]); np.tril(x)
np.average(x, axis=0); np.cov(x); np.nan_to_num(x / y); np.take(x, [0, 2], axis=1); np.nansum(x)
np.searchsorted(np.arange(5.0), x); np.fft.fft(x); np.fft.rfft(x, axis=0); np.polyval([1, 2, 3], x)
np.interp(x, [-1, 0.5, 2], [0, 2, 5]); np.interp(x[0, 0], [0, 1], [0, 2], left=-1, right=9)
x[x[0].argmax()]; x[:, np.argmin(x[0])]; x[x[0].argmax(), 1]; np.maximum.accumulate(x, axis=1)
np.select([x < 1, x < 3], [x, y], default=-1.0); np.take_along_axis(x, np.argsort(y), axis=1)
np.convolve(x[0] * 0.5, [0.5, 1.5], 'same')
np.gradient(x.astype(float)); np.trapezoid(x.astype(float)); np.result_type(x, y); np.mean([1, 2]) * x
"""
NUMBERS = """
-x; x - 0.5; 2 - x; np.sign(x); np.floor(x); np.round(x); np.round(x / 3, 2); np.median(x, axis=0)
np.percentile(x, 30); np.quantile(x, [0.1, 0.5], axis=1); np.ptp(x); np.cross(x[:, :3], y[:, :3])
np.exp(x - x.max(axis=1, keepdims=True)); np.nanmean(x); np.linalg.norm(x[:, None] - y[None], axis=2); np.corrcoef(x)
"""


def expressions(text: str) -> list[str]:
    return [part.strip() for line in text.split("\n") for part in line.split("; ") if part.strip()]


def function_of(expression: str):
    return eval(f"lambda x, y: {expression}", {"np": np})  # noqa: S307 - the cases above


def arrays(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    if dtype == "bool":
        return random.random((3, 4)) > 0.4, random.random((3, 4)) > 0.5
    if dtype.startswith("float"):
        x, y = random.standard_normal((2, 3, 4)).astype(dtype)
        return x, y
    return random.integers(-5, 6, (3, 4)).astype(dtype), random.integers(-3, 4, (3, 4)).astype(
        dtype
    )


def difference(a, b, close: float = 1e-12) -> str:
    """What is different between two results; nothing where they are the same."""
    if type(a) is not type(b):
        return f"type {type(a)} is {type(b)}"
    if isinstance(a, (tuple, list)):
        parts = [difference(u, v, close) for u, v in zip(a, b, strict=True)]
        return "; ".join(filter(None, parts))
    if isinstance(a, facula.Tensor):
        return difference(a.numpy(), b.numpy())
    if not isinstance(a, (np.ndarray, np.generic)):
        return "" if a == b else f"{a} is {b}"
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{a.dtype}{a.shape} is {b.dtype}{b.shape}"
    close = 1e-5 if a.dtype.char in "fF" else close
    same = np.allclose(a, b, rtol=close, atol=close, equal_nan=True)
    return "" if same else f"{a} is {b}"


def equals_numpy(expression: str, dtype: str) -> None:
    function, backend = function_of(expression), Graphs()
    compiled = facula.compile(function, backend=backend, fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns of divisions by zero
        expected = function(*arrays(dtype))
    assert difference(expected, compiled(*arrays(dtype)), CLOSE.get(dtype, 1e-12)) == ""
    assert len(backend) <= 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("expression", expressions(ANY_DTYPE))
def test_equals_numpy_in_one_graph(expression, dtype):
    equals_numpy(expression, dtype)


@pytest.mark.parametrize("dtype", DTYPES[:-1])
@pytest.mark.parametrize("expression", expressions(NUMBERS))
def test_functions_of_numbers_equal_numpy(expression, dtype):
    equals_numpy(expression, dtype)


@pytest.mark.parametrize(
    "expression",
    """np.sum(x * 2 + y, axis=0) | np.exp(x - x.max()) / np.linalg.norm(y) | x @ y.T + np.eye(3)
    np.where(x > 0, np.sin(x), y[::-1]).mean(axis=1)""".replace("\n", "|").split("|"),
)
@pytest.mark.parametrize("dtype", DTYPES[:3])
def test_kernels_give_what_numpy_gives(expression, dtype):
    function = function_of(expression.strip())
    compiled = facula.compile(function, fullgraph=True)
    expected = function(*arrays(dtype))
    assert difference(expected, compiled(*arrays(dtype)), CLOSE.get(dtype, 1e-12)) == ""


def set_item(x):
    x[0] = 5
    return x


def add_in_place(x):
    x += 1
    return x * 2


def write_through_view(x):
    y = x[1:]
    y *= 3
    return x.sum()


def write_out(x):
    np.add(x, 1, out=x)
    return np.sqrt(x)


def scalar_before_write(x):
    first = x[0]
    x[0] = 9
    return first, x


def sort_in_place(x):
    x.sort()
    return x


def fill(x):
    x.fill(2)


def set_by_mask(x):
    x[x > 1] = 0
    return x


def write_new(x):
    out = np.zeros((3, len(x)))
    out[1] = x
    out[:, 0] += 1
    return out


def copy_to(x):
    np.copyto(x, 3, where=x > 1)
    return x


def known_is_new(x):
    known = np.array([1.0, 2.0, 3.0, 4.0])
    known[2] = 7
    return known + x, known


def through_tensor(x):
    facula.from_numpy(x).add_(1)
    return x.sum()


def from_tensor_and_back(x):
    return facula.from_numpy(np.cumsum(x)) * 2, facula.tensor(x), facula.as_tensor(x) + 1


WRITES = (
    set_item, add_in_place, write_through_view, write_out, scalar_before_write, sort_in_place, fill,
    set_by_mask, write_new, copy_to, known_is_new, through_tensor, from_tensor_and_back,
)  # fmt: skip


@pytest.mark.parametrize("function", WRITES, ids=lambda f: f.__name__)
def test_writes_reach_the_memory(function):
    compiled = facula.compile(function, fullgraph=True)
    for _ in range(2):
        one, other = np.arange(4.0), np.arange(4.0)
        assert difference(function(one), compiled(other)) == ""
        assert difference(one, other) == ""


def test_results_share_memory_as_in_numpy():
    def function(x):
        return x[1:], x[::-1][1:], np.flip(x), x.reshape(2, 2).T, x, x + 0

    x = np.arange(4.0)
    results = facula.compile(function, fullgraph=True, backend=Graphs())(x)
    assert [np.shares_memory(x, part) for part in results] == [True] * 5 + [False]
    assert results[4] is x
    x[:] = (9, 8, 7, 6)
    assert difference(results[:5], function(x)[:5]) == ""


def test_numpy_of_a_tensor_is_on_its_memory():
    def function(t):
        a = t.numpy()
        a += 1
        return t * 2, np.sin(a), t.numpy()

    one, other = facula.arange(4.0), facula.arange(4.0)
    compiled = facula.compile(function, fullgraph=True)
    assert difference(function(one), compiled(other)) == ""
    assert other.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_numpy_of_a_tensor_with_gradient_raises_what_eager_raises():
    def function(t):
        return t.numpy()

    t = facula.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad") as eager:
        function(t)
    with pytest.raises(RuntimeError, match="requires grad") as compiled:
        facula.compile(function, fullgraph=True)(t)
    assert str(eager.value) == str(compiled.value)


def test_gradients_flow_through_wrapped_numpy():
    def function(x, y):
        return np.sum(np.sin(x) * y, axis=0), np.mean(x)

    x, y = facula.arange(6.0).reshape(2, 3).requires_grad_(), facula.ones(2, 3)
    compiled = facula.compile(facula.compiler.wrap_numpy(function), fullgraph=True)
    first, second = compiled(x, y)
    (first.sum() + second).backward()
    assert facula.allclose(x.grad, x.detach().cos() + 1 / 6)
    assert difference(function(x.detach().numpy(), y.numpy())[0], first.detach().numpy()) == ""


def on_one_memory():
    x = np.arange(6.0)
    return x[1:], x[:-1]


def one_array():
    x = np.arange(5.0)
    return x, x


def tensor_and_array():
    t = facula.arange(5.0)
    return t.numpy(), t


def write_first(x, y):
    x += 1
    return y * 2


def write_tensor(x, y):
    if isinstance(y, facula.Tensor):
        y.add_(1)
    return x.sum()


@pytest.mark.breaks("unsupported-mutation")
@pytest.mark.parametrize("overlapping", [on_one_memory, one_array, tensor_and_array])
@pytest.mark.parametrize("function", [write_first, write_tensor])
@pytest.mark.parametrize("first", [False, True])
def test_inputs_on_one_memory(overlapping, function, first):
    def apart():
        given = overlapping()
        return tuple(a.clone() if isinstance(a, facula.Tensor) else a.copy() for a in given)

    compiled = facula.compile(function)
    for make in (overlapping, apart) if first else (apart, overlapping):
        one, other = make(), make()
        assert difference(function(*one), compiled(*other)) == ""
        assert difference(one, other) == ""


@pytest.mark.breaks("unsupported-mutation")
def test_writes_behind_reversed_views_are_seen():
    def function(x):
        y = x[::-1]
        x += 1
        return y

    compiled = facula.compile(function)
    assert difference(function(np.arange(4.0)), compiled(np.arange(4.0))) == ""


def test_new_dtypes_and_shapes_are_captured_anew():
    backend = Graphs()
    compiled = facula.compile(lambda x: x / 2 + x.mean(), backend=backend, fullgraph=True)
    for dtype in ("float64", "float32", "int32", "bool", "float64"):
        x = np.ones(4, dtype)
        assert difference(x / 2 + x.mean(), compiled(x)) == ""
    assert len(backend) == 4


def test_sizes_become_dynamic():
    def function(x):
        return np.tanh(x) / x.shape[0] + np.arange(x.shape[0]) + len(x)

    backend = Graphs()
    compiled = facula.compile(function, backend=backend, fullgraph=True)
    for size in (3, 5, 7, 9, 11):
        assert difference(function(np.ones(size)), compiled(np.ones(size))) == ""
    assert len(backend) == 2


@pytest.mark.breaks("fake-error")
@pytest.mark.parametrize(
    ("function", "good", "bad"),
    [
        (lambda x: np.linalg.inv(x), np.eye(2), np.zeros((2, 2))),
        (lambda x: x + np.arange(4), np.ones(4), np.ones(5)),
        (lambda x: x.reshape(2, 2) + len(x), np.ones(4), np.ones(7)),
        (lambda x: np.arange(3)[x], np.array([1]), np.array([7])),
    ],
)
@pytest.mark.parametrize("dynamic", [None, True])
def test_errors_are_those_of_numpy(function, good, bad, dynamic):
    compiled = facula.compile(function, backend=Graphs(), dynamic=dynamic)
    assert difference(function(good), compiled(good)) == ""
    with pytest.raises((ValueError, IndexError)) as expected:  # noqa: PT011 - it is compared
        function(bad)
    with pytest.raises(expected.type) as found:
        compiled(bad)
    assert str(found.value) == str(expected.value)


KEYS = """
1, :, [0, 1]; :, [0, 1], 1; i, :, [0, 1]; [0, 1], i; i; i, 1:; :, i; ::-1, 0; 0, ::-2; ..., -1; None, ..., 1
1:, None, ::-1; 2:0:-1, 1; np.array([[0], [1]]), :, np.array([1, 2]); -1, -2, -3; ..., None; ()
"""


@pytest.mark.breaks("unsupported-call", "unsupported-mutation")
@pytest.mark.parametrize("key", expressions(KEYS))
@pytest.mark.parametrize("body", ["return x[{}], x", "x[{}] = 7; return x", "x[{}] += 1; return x"])
def test_keys_mean_what_they_mean_in_numpy(key, body):
    space: dict = {"np": np}
    exec(f"def function(x, i):\n    i = np.argmax(i)\n    {body.format(key)}", space)  # noqa: S102
    function = space["function"]
    one, other = np.arange(60.0).reshape(3, 4, 5), np.arange(60.0).reshape(3, 4, 5)
    place = np.array([0, 2, 1])
    expected, found = function(one, place), facula.compile(function, backend=Graphs())(other, place)
    assert difference(expected, found) == ""
    assert difference(one, other) == ""
    if isinstance(expected, tuple) and isinstance(expected[0], np.ndarray):
        assert np.shares_memory(expected[0], one) == np.shares_memory(found[0], other)


def zeros_of(dtype):
    return np.zeros(3, dtype)


@pytest.mark.parametrize(
    "function", [np.positive, np.conjugate, np.real, np.array, np.abs, np.round]
)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_results_are_new_where_they_are_in_numpy(function, dtype):
    compiled = facula.compile(lambda x: function(x), fullgraph=True, backend=Graphs())
    x = zeros_of(dtype)
    assert np.shares_memory(function(x), x) == np.shares_memory(compiled(x), x)


KINDS = ("bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64")


@pytest.mark.breaks("unsupported-call")
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(
    "function",
    [np.add, np.multiply, np.true_divide, np.less, np.maximum, np.hypot, np.float_power],
    ids=lambda f: f.__name__,
)
def test_promotion_is_that_of_numpy(function, dtype):
    others = [zeros_of(kind) for kind in KINDS] + [3, 2.5, True, np.float32(2.5), np.int8(2)]
    for other in others:
        x = np.ones(3, dtype)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = function(x, other)
        except TypeError:
            continue  # NumPy has no such function
        found = facula.compile(lambda x, y: function(x, y), backend=Graphs())(x, other)
        assert difference(expected, found, 1e-6 if expected.dtype.char != "e" else 1e-3) == ""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_changing_numbers_need_two_graphs(dtype):
    def function(x, rate, count):
        return x * rate + count, np.where(x > rate, x, 0)[:count]

    backend = Graphs()
    compiled = facula.compile(function, backend=backend, fullgraph=True)
    x = np.linspace(0, 1, 9).astype(dtype)
    for rate, count in ((0.1, 3), (0.2, 4), (0.3, 5), (0.45, 6)):
        assert difference(function(x, rate, count), compiled(x, rate, count)) == ""
    assert len(backend) == 2


def test_two_arrays_that_become_one():
    compiled = facula.compile(lambda x, y: (x is y, x + y), fullgraph=True)
    x, y = np.ones(3), np.ones(3)
    assert [compiled(x, y)[0], compiled(x, x)[0], compiled(y, x)[0]] == [False, True, False]


def unknown_to_capture(x):
    return np.random.default_rng(0).random(4) + x, np.histogram(x, 3)[0]


def by_elements(x):
    return x[x > 1], np.nonzero(x), float(x[0]), x.tolist()


def by_branch(x):
    return x + 1 if x.sum() > 0 else x - 1


@pytest.mark.breaks(
    "data-dependent-branch", "data-dependent-shape", "data-dependent-value", "unsupported-call"
)
@pytest.mark.parametrize("function", [unknown_to_capture, by_elements, by_branch])
def test_what_has_no_translation_breaks_the_graph(function):
    compiled = facula.compile(function)
    assert difference(function(np.arange(4.0)), compiled(np.arange(4.0))) == ""
    assert explain(function)(np.arange(4.0)).graph_break_count > 0


@pytest.mark.breaks("unsupported-call")
@pytest.mark.parametrize(
    "array",
    [
        np.arange(4.0)[::-1],
        np.arange(4).astype(">f4"),
        np.arange(4).astype(object),
        np.arange(4, dtype=np.longdouble),
        np.arange(4, dtype=np.uint16),
        np.ma.masked_array(np.arange(4), [0, 1, 0, 0]),
    ],
    ids=["reversed", "byte order", "object", "longdouble", "uint16", "masked"],
)
def test_arrays_that_are_no_tensors(array):
    compiled = facula.compile(lambda x: x * 2 + 1)
    for given in (np.arange(4.0), array, np.arange(4.0)):
        found, expected = compiled(given), given * 2 + 1
        assert type(found) is type(expected) and found.dtype == expected.dtype
        assert (found == expected).all()


@pytest.mark.breaks("unsupported-mutation")
def test_arrays_that_may_not_be_written():
    x = np.arange(4.0)
    x.flags.writeable = False
    assert difference(x * 2, facula.compile(lambda x: x * 2, fullgraph=True)(x)) == ""
    with pytest.raises(ValueError, match="read-only"):
        facula.compile(set_item)(x)


def test_integers_over_zero_are_zero_as_in_numpy():
    def function(x, y):
        return x // y, x % y, np.fmod(x, y)

    x, y = np.arange(-2, 2), np.array([0, 1, 0, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = function(x, y)
    assert difference(expected, facula.compile(function, fullgraph=True)(x, y)) == ""


@pytest.mark.breaks("unsupported-value")
def test_numbers_outside_of_the_dtype():
    def function(x):
        return x < 300, x >= -1

    x = np.array([1, 200], np.uint8)
    assert difference(function(x), facula.compile(function)(x)) == ""
    with pytest.raises(OverflowError):
        facula.compile(lambda x: x + 300)(x)


def test_checks_that_raise_are_no_breaks():
    def function(x):
        if np.isnan(x).any():
            raise ValueError("NaN")
        return np.sqrt(x)

    compiled = facula.compile(function, fullgraph=True)
    assert difference(np.sqrt(np.ones(3)), compiled(np.ones(3))) == ""
    with pytest.raises(ValueError, match="NaN"):
        compiled(np.full(3, np.nan))


def test_arrays_in_inference_mode():
    def function(x, y):
        y += 1
        return np.exp(x) + y

    x, first, second = np.arange(3.0), np.ones(3), np.ones(3)
    with facula.inference_mode():
        found = facula.compile(function, fullgraph=True)(x, first)
    np.testing.assert_allclose(found, function(x, second))
    np.testing.assert_array_equal(first, second)


FIRST_MEETINGS = {
    "a function": "np.sin(x.numpy())",
    "an array of a tensor": "torch.tensor(x.numpy()[0])",
    "a method": "x.numpy().mean(axis=0)",
    "a scalar": "x * torch.tensor(np.float32(3))",
    "a scalar of the outside": "x * torch.as_tensor(scalar)",
    "an array of the outside": "torch.from_numpy(array) * x",
    "a dtype": "x.numpy().astype(np.dtype('float64'))",
    "a reduction of a ufunc": "np.add.reduce(x.numpy())",
    "limits": "x + float(np.finfo(np.float32).eps)",
    "a made array": "x + torch.tensor(np.arange(4))",
}


@pytest.mark.parametrize("text", FIRST_MEETINGS.values(), ids=FIRST_MEETINGS)
def test_whatever_of_numpy_is_met_first_its_rules_are_there(text: str) -> None:
    program = f"""
import numpy as np
import facula as torch
from facula._dynamo import explain
from facula.capture.rules import callables as rules, table as rule_table
scalar, array = np.float32(2.5), np.ones(4, np.float32)
def f(x):
    return {text}
x = torch.arange(4.0)
assert torch.compile(lambda x: x + 1, backend="eager")(x)[0] == 1 and "numpy" in rules.LATER
found, wanted = torch.compile(f, backend="eager", fullgraph=True)(x), f(x)
assert "numpy" not in rules.LATER
assert type(found) is type(wanted) and np.allclose(np.asarray(found), np.asarray(wanted))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
