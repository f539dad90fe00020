"""Functions of strings, lists and maps in columns: what stands under `.str`, `.list` and `.maps`.

Takes: a column. Gives: columns as long as it.
Keeps true: places in strings are counted in characters; a null stays null.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from facula.core.errors import fail

from .._extras import extra
from . import dtypes as dt
from .computing import computed

__all__ = ["ListFunctions", "MapFunctions", "StringFunctions"]


def _matches_nothing(pattern: str) -> bool:
    """Whether a pattern matches where there is no character."""
    try:
        return re.search(pattern, "") is not None
    except re.error:  # one that pyarrow alone knows, or refuses with its own words
        return False


class _Functions:
    """Functions of a column that stand together under a word."""

    kind: type[dt.DType]
    word: str

    def __init__(self, owner: Any) -> None:
        if not isinstance(owner.dtype, self.kind):
            required = f"a column of {self.kind.name} values was required"
            fail(
                TypeError,
                f"arrow.{self.word}",
                required,
                owner.dtype,
                hint="cast() changes the type of a column",
            )
        self._owner = owner

    def _do(self, name: str, *args: Any, **options: Any) -> Any:
        return self._owner._made(computed(name, self._owner._array, *args, **options))

    def _each(self, function: Callable[[Any], Any], dtype: Any = None) -> Any:
        rows = [None if row is None else function(row) for row in self._owner]
        return self._owner._of_rows(rows, dtype)


class StringFunctions(_Functions):
    """Functions of strings."""

    kind, word = dt.String, "str"

    def length(self) -> Any:
        """How many characters there are."""
        return self._do("utf8_length").cast(dt.int64)

    def upper(self) -> Any:
        """In capitals."""
        return self._do("utf8_upper")

    def lower(self) -> Any:
        """In small letters."""
        return self._do("utf8_lower")

    def capitalize(self) -> Any:
        """The first character in capitals, the others in small letters."""
        return self._do("utf8_capitalize")

    def title(self) -> Any:
        """The first character of each word in capitals."""
        return self._do("utf8_title")

    def swapcase(self) -> Any:
        """Capitals in small letters and the other way round."""
        return self._do("utf8_swapcase")

    def strip(self, chars: str | None = None) -> Any:
        """Without spaces, or some characters, at the ends."""
        return self._trimmed("trim", chars)

    def lstrip(self, chars: str | None = None) -> Any:
        """Without spaces, or some characters, at the start."""
        return self._trimmed("ltrim", chars)

    def rstrip(self, chars: str | None = None) -> Any:
        """Without spaces, or some characters, at the end."""
        return self._trimmed("rtrim", chars)

    def _whole(self) -> Any:
        """The type of a number for each."""
        return dt.int64.with_null(self._owner.dtype.nullable)

    def _trimmed(self, side: str, chars: str | None) -> Any:
        if chars is None:
            return self._do(f"utf8_{side}_whitespace")
        return self._do(f"utf8_{side}", characters=chars)

    def split(self, sep: str | None = None, maxsplit: int = -1) -> Any:
        """Parts between separators, or between runs of spaces."""
        if sep is None:  # runs of spaces, as in Python: pyarrow gives empty parts at the ends
            kind = dt.List(dt.string, self._owner.dtype.nullable)
            return self._each(lambda row: row.split(None, maxsplit), kind)
        most = None if maxsplit < 0 else maxsplit
        if not sep:
            fail(
                ValueError,
                "arrow.split",
                "a separator was required",
                repr(sep),
                hint="None splits at spaces",
            )
        return self._do("split_pattern", pattern=sep, max_splits=most)

    def cat(self, other: Any) -> Any:
        """Two strings as one."""
        return self._do("binary_join_element_wise", self._owner._raw(other), "")

    def repeat(self, repeats: int) -> Any:
        """A string several times."""
        return self._do("binary_repeat", max(repeats, 0))

    def slice(self, start: int = 0, stop: int | None = None) -> Any:
        """A part."""
        return self._do("utf8_slice_codeunits", start=start, stop=stop)

    def contains(self, pat: str, regex: bool = False) -> Any:
        """Whether a text, or a pattern, stands somewhere."""
        return self._do("match_substring_regex" if regex else "match_substring", pattern=pat)

    def count(self, pat: str, regex: bool = False) -> Any:
        """How often a text, or a pattern, stands there."""
        if regex and _matches_nothing(pat):  # pyarrow steps over bytes then, not characters
            return self._each(lambda row: sum(1 for _ in re.finditer(pat, row)), self._whole())
        if not pat:
            return self.length() + 1
        name = "count_substring_regex" if regex else "count_substring"
        return self._do(name, pattern=pat).cast(dt.int64)

    def match(self, pat: str) -> Any:
        """Whether a pattern stands at the start."""
        return self._do("match_substring_regex", pattern=f"^(?:{pat})")

    def startswith(self, pat: str) -> Any:
        """Whether a text stands at the start."""
        return self._do("starts_with", pattern=pat)

    def endswith(self, pat: str) -> Any:
        """Whether a text stands at the end."""
        return self._do("ends_with", pattern=pat)

    def replace(self, pat: str, repl: str, regex: bool = False) -> Any:
        """One text in the place of another."""
        if not pat and not regex:  # pyarrow does not end
            return self._each(lambda row: row.replace("", repl), self._owner.dtype)
        name = "replace_substring_regex" if regex else "replace_substring"
        return self._do(name, pattern=pat, replacement=repl)

    def find(self, sub: str) -> Any:
        """The character at which a text begins; -1 where it does not stand."""
        return self._each(lambda row: row.find(sub), self._whole())

    def isalpha(self) -> Any:
        """Whether all characters are letters."""
        return self._do("utf8_is_alpha")

    def isalnum(self) -> Any:
        """Whether all characters are letters or digits."""
        return self._do("utf8_is_alnum")

    def isdecimal(self) -> Any:
        """Whether all characters are decimal digits."""
        return self._do("utf8_is_decimal")

    def isdigit(self) -> Any:
        """Whether all characters are digits."""
        return self._do("utf8_is_digit")

    def isnumeric(self) -> Any:
        """Whether all characters stand for numbers."""
        return self._do("utf8_is_numeric")

    def islower(self) -> Any:
        """Whether all letters are small, and there is one."""
        return self._do("utf8_is_lower")

    def isupper(self) -> Any:
        """Whether all letters are capitals, and there is one."""
        return self._do("utf8_is_upper")

    def isspace(self) -> Any:
        """Whether all characters are spaces."""
        return self._do("utf8_is_space")

    def istitle(self) -> Any:
        """Whether words begin with capitals, and have no others."""
        return self._do("utf8_is_title")


class ListFunctions(_Functions):
    """Functions of lists."""

    kind, word = dt.List, "list"

    def length(self) -> Any:
        """How many values there are."""
        return self._do("list_value_length").cast(dt.int64)

    def get(self, i: int) -> Any:
        """The value at a place."""
        for row, values in enumerate(self._owner):
            if values is not None and not -len(values) <= i < len(values):
                required = f"lists with a place {i} were required"
                hint = "slice() takes shorter ones"
                fail(
                    IndexError,
                    "arrow.list.get",
                    required,
                    f"{len(values)} values in row {row}",
                    hint=hint,
                )
        return self._each(lambda row: row[i], self._owner.dtype.item_dtype.with_null())

    def slice(self, start: int = 0, stop: int | None = None) -> Any:
        """A part."""
        owner = self._owner.dtype
        return self._each(lambda row: row[start:stop], dt.List(owner.item_dtype, owner.nullable))

    def join(self, sep: str) -> Any:
        """Strings as one."""
        return self._do("binary_join", sep)

    def vmap(self, function: Callable[[Any], Any]) -> Any:
        """A function of all values at once."""
        pa, array = extra("pyarrow", "arrow"), self._owner._array
        given = array.flatten()
        inside = function(self._owner._made(given))
        if len(inside) != len(given):
            required, hint = f"{len(given)} values were required of the function", "one for each"
            fail(ValueError, "arrow.list.vmap", required, len(inside), hint=hint)
        lengths = [0]
        for row in array.to_pylist():
            lengths.append(lengths[-1] + len(row or ()))
        found = pa.ListArray.from_arrays(pa.array(lengths, pa.int32()), inside._array)
        if array.null_count:
            found = computed(
                "if_else", computed("is_valid", array), found, pa.scalar(None, found.type)
            )
        return self._owner._made(found)


class MapFunctions(_Functions):
    """Functions of maps."""

    kind, word = dt.Map, "maps"

    def keys(self) -> Any:
        """The keys, as lists."""
        owner = self._owner.dtype
        return self._each(list, dt.List(owner.key_dtype, owner.nullable))

    def values(self) -> Any:
        """The values, as lists."""
        owner = self._owner.dtype
        return self._each(lambda row: list(row.values()), dt.List(owner.item_dtype, owner.nullable))

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a key; a default, or null, where a map does not have it."""
        return self._each(
            lambda row: row.get(key, default), self._owner.dtype.item_dtype.with_null()
        )

    def length(self) -> Any:
        """How many keys there are."""
        return self._each(len, dt.int64.with_null(self._owner.dtype.nullable))
