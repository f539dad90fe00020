"""A column: values of one type, some of which may be null.

Takes: lists, tensors, arrays of pyarrow. Gives: `Column`, with arithmetic, functions of strings, lists and numbers, and
tensors.
Keeps true: a null stays null in everything that is computed; a column without nulls shares its memory with tensors.
"""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from facula import core
from facula.core.errors import fail

from .._extras import extra
from . import dtypes as dt

__all__ = ["Column", "column", "from_arrow_array"]

WithPresence = namedtuple("WithPresence", ["values", "presence"])
PackedList = namedtuple("PackedList", ["values", "offsets"])
PackedMap = namedtuple("PackedMap", ["keys", "values"])


def _pa() -> Any:
    return extra("pyarrow", "arrow")


def _pc() -> Any:
    return extra("pyarrow.compute", "arrow")


def _array(data: Any, dtype: Any) -> Any:
    """pyarrow's array of some values."""
    pa = _pa()
    try:
        found = pa.array(data, type=None if dtype is None else dtype.to_arrow(), from_pandas=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError) as error:
        required = (
            "values of one type were required"
            if dtype is None
            else f"values of {dtype} were required"
        )
        fail(TypeError, "arrow.column", required, error, hint="None stands for a null")
    return found.cast(pa.int64()) if pa.types.is_null(found.type) else found


def column(data: Any = (), dtype: Any = None) -> Column:
    """A column of values; their type is found where it is not given."""
    if isinstance(data, dt.DType):
        data, dtype = (), data
    if isinstance(data, Column):
        return data if dtype is None else data.cast(dtype)
    if isinstance(data, core.Tensor):
        data = data.detach().cpu().contiguous().numpy()
    pa = _pa()
    if isinstance(data, pa.ChunkedArray):
        data = data.combine_chunks()
    array = data if isinstance(data, pa.Array) and dtype is None else _array(_values(data), dtype)
    if dtype is not None and array.null_count and not dtype.nullable:
        required = f"values other than null were required of {dtype}"
        hint = f"{type(dtype).__name__}(..., nullable=True) takes nulls"
        fail(ValueError, "arrow.column", required, f"{array.null_count} nulls", hint=hint)
    return Column(array, dtype or dt.from_arrow(array.type, array.null_count > 0))


def _values(data: Any) -> Any:
    return data if isinstance(data, (list, tuple)) or hasattr(data, "__array__") else list(data)


def from_arrow_array(array: Any, dtype: Any = None) -> Column:
    """A column on the memory of pyarrow's array."""
    return column(array, dtype)


class _Functions:
    """Functions of a column that stand together under a word (`.str`, `.list`)."""

    def __init__(self, owner: Column) -> None:
        self._owner = owner

    def _do(self, name: str, *args: Any, **options: Any) -> Column:
        return self._owner._made(getattr(_pc(), name)(self._owner._array, *args, **options))


class StringFunctions(_Functions):
    """Functions of strings."""

    def length(self) -> Column:
        """How many characters there are."""
        return self._do("utf8_length").cast(dt.int64)

    def upper(self) -> Column:
        """In capitals."""
        return self._do("utf8_upper")

    def lower(self) -> Column:
        """In small letters."""
        return self._do("utf8_lower")

    def strip(self) -> Column:
        """Without spaces at the ends."""
        return self._do("utf8_trim_whitespace")

    def split(self, sep: str | None = None, maxsplit: int = -1) -> Column:
        """Parts between separators."""
        most = None if maxsplit < 0 else maxsplit
        if sep is None:
            return self._do("utf8_split_whitespace", max_splits=most)
        return self._do("split_pattern", pattern=sep, max_splits=most)

    def cat(self, other: Any) -> Column:
        """Two strings as one."""
        return self._owner._made(
            _pc().binary_join_element_wise(self._owner._array, _raw(other), "")
        )

    def slice(self, start: int = 0, stop: int | None = None) -> Column:
        """A part."""
        return self._do("utf8_slice_codeunits", start=start, stop=stop)

    def contains(self, pat: str, regex: bool = False) -> Column:
        """Whether a text, or a pattern, stands somewhere."""
        return self._do("match_substring_regex" if regex else "match_substring", pattern=pat)

    def startswith(self, pat: str) -> Column:
        """Whether a text stands at the start."""
        return self._do("starts_with", pattern=pat)

    def endswith(self, pat: str) -> Column:
        """Whether a text stands at the end."""
        return self._do("ends_with", pattern=pat)

    def replace(self, pat: str, repl: str, regex: bool = False) -> Column:
        """One text in the place of another."""
        name = "replace_substring_regex" if regex else "replace_substring"
        return self._do(name, pattern=pat, replacement=repl)

    def find(self, sub: str) -> Column:
        """Where a text begins; -1 where it does not stand."""
        return self._do("find_substring", pattern=sub).cast(dt.int64)

    def isalpha(self) -> Column:
        """Whether all characters are letters."""
        return self._do("utf8_is_alpha")

    def isdigit(self) -> Column:
        """Whether all characters are digits."""
        return self._do("utf8_is_digit")


class ListFunctions(_Functions):
    """Functions of lists."""

    def length(self) -> Column:
        """How many values there are."""
        return self._do("list_value_length").cast(dt.int64)

    def get(self, i: int) -> Column:
        """The value at a place."""
        return self._each(lambda row: row[i])

    def slice(self, start: int = 0, stop: int | None = None) -> Column:
        """A part."""
        return self._each(lambda row: row[start:stop], self._owner.dtype)

    def join(self, sep: str) -> Column:
        """Strings as one."""
        return self._do("binary_join", sep)

    def vmap(self, function: Callable[[Column], Column]) -> Column:
        """A function of all values at once."""
        pa, array = _pa(), self._owner._array
        inside = function(Column(array.flatten(), dt.from_arrow(array.type.value_type)))
        lengths = [0]
        for row in array.to_pylist():
            lengths.append(lengths[-1] + len(row or ()))
        found = pa.ListArray.from_arrays(pa.array(lengths, pa.int32()), inside._array)
        if array.null_count:
            found = _pc().if_else(_pc().is_valid(array), found, pa.scalar(None, found.type))
        return Column(found, dt.List(inside.dtype, self._owner.dtype.nullable))

    def _each(self, function: Callable[[Any], Any], dtype: Any = None) -> Column:
        rows = [None if row is None else function(row) for row in self._owner]
        return column(rows, dtype)


def _raw(value: Any) -> Any:
    if isinstance(value, Column):
        return value._array
    return _pa().scalar(value) if isinstance(value, (bool, int, float, str)) else value


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

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return Column(self._array[key], self.dtype)
        if isinstance(key, Column):
            return Column(self._array.filter(key._array), self.dtype)
        if isinstance(key, (list, tuple)):
            return Column(self._array.take(_pa().array(list(key))), self.dtype)
        if not -len(self) <= key < len(self):
            required, hint = (
                f"a row from {-len(self)} to {len(self) - 1} was required",
                "rows begin at 0",
            )
            fail(IndexError, "arrow", required, key, hint=hint)
        return self[key % len(self) : key % len(self) + 1].to_pylist()[0]

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
        return Column(array, dt.from_arrow(array.type, self.dtype.nullable or array.null_count > 0))

    def _with(self, name: str, other: Any, turned: bool = False) -> Column:
        pa = _pa()
        sides = (_raw(other), self._array) if turned else (self._array, _raw(other))
        try:
            return self._made(getattr(_pc(), name)(*sides))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError) as error:
            got, hint = str(error).splitlines()[0], "cast() changes the type of a column"
            return fail(
                TypeError, "arrow", f"columns that {name} takes were required", got, hint=hint
            )

    def __add__(self, other: Any) -> Column:
        return (
            self.str.cat(other) if isinstance(self.dtype, dt.String) else self._with("add", other)
        )

    def __radd__(self, other: Any) -> Column:
        return self._with("add", other, True)

    def __sub__(self, other: Any) -> Column:
        return self._with("subtract", other)

    def __rsub__(self, other: Any) -> Column:
        return self._with("subtract", other, True)

    def __mul__(self, other: Any) -> Column:
        return self._with("multiply", other)

    def __rmul__(self, other: Any) -> Column:
        return self._with("multiply", other, True)

    def __truediv__(self, other: Any) -> Column:
        return self.cast(dt.float64)._with("divide", other)

    def __rtruediv__(self, other: Any) -> Column:
        return self.cast(dt.float64)._with("divide", other, True)

    def __floordiv__(self, other: Any) -> Column:
        found = self._made(_pc().floor((self / other)._array))
        whole = dt.is_integer(self.dtype) and not isinstance(other, float)
        return found.cast(self.dtype) if whole else found

    def __mod__(self, other: Any) -> Column:
        return self - (self // other) * other

    def __pow__(self, other: Any) -> Column:
        return self._with("power", other)

    def __neg__(self) -> Column:
        return self._made(_pc().negate(self._array))

    def __invert__(self) -> Column:
        return self._made(_pc().invert(self._array))

    def __and__(self, other: Any) -> Column:
        return self._with("and_kleene", other)

    def __or__(self, other: Any) -> Column:
        return self._with("or_kleene", other)

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
        return self._made(_pc().abs(self._array))

    def ceil(self) -> Column:
        """Rounded up."""
        return self._made(_pc().ceil(self._array))

    def floor(self) -> Column:
        """Rounded down."""
        return self._made(_pc().floor(self._array))

    def round(self, decimals: int = 0) -> Column:
        """Rounded."""
        return self._made(_pc().round(self._array, ndigits=decimals))

    def log(self) -> Column:
        """Natural logarithms."""
        return self.cast(dt.float64)._made(_pc().ln(self.cast(dt.float64)._array))

    def isin(self, values: Iterable[Any]) -> Column:
        """Whether each value is one of some."""
        return self._made(_pc().is_in(self._array, value_set=_array(list(values), None)))

    def cast(self, dtype: dt.DType) -> Column:
        """The same values in another type."""
        pa = _pa()
        try:
            array = self._array.cast(dtype.to_arrow())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            got, hint = str(error).splitlines()[0], "map() with a function converts anything"
            fail(TypeError, "arrow.cast", f"values of {dtype} were required", got, hint=hint)
        return Column(array, dtype.with_null(dtype.nullable or self.dtype.nullable))

    astype = cast

    # ---- nulls ----

    def fill_null(self, fill_value: Any) -> Column:
        """A value in the place of nulls."""
        return Column(self._array.fill_null(fill_value), self.dtype.with_null(False))

    def drop_null(self) -> Column:
        """Without nulls."""
        return Column(self._array.drop_null(), self.dtype.with_null(False))

    def is_null(self) -> Column:
        """Whether each value is null."""
        return Column(self._array.is_null(), dt.boolean)

    def drop_duplicates(self) -> Column:
        """Each value once."""
        return Column(self._array.unique(), self.dtype)

    # ---- all values as one ----

    def _whole(self, name: str) -> Any:
        return getattr(_pc(), name)(self._array).as_py()

    def sum(self) -> Any:
        """The sum."""
        return self._whole("sum")

    def mean(self) -> Any:
        """The mean."""
        return self._whole("mean")

    def min(self) -> Any:
        """The smallest value."""
        return self._whole("min")

    def max(self) -> Any:
        """The largest value."""
        return self._whole("max")

    def std(self) -> Any:
        """The deviation of a sample."""
        return _pc().stddev(self._array, ddof=1).as_py()

    def median(self) -> Any:
        """The value in the middle."""
        return _pc().quantile(self._array, 0.5)[0].as_py()

    def all(self) -> Any:
        """Whether all are true."""
        return self._whole("all")

    def any(self) -> Any:
        """Whether one is true."""
        return self._whole("any")

    def sort(self, ascending: bool = True) -> Column:
        """In order; nulls come last."""
        order = "ascending" if ascending else "descending"
        return Column(
            self._array.take(_pc().array_sort_indices(self._array, order=order)), self.dtype
        )

    # ---- functions of the program ----

    def map(
        self, arg: Any, dtype: Any = None, na_action: str | None = None, columns: Any = None
    ) -> Column:
        """A function of each value, or what a dictionary has for it (null where it has nothing)."""
        if isinstance(arg, dict):
            return column([arg.get(value) for value in self], dtype)
        skip = na_action == "ignore"
        rows = [None if value is None and skip else arg(value) for value in self]
        return column(rows, dtype or (self.dtype if not rows else None))

    def filter(self, predicate: Any) -> Column:
        """The values for which a function, or a list of bools, says yes."""
        keep = [bool(predicate(v)) for v in self] if callable(predicate) else list(predicate)
        return Column(self._array.filter(_pa().array(keep, _pa().bool_())), self.dtype)

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
        self, func: Any, dtype: Any = None, format: str = "column", columns: Any = None
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
        if conversion is not None:
            return conversion(self)
        if self.dtype.nullable:
            present = _tensor(_pc().is_valid(self._array))
            plain = (
                self
                if isinstance(self.dtype, (dt.List, dt.String))
                else self.fill_null(_zero(self.dtype))
            )
            return WithPresence(
                Column(plain._array, self.dtype.with_null(False)).to_tensor(), present
            )
        if isinstance(self.dtype, dt.String):
            return self.to_pylist()
        if isinstance(self.dtype, dt.List):
            array = self._array
            inside = Column(array.flatten(), self.dtype.item_dtype)
            lengths = _pc().fill_null(_pc().list_value_length(array), 0)
            sizes = _tensor(lengths.cast(_pa().int64()))
            offsets = core.Tensor.new_zeros(sizes, (len(array) + 1,))
            offsets[1:] = sizes.cumsum(0)
            return PackedList(inside.to_tensor(), offsets.to(core.int32))
        if isinstance(self.dtype, dt.Map):
            pa = _pa()
            parts = [
                pa.ListArray.from_arrays(self._array.offsets, x)
                for x in (self._array.keys, self._array.items)
            ]
            return PackedMap(*[column(part).to_tensor() for part in parts])
        return _tensor(self._array)

    @property
    def str(self) -> StringFunctions:
        """Functions of strings."""
        return StringFunctions(self)

    @property
    def list(self) -> ListFunctions:
        """Functions of lists."""
        return ListFunctions(self)


def _zero(dtype: dt.DType) -> Any:
    return False if isinstance(dtype, dt.Boolean) else 0


def _tensor(array: Any) -> Any:
    """A tensor on the memory of an array without nulls; bools are bits there, and are copied."""
    import warnings

    if not len(array):
        return core.from_numpy(array.to_numpy(zero_copy_only=False).copy())
    values = array.to_numpy(zero_copy_only=False)
    with warnings.catch_warnings():  # the memory is pyarrow's, which nobody should write to
        warnings.simplefilter("ignore")
        return core.from_numpy(values if values.flags.writeable else values.copy())
