"""A column: values of one type, some of which may be null.

Takes: lists, tensors, arrays of pyarrow. Gives: `Column`, with arithmetic, functions of strings, lists and numbers, and
tensors.
Keeps true: a null stays null in everything that is computed; a column without nulls shares its memory with tensors.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from facula import core
from facula.core.errors import fail

from .._extras import extra
from . import dtypes as dt
from .computing import (
    computed,
    exact_sum,
    floored,
    in_floats,
    of_one_zero,
    quotient,
    refusing,
    remainder,
)
from .fitting import misfit
from .strings import ListFunctions, MapFunctions, StringFunctions
from .tensors import PackedList, PackedMap, WithPresence, packed_array, to_tensor

__all__ = ["Column", "column", "from_arrow_array"]


def _pa() -> Any:
    return extra("pyarrow", "arrow")


def _array(data: object, dtype: Any) -> Any:
    """pyarrow's array of some values."""
    pa = _pa()
    wrong = misfit(data, dtype) if dtype is not None and isinstance(data, (list, tuple)) else None
    if wrong is not None:
        required, hint = f"values of {dtype} were required", "no value is cut to fit: round() it"
        fail(TypeError, "arrow.column", required, wrong, hint=hint)
    try:
        return pa.array(data, type=None if dtype is None else dtype.to_arrow(), from_pandas=False)
    except (pa.ArrowException, TypeError, OverflowError, ValueError, AttributeError) as error:
        required = (
            "values of one type were required"
            if dtype is None
            else f"values of {dtype} were required"
        )
        fail(TypeError, "arrow.column", required, error, hint="None stands for a null")


def column(data: object = (), dtype: Any = None) -> Column:
    """A column of values (a list, a tensor, what `to_tensor` gave); their type is found where it is not given."""
    if isinstance(data, dt.DType):
        data, dtype = (), data
    if isinstance(data, Column):
        return data if dtype is None else data.cast(dtype)
    pa = _pa()
    if isinstance(data, (WithPresence, PackedList, PackedMap)):
        data = refusing("column", lambda: packed_array(data, lambda part: column(part)._array))
    if isinstance(data, core.Tensor):
        data = data.detach().cpu().contiguous().numpy()
    if isinstance(data, pa.ChunkedArray):
        data = data.combine_chunks()
    if isinstance(data, pa.ChunkedArray):  # of no chunks, or of more than fit into one
        data = pa.concat_arrays(data.chunks) if data.num_chunks else pa.array([], data.type)
    array = data if isinstance(data, pa.Array) and dtype is None else _array(_values(data), dtype)
    if dtype is None:
        found = dt.of_array(array)
        kind = found.to_arrow()
        return Column(array if array.type == kind else computed("cast", array, kind), found)
    if not dt.takes(dtype, dt.of_array(array)):
        required = f"values other than null were required of {dtype}"
        hint = f"{type(dtype).__name__}(..., nullable=True) takes nulls"
        fail(ValueError, "arrow.column", required, f"{array.null_count} nulls", hint=hint)
    return Column(array, dtype)


def _values(data: Any) -> Any:
    if isinstance(data, (list, tuple)) or hasattr(data, "__array__"):
        return data
    return refusing("column", lambda: list(data))


def from_arrow_array(array: Any, dtype: core.dtype | None = None) -> Column:
    """A column on the memory of pyarrow's array."""
    return column(array, dtype)


class Column:
    """Values of one type."""

    def __init__(self, array: Any, dtype: dt.DType) -> None:
        self._array, self.dtype = array, dtype

    # ---- looking ----

    def __len__(self) -> int:
        return len(self._array)

    @property
    def length(self) -> int:
        """How many values there are."""
        return len(self._array)

    @property
    def null_count(self) -> int:
        """How many are null."""
        return self._array.null_count

    @property
    def is_nullable(self) -> bool:
        """Whether the type takes nulls."""
        return self.dtype.nullable

    def to_pylist(self) -> list[Any]:
        """The values as a list."""
        rows = self._array.to_pylist()
        if isinstance(self.dtype, dt.Map):
            return [None if row is None else dict(row) for row in rows]
        return rows

    def to_arrow(self) -> Any:
        """pyarrow's array, on the same memory."""
        return self._array

    def __iter__(self) -> Iterator[Any]:
        return iter(self.to_pylist())

    def __getitem__(self, key: object) -> Any:
        if isinstance(key, slice):
            return Column(self._array[key], self.dtype)
        if isinstance(key, (list, tuple)) and key and all(isinstance(k, bool) for k in key):
            key = column(key)
        if isinstance(key, Column):
            return Column(self._chosen(key), self.dtype)
        if isinstance(key, (list, tuple)):
            places = _array(
                [k + len(self) if isinstance(k, int) and k < 0 else k for k in key], dt.int64
            )
            return Column(computed("take", self._array, places), self.dtype)
        if not isinstance(key, int):
            required, hint = "a row, a slice, rows or a column of bools were required", "column[0]"
            fail(TypeError, "arrow", required, type(key).__name__, hint=hint)
        if not -len(self) <= key < len(self):
            required, hint = (
                f"a row from {-len(self)} to {len(self) - 1} was required",
                "rows begin at 0",
            )
            fail(IndexError, "arrow", required, key, hint=hint)
        return self[key % len(self) : key % len(self) + 1].to_pylist()[0]

    def _chosen(self, mask: Column) -> Any:
        if not isinstance(mask.dtype, dt.Boolean) or len(mask) != len(self):
            required, hint = f"{len(self)} bools were required", "one for each row"
            fail(
                ValueError,
                "arrow.filter",
                required,
                f"{len(mask)} values of {mask.dtype}",
                hint=hint,
            )
        return self._array.filter(mask._array)

    def __repr__(self) -> str:
        rows = "\n".join(f"{i}  {value!r}" for i, value in enumerate(self[:10]))
        return f"{rows}\ndtype: {self.dtype}, length: {len(self)}, null_count: {self.null_count}"

    def head(self, n: int = 5) -> Column:
        """The first values."""
        return self[:n]

    def tail(self, n: int = 5) -> Column:
        """The last values."""
        return self[max(len(self) - n, 0) :]

    # ---- computing ----

    def _made(self, array: Any) -> Column:
        pa = _pa()
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        found = dt.of_array(array)
        return Column(array, found.with_null(self.dtype.nullable or found.nullable))

    def _of_rows(self, rows: Any, dtype: core.dtype | None = None) -> Column:
        return column(rows, dtype)

    def _raw(self, value: object) -> Any:
        if isinstance(value, (list, tuple, core.Tensor)):
            value = column(value)
        if not isinstance(value, Column):
            return refusing("column", lambda: _pa().scalar(value))
        if len(value) != len(self):
            required, hint = f"a column of {len(self)} values was required", "one for each row"
            fail(ValueError, "arrow", required, len(value), hint=hint)
        return value._array

    def _with(self, function: Any, other: Any, turned: bool = False) -> Column:
        sides = (self._raw(other), self._array) if turned else (self._array, self._raw(other))
        return self._made(
            computed(function, *sides) if isinstance(function, str) else function(*sides)
        )

    def _float(self) -> Column:
        """As floats."""
        return self._made(in_floats(self._array))

    def __add__(self, other: Any) -> Column:
        return (
            self.str.cat(other)
            if isinstance(self.dtype, dt.String)
            else self._with("add_checked", other)
        )

    def __radd__(self, other: Any) -> Column:
        if isinstance(self.dtype, dt.String):
            return self._with(
                lambda left, right: computed("binary_join_element_wise", left, right, ""),
                other,
                True,
            )
        return self._with("add_checked", other, True)

    def __sub__(self, other: Any) -> Column:
        return self._with("subtract_checked", other)

    def __rsub__(self, other: Any) -> Column:
        return self._with("subtract_checked", other, True)

    def __mul__(self, other: Any) -> Column:
        return self._with("multiply_checked", other)

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> Column:
        return self._with(quotient, other)

    def __rtruediv__(self, other: object) -> Column:
        return self._with(quotient, other, True)

    def __floordiv__(self, other: object) -> Column:
        return self._with(floored, other)

    def __rfloordiv__(self, other: object) -> Column:
        return self._with(floored, other, True)

    def __mod__(self, other: object) -> Column:
        return self._with(remainder, other)

    def __rmod__(self, other: object) -> Column:
        return self._with(remainder, other, True)

    def __pow__(self, other: Any) -> Column:
        return self._with("power_checked", other)

    def __rpow__(self, other: Any) -> Column:
        return self._with("power_checked", other, True)

    def __neg__(self) -> Column:
        return self._made(computed("negate_checked", self._array))

    def __invert__(self) -> Column:
        return self._made(computed("invert", self._array))

    def __and__(self, other: Any) -> Column:
        return self._with("and_kleene", other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Column:
        return self._with("or_kleene", other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Column:
        return self._with("xor", other)

    __rxor__ = __xor__

    def __eq__(self, other: object) -> Any:
        return self._with("equal", other)

    def __ne__(self, other: object) -> Any:
        return self._with("not_equal", other)

    def __lt__(self, other: Any) -> Column:
        return self._with("less", other)

    def __le__(self, other: Any) -> Column:
        return self._with("less_equal", other)

    def __gt__(self, other: Any) -> Column:
        return self._with("greater", other)

    def __ge__(self, other: Any) -> Column:
        return self._with("greater_equal", other)

    __hash__ = None  # type: ignore[assignment]

    def abs(self) -> Column:
        """Without signs."""
        return self._made(computed("abs_checked", self._array))

    def ceil(self) -> Column:
        """Rounded up."""
        return self._made(computed("ceil", self._array))

    def floor(self) -> Column:
        """Rounded down."""
        return self._made(computed("floor", self._array))

    def round(self, decimals: int = 0) -> Column:
        """Rounded; halves go to the even neighbour, as in Python."""
        return self._made(
            computed("round", self._array, ndigits=decimals, round_mode="half_to_even")
        )

    def sign(self) -> Column:
        """-1, 0 or 1."""
        return self._made(computed("sign", self._array))

    def exp(self) -> Column:
        """Powers of e."""
        return self._made(computed("exp", self._float()._array))

    def log(self) -> Column:
        """Natural logarithms."""
        return self._made(computed("ln", self._float()._array))

    def log2(self) -> Column:
        """Logarithms to the base 2."""
        return self._made(computed("log2", self._float()._array))

    def log10(self) -> Column:
        """Logarithms to the base 10."""
        return self._made(computed("log10", self._float()._array))

    def sqrt(self) -> Column:
        """Square roots."""
        return self._made(computed("sqrt", self._float()._array))

    def cumsum(self) -> Column:
        """Sums of all values up to each; those of nulls are null."""
        return self._made(computed("cumulative_sum_checked", self._array, skip_nulls=True))

    def cumprod(self) -> Column:
        """Products of all values up to each."""
        return self._made(computed("cumulative_prod_checked", self._array, skip_nulls=True))

    def cummax(self) -> Column:
        """The largest value up to each."""
        return self._made(computed("cumulative_max", self._array, skip_nulls=True))

    def cummin(self) -> Column:
        """The smallest value up to each."""
        return self._made(computed("cumulative_min", self._array, skip_nulls=True))

    def isin(self, values: Iterable[Any]) -> Column:
        """Whether each value is one of some."""
        return self._made(
            computed(
                "is_in",
                of_one_zero(self._array),
                value_set=of_one_zero(_array(list(values), self.dtype.with_null())),
            )
        )

    def cast(self, dtype: dt.DType) -> Column:
        """The same values in another type."""
        if not isinstance(dtype, dt.DType):
            required, hint = "a type of facula.arrow was required", "arrow.float64"
            fail(TypeError, "arrow.cast", required, type(dtype).__name__, hint=hint)
        array = computed("cast", self._array, dtype.to_arrow())
        found = dt.of_array(array)
        kind = dtype if dt.takes(dtype.with_null(), found) else found
        return Column(array, kind.with_null(dtype.nullable or self.dtype.nullable))

    astype = cast

    def append(self, values: object) -> Column:
        """With more values behind these."""
        more = (
            column(values) if isinstance(values, Column) else column(values, self.dtype.with_null())
        )
        return self._made(
            refusing("append", lambda: _pa().concat_arrays([self._array, more._array]))
        )

    def copy(self) -> Column:
        """The same column: columns do not change."""
        return Column(self._array, self.dtype)

    # ---- nulls ----

    def fill_null(self, fill_value: Any) -> Column:
        """A value in the place of nulls."""
        kind = self._array.type
        value = refusing("fill_null", lambda: _pa().scalar(fill_value, kind))
        if not value.is_valid:
            required, hint = "a value other than null was required", "drop_null() leaves rows out"
            fail(ValueError, "arrow.fill_null", required, fill_value, hint=hint)
        if isinstance(self.dtype, (dt.List, dt.Map, dt.Struct)):
            rows = [fill_value if row is None else row for row in self]
            return column(rows, self.dtype.with_null(False))
        return Column(computed("fill_null", self._array, value), self.dtype.with_null(False))

    def drop_null(self) -> Column:
        """Without nulls."""
        return Column(self._array.drop_null(), self.dtype.with_null(False))

    def is_null(self) -> Column:
        """Whether each value is null."""
        return Column(self._array.is_null(), dt.boolean)

    def is_valid(self) -> Column:
        """Whether each value is there."""
        return Column(self._array.is_valid(), dt.boolean)

    def is_valid_at(self, i: int) -> bool:
        """Whether the value of a row is there."""
        return self[i] is not None

    def drop_duplicates(self) -> Column:
        """Each value once."""
        return Column(refusing("drop_duplicates", of_one_zero(self._array).unique), self.dtype)

    unique = drop_duplicates

    # ---- all values as one ----

    def sum(self) -> Any:
        """The sum; of whole numbers it is exact, and of none of them null."""
        return exact_sum(self._array)

    def mean(self) -> Any:
        """The mean; of whole numbers, their exact sum divided by how many there are."""
        if dt.is_integer(self.dtype):
            return self.sum() / self.count() if self.count() else None
        return computed("mean", self._array).as_py()

    def prod(self) -> Any:
        """The product."""
        if dt.is_integer(self.dtype):
            rows = [value for value in self if value is not None]
            return math.prod(rows) if rows else None
        return computed("product", self._array).as_py()

    def min(self) -> Any:
        """The smallest value."""
        return computed("min", self._array).as_py()

    def max(self) -> Any:
        """The largest value."""
        return computed("max", self._array).as_py()

    def std(self, ddof: int = 1) -> Any:
        """The deviation of a sample."""
        return computed("stddev", self._array, ddof=ddof).as_py()

    def var(self, ddof: int = 1) -> Any:
        """The square of the deviation."""
        return computed("variance", self._array, ddof=ddof).as_py()

    def median(self) -> Any:
        """The value in the middle."""
        return self.quantile(0.5)

    def quantile(self, q: float) -> Any:
        """The value that a share of the values does not exceed, between neighbours where it falls between them."""
        if not 0 <= q <= 1:
            fail(
                ValueError,
                "arrow.quantile",
                "a share from 0 to 1 was required",
                q,
                hint="0.5 is the median",
            )
        return computed("quantile", self._array, q)[0].as_py()

    def mode(self) -> Any:
        """The value that comes most often, the smallest of several."""
        found = computed("mode", self._array)
        return found[0]["mode"].as_py() if len(found) else None

    def count(self) -> int:
        """How many values are not null."""
        return len(self) - self.null_count

    def nunique(self) -> int:
        """How many different values there are, without nulls."""
        return computed("count_distinct", of_one_zero(self._array)).as_py()

    def is_unique(self) -> bool:
        """Whether no value comes twice."""
        return computed("count_distinct", of_one_zero(self._array), mode="all").as_py() == len(self)

    def is_monotonic_increasing(self) -> bool:
        """Whether no value is below the one before."""
        return self._is_ordered("less_equal")

    def is_monotonic_decreasing(self) -> bool:
        """Whether no value is above the one before."""
        return self._is_ordered("greater_equal")

    def _is_ordered(self, name: str) -> bool:
        if self.null_count:
            return False
        found = computed("all", computed(name, self._array[:-1], self._array[1:])).as_py()
        return found is not False

    def all(self) -> Any:
        """Whether all are true."""
        return computed("all", self._array).as_py()

    def any(self) -> Any:
        """Whether one is true."""
        return computed("any", self._array).as_py()

    def sort(self, ascending: bool = True) -> Column:
        """In order; nulls come last."""
        order = "ascending" if ascending else "descending"
        return Column(
            self._array.take(computed("array_sort_indices", self._array, order=order)), self.dtype
        )

    def nlargest(self, n: int = 5) -> Column:
        """The largest values, the largest first."""
        return self.drop_null().sort(ascending=False).head(n)

    def nsmallest(self, n: int = 5) -> Column:
        """The smallest values, the smallest first."""
        return self.drop_null().sort().head(n)

    # ---- functions of the program ----

    def map(
        self, arg: Any, dtype: Any = None, na_action: str | None = None, columns: Any = None
    ) -> Column:
        """A function of each value, or what a dictionary has for it (null where it has nothing, and no default)."""
        if isinstance(arg, dict):
            get = arg.__getitem__ if hasattr(arg, "__missing__") else arg.get
            return column([get(value) for value in self], dtype)
        skip = na_action == "ignore"
        rows = [None if value is None and skip else arg(value) for value in self]
        return column(rows, dtype or (self.dtype if not rows else None))

    def filter(self, predicate: Any) -> Column:
        """The values for which a function, or a list of bools, says yes."""
        keep = [bool(predicate(v)) for v in self] if callable(predicate) else predicate
        mask = keep if isinstance(keep, Column) else column(list(keep), dt.Boolean(True))
        return Column(self._chosen(mask), self.dtype)

    def flatmap(self, arg: Any, dtype: Any = None) -> Column:
        """All values of the lists that a function gives for each."""
        return column([each for value in self for each in arg(value)], dtype or self.dtype)

    def reduce(
        self, fun: Callable[[Any, Any], Any], initializer: Any = None, finalizer: Any = None
    ) -> Any:
        """All values by a function of two."""
        start = () if initializer is None else (initializer,)
        found = functools.reduce(fun, self, *start)
        return found if finalizer is None else finalizer(found)

    def transform(
        self,
        func: Any,
        dtype: core.dtype | None = None,
        format: str = "column",
        columns: Any = None,
    ) -> Column:
        """A function of all values at once, as a "column", a "python" list or a "tensor"."""
        given = {
            "column": lambda: self,
            "python": self.to_pylist,
            "torch": self.to_tensor,
            "tensor": self.to_tensor,
        }
        if format not in given:
            required, hint = "the format 'column', 'python' or 'tensor' was required", "'column'"
            fail(ValueError, "arrow.transform", required, repr(format), hint=hint)
        found = column(func(given[format]()), dtype)
        if len(found) != len(self):
            required, hint = f"{len(self)} values were required of the function", "one for each"
            fail(ValueError, "arrow.transform", required, len(found), hint=hint)
        return found

    # ---- tensors ----

    def to_tensor(self, conversion: Any = None) -> Any:
        """A tensor; of a column with nulls `(values, presence)`, of lists `(values, offsets)`, of strings a list."""
        return conversion(self) if conversion is not None else to_tensor(self._array, self.dtype)

    @property
    def str(self) -> StringFunctions:
        """Functions of strings."""
        return StringFunctions(self)

    @property
    def list(self) -> ListFunctions:
        """Functions of lists."""
        return ListFunctions(self)

    @property
    def maps(self) -> MapFunctions:
        """Functions of maps."""
        return MapFunctions(self)
