"""`assert_close`: whether two values agree within tolerances, and where they do not.

Takes tensors, arrays, numbers, None and any nesting of sequences and mappings of these; raises
AssertionError with the count, place and size of the differences.  Keeps true: rules, tolerances and
messages are those of `torch.testing`, and every leaf of a nesting is compared before the first
difference found is raised.
"""

import cmath
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import facula
from facula.core import Tensor
from facula.core.errors import fail

__all__ = ["assert_allclose", "assert_close", "default_tolerances"]

Message = str | Callable[[str], str] | None

# dtype: (relative, absolute) tolerance
_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex32": (1e-3, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


def default_tolerances(*inputs: object) -> tuple[float, float]:
    """The relative and absolute tolerance for tensors or dtypes: the largest of theirs."""
    dtypes = [value.dtype if hasattr(value, "dtype") else value for value in inputs]
    pairs = [_TOLERANCES.get(str(dtype).rpartition(".")[2], (0.0, 0.0)) for dtype in dtypes]
    return max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)


@dataclass(frozen=True)
class _Rules:
    """What a comparison is to look at."""

    rtol: float | None
    atol: float | None
    equal_nan: bool
    allow_subclasses: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool
    message: Message

    def tolerances(self, *inputs: object) -> tuple[float, float]:
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        return default_tolerances(*inputs)


@dataclass
class _Pair:
    """Two leaves and where they stand in the inputs."""

    actual: Any
    expected: Any
    place: tuple[Any, ...]


class _Difference(Exception):
    """Two leaves differ; the text says how."""


def assert_close(
    actual: object,
    expected: object,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Message = None,
) -> None:
    """Raises AssertionError unless `|actual - expected| <= atol + rtol * |expected|` everywhere.

    Sequences and mappings are compared leaf by leaf.

    Args:
        actual: a tensor, a number, or a nesting of them
        expected: the same nesting
        allow_subclasses: whether types may differ where one is a subclass of the other
        rtol, atol: given together or not at all; by default what the dtype allows, 0 for integers
        equal_nan: whether nan is equal to nan
        check_device, check_dtype, check_layout, check_stride: what else must agree
        msg: the message of the error, or a function of the usual one

    Raises:
        AssertionError: they are not close; it says where, and by how much.
        TypeError: the values cannot be compared.
        ValueError: one tolerance is given without the other.

    Example:
        >>> facula.testing.assert_close(facula.tensor([0.1 + 0.2]), facula.tensor([0.3]))
        >>> facula.testing.assert_close([1.0, 2.0], [1.0, 2.5], rtol=0, atol=1)
    """
    if (rtol is None) ^ (atol is None):
        missing = "atol" if atol is None else "rtol"
        fail(
            ValueError,
            "assert_close",
            (f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}."),
            hint="leave both out for those of the dtype",
        )
    rules = _Rules(
        rtol,
        atol,
        equal_nan,
        allow_subclasses,
        check_device,
        check_dtype,
        check_layout,
        check_stride,
        msg,
    )
    found: list[tuple[str, tuple[Any, ...]]] = []
    try:
        for pair in list(_pairs(actual, expected, (), rules)):
            try:
                _compare(pair, rules)
            except _Difference as difference:
                found.append((str(difference), pair.place))
    except _Difference as difference:
        _raise([(str(difference), getattr(difference, "place", ()))], rules)
    if found:
        _raise(found, rules)


def _raise(found: list[tuple[str, tuple[Any, ...]]], rules: _Rules) -> NoReturn:
    """Raises for the first difference, naming its place in a nesting."""
    text, place = found[0]
    if place:
        text += f"\n\nThe failure occurred for item {''.join(f'[{item!r}]' for item in place)}"
    if rules.message is not None:
        text = rules.message(text) if callable(rules.message) else rules.message
    raise AssertionError(text)


# ------------------------------------------------------------------ from nestings to leaves


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _pairs(actual: Any, expected: Any, place: tuple[Any, ...], rules: _Rules) -> Iterator[_Pair]:
    if _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            _differ(
                f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", place
            )
        for index, (one, other) in enumerate(zip(actual, expected, strict=True)):
            yield from _pairs(one, other, (*place, index), rules)
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if set(actual) != set(expected):
            _differ(_key_message(actual, expected), place)
        keys: Any = list(actual)
        try:
            keys = sorted(keys)
        except TypeError:
            pass  # keys without an order are taken as they come
        for key in keys:
            yield from _pairs(actual[key], expected[key], (*place, key), rules)
    else:
        _check_comparable(actual, expected, rules)
        yield _Pair(actual, expected, place)


def _differ(text: str, place: tuple[Any, ...]) -> NoReturn:
    difference = _Difference(text)
    difference.place = place  # type: ignore[attr-defined]
    raise difference


def _key_message(actual: Mapping, expected: Mapping) -> str:
    missing = sorted(set(expected) - set(actual), key=str)
    additional = sorted(set(actual) - set(expected), key=str)
    text = "The keys of the mappings do not match:"
    if missing:
        text += f"\nMissing keys in the actual mapping: {missing}"
    if additional:
        text += f"\nAdditional keys in the actual mapping: {additional}"
    return text


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, complex)) and not isinstance(value, bool)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool) or type(value).__name__ == "bool_"


def _check_comparable(actual: object, expected: object, rules: _Rules) -> None:
    """Leaves are of one kind: None, bool, number, or anything that becomes a tensor."""
    if actual is None or expected is None:
        return
    for is_kind in (_is_bool, _is_number):
        if is_kind(actual) and is_kind(expected):
            return
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    same = type(actual) is type(expected)
    is_array = isinstance(actual, Tensor) or hasattr(actual, "__array__")
    if not is_array or not related or not (rules.allow_subclasses or same):
        fail(
            TypeError,
            "assert_close",
            (
                f"No comparison pair was able to handle inputs of type {type(actual)} and "
                f"{type(expected)}."
            ),
            hint="tensors, numbers, arrays, and lists and dicts of them can be compared",
        )


# ------------------------------------------------------------------ leaves


def _compare(pair: _Pair, rules: _Rules) -> None:
    actual, expected = pair.actual, pair.expected
    if actual is None or expected is None:
        if actual is not expected:
            raise _Difference(f"None mismatch: {actual} is not {expected}")
    elif _is_bool(actual) and _is_bool(expected):
        if bool(actual) is not bool(expected):
            raise _Difference(f"Booleans mismatch: {bool(actual)} is not {bool(expected)}")
    elif _is_number(actual) and _is_number(expected):
        _compare_numbers(actual, expected, rules)
    else:
        _compare_tensors(_as_tensor(actual), _as_tensor(expected), rules)


def _as_tensor(value: object) -> Tensor:
    return value if isinstance(value, Tensor) else facula.as_tensor(value)


def _compare_numbers(actual: float, expected: float, rules: _Rules) -> None:
    dtypes = [facula.tensor(value).dtype for value in (actual, expected)]
    if isinstance(actual, float) and isinstance(expected, float):
        dtypes = [facula.float64]
    elif complex in (type(actual), type(expected)):
        dtypes = [facula.complex128]
    elif float in (type(actual), type(expected)):
        dtypes = [facula.float64]
    rtol, atol = rules.tolerances(*dtypes)
    if rules.check_dtype and type(actual) is not type(expected):
        raise _Difference(
            f"The (d)types do not match: {type(actual)} != {type(expected)}.",
        )
    if actual == expected or (rules.equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
        return
    difference, bound = abs(actual - expected), atol + rtol * abs(expected)
    if cmath.isfinite(difference) and difference <= bound:
        return
    raise _Difference(_scalar_message(actual, expected, rtol, atol))


def _scalar_message(actual: Any, expected: Any, rtol: float, atol: float) -> str:
    difference = abs(actual - expected)
    relative = float("inf") if expected == 0 else difference / abs(expected)
    exact = rtol == 0 and atol == 0
    text = f"Scalars are not {'equal' if exact else 'close'}!\n\n"
    text += f"Expected {expected} but got {actual}.\nAbsolute difference: {difference}"
    text += "" if exact else f" (up to {atol} allowed)"
    text += f"\nRelative difference: {relative}"
    return text + ("" if exact else f" (up to {rtol} allowed)")


def _compare_tensors(actual: Tensor, expected: Tensor, rules: _Rules) -> None:
    _compare_attributes(actual, expected, rules)
    rtol, atol = rules.tolerances(actual, expected)
    actual, expected = actual.detach(), expected.detach()
    if actual.device != expected.device:
        actual, expected = actual.cpu(), expected.cpu()
    if actual.dtype != expected.dtype:
        dtype = facula.promote_types(actual.dtype, expected.dtype)
        actual, expected = actual.to(dtype), expected.to(dtype)
    for names, one, other in _dense_parts(actual, expected):
        exact = "indices" in (names or "")
        _compare_values(one, other, 0 if exact else rtol, 0 if exact else atol, rules, names)


def _compare_attributes(actual: Tensor, expected: Tensor, rules: _Rules) -> None:
    checks: list[tuple[str, bool, Any, Any]] = [("shape", True, actual.shape, expected.shape)]
    checks.append(("layout", rules.check_layout, actual.layout, expected.layout))
    if str(actual.layout) == str(expected.layout) and _is_strided(actual):
        strides = actual.stride(), expected.stride()
        checks.append(("stride()", rules.check_stride, *strides))
    checks.append(("device", rules.check_device, actual.device, expected.device))
    checks.append(("dtype", rules.check_dtype, actual.dtype, expected.dtype))
    for name, wanted, one, other in checks:
        if wanted and one != other:
            raise _Difference(f"The values for attribute '{name}' do not match: {one} != {other}.")


def _is_strided(tensor: Tensor) -> bool:
    return str(tensor.layout).endswith("strided")


def _dense_parts(actual: Tensor, expected: Tensor) -> Iterator[tuple[str | None, Tensor, Tensor]]:
    """What of two tensors is compared element by element, with a name where it is a part."""
    if _is_strided(actual) and _is_strided(expected):
        yield None, actual, expected
    elif str(actual.layout) != str(expected.layout):
        yield None, actual.to_dense(), expected.to_dense()
    elif str(actual.layout).endswith("sparse_coo"):
        one, other = actual.coalesce(), expected.coalesce()
        _same_count(one, other, "COO")
        yield "Sparse COO indices", one.indices(), other.indices()
        yield "Sparse COO values", one.values(), other.values()
    else:
        kind = str(actual.layout)[-3:].upper()
        rows = kind in ("CSR", "BSR")
        first, second = ("crow", "col") if rows else ("ccol", "row")
        _same_count(actual, expected, kind)
        for part in (f"{first}_indices", f"{second}_indices", "values"):
            names = f"Sparse {kind} {part}"
            yield names, getattr(actual, part)(), getattr(expected, part)()


def _same_count(actual: Tensor, expected: Tensor, kind: str) -> None:
    if actual._nnz() != expected._nnz():
        raise _Difference(
            f"The number of specified values in sparse {kind} tensors does not match: "
            f"{actual._nnz()} != {expected._nnz()}"
        )


def _compare_values(
    actual: Tensor, expected: Tensor, rtol: float, atol: float, rules: _Rules, name: str | None
) -> None:
    narrow = _is_low_precision(actual)
    if narrow:
        actual, expected = actual.to(facula.float32), expected.to(facula.float32)
    if actual.dtype is facula.uint64:  # isclose takes no order of uint64
        same = actual == expected
        actual, expected = actual.to(facula.float64), expected.to(facula.float64)
        near = facula.isclose(actual, expected, rtol=rtol, atol=atol) & (rtol + atol > 0)
        matches = same | near
    else:
        matches = facula.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=rules.equal_nan)
    if bool(matches.all()):
        return
    if narrow:
        raise _Difference(_narrow_message(matches))
    if actual.dim() == 0:
        raise _Difference(_scalar_message(actual.item(), expected.item(), rtol, atol))
    raise _Difference(_tensor_message(actual, expected, matches, rtol, atol, name))


def _is_low_precision(tensor: Tensor) -> bool:
    """8-bit floats are storage formats: they are compared as float32."""
    return tensor.dtype.is_floating_point and tensor.dtype.itemsize == 1


def _narrow_message(matches: Tensor) -> str:
    """What is said of dtypes too coarse for a difference to mean much."""
    wrong, count = int((~matches).sum()), matches.numel()
    text = f"Tensor-likes are not 'equal'!\n\nMismatched elements: {wrong} / {count} "
    place = _unravelled(int((~matches).flatten().to(facula.int64).argmax()), tuple(matches.shape))
    return text + f"({wrong / count:.1%})\nThe first mismatched element is at index {place}."


def _tensor_message(
    actual: Tensor, expected: Tensor, matches: Tensor, rtol: float, atol: float, name: str | None
) -> str:
    shape, count = tuple(matches.shape), matches.numel()
    wrong = count - int(matches.sum())
    exact = rtol == 0 and atol == 0
    if not actual.dtype.is_floating_point and not actual.dtype.is_complex:
        actual, expected = actual.to(facula.int64), expected.to(facula.int64)
    hidden = matches.flatten()
    difference = (actual.flatten() - expected.flatten()).abs()
    absolute = difference.masked_fill(hidden, 0)
    relative = (difference / expected.flatten().abs()).masked_fill(hidden, 0)
    text = f"{name or 'Tensor-likes'} are not {'equal' if exact else 'close'}!\n\n"
    text += f"Mismatched elements: {wrong} / {count} ({wrong / count:.1%})"
    for kind, values, bound in (("absolute", absolute, atol), ("relative", relative, rtol)):
        at = int(values.argmax())
        place = _unravelled(at, shape)
        text += f"\nGreatest {kind} difference: {values[at].item()} at index {place}"
        text += "" if exact else f" (up to {bound} allowed)"
    return text


def _unravelled(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index, one number a dimension, of a position in the flattened tensor."""
    index = []
    for size in reversed(shape):
        position, rest = divmod(position, size)
        index.append(rest)
    return tuple(reversed(index))


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """The older name: like `assert_close`, without checks of dtype and stride.

    Args:
        actual: a tensor or numbers
        expected: the same
        rtol, atol: given together or not at all
        equal_nan: whether nan is equal to nan
        msg: the message of the error

    Raises:
        AssertionError: they are not close.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", FutureWarning)
        ...     facula.testing.assert_allclose(facula.tensor([1.0]), [1.0])
    """
    warnings.warn("assert_allclose is deprecated: use assert_close", FutureWarning, stacklevel=2)
    if not isinstance(actual, Tensor):
        actual = facula.tensor(actual)
    if not isinstance(expected, Tensor):
        expected = facula.tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        rtol, atol = default_tolerances(actual, expected)
    assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        check_stride=False,
        msg=msg or None,
    )
