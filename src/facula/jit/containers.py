"""Lists and dictionaries that Python and scripted code share.

Takes: a list or dictionary whose items have one type. Gives: `ScriptList` and `ScriptDict`.
Keeps true: a scripted function that is given one changes the caller's; items have the type of the first ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from facula.core.errors import fail
from facula.jit.python_types import NoType, type_of_value
from facula.jit.running import is_instance
from facula.ops.table.schemas import types as T

__all__ = ["ScriptDict", "ScriptList", "script_container"]


def _wrong(what: str, value: Any, kind: T.Type, exception: type[Exception] = TypeError) -> NoReturn:
    fail(exception, "jit", f"{what} of type {kind.annotation_str} was required", repr(value),
         hint="scripted lists and dictionaries keep the types that they were made with")  # fmt: skip


class ScriptList(list):
    """A list that scripted functions change in place; `script` makes it of a list.

    Args:
        values: items of one type

    Example:
        >>> numbers = facula.jit.script([1, 2])
        >>> numbers.append(3)
        >>> numbers
        [1, 2, 3]
    """

    _is_script_container = True

    def __init__(self, values: Iterable[Any] = ()) -> None:
        super().__init__(values)
        self._script_type = type_of_value(list(self)) if self else T.list_of(T.TENSOR)

    def _item(self, value: object) -> Any:
        if not is_instance(value, self._script_type.inner[0]):
            _wrong("an item", value, self._script_type.inner[0])
        return value

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, slice):
            value = [self._item(v) for v in value]
        else:
            self._item(value)
        super().__setitem__(index, value)

    def __contains__(self, value: object) -> bool:
        return super().__contains__(self._item(value))

    def count(self, value: object) -> int:
        """How often an item is there."""
        return super().count(self._item(value))

    def remove(self, value: object) -> None:
        """Take out the first such item."""
        super().remove(self._item(value))

    def append(self, value: object) -> None:
        """Add an item at the end."""
        super().append(self._item(value))

    def insert(self, index: Any, value: object) -> None:
        """Add an item in front of another."""
        super().insert(index, self._item(value))

    def extend(self, values: Iterable[Any]) -> None:
        """Add items at the end."""
        if isinstance(values, dict):
            _wrong("a list", values, self._script_type)
        super().extend([self._item(v) for v in values])

    def __reduce__(self) -> Any:
        return list, (list(self),)


class ScriptDict(dict):
    """A dictionary that scripted functions change in place; `script` makes it of a dictionary.

    Args:
        values: keys of one type, and items of one type

    Example:
        >>> ages = facula.jit.script({"ada": 36})
        >>> ages["alan"] = 41
        >>> len(ages)
        2
    """

    _is_script_container = True

    def __init__(self, values: Any = ()) -> None:
        super().__init__(values)
        self._script_type = type_of_value(dict(self)) if self else T.dict_of(T.STR, T.TENSOR)

    def _key(self, key: object, exception: type[Exception] = TypeError) -> Any:
        if not is_instance(key, self._script_type.inner[0]):
            _wrong("a key", key, self._script_type.inner[0], exception)
        return key

    def __setitem__(self, key: object, value: object) -> None:
        if not is_instance(value, self._script_type.inner[1]):
            _wrong("an item", value, self._script_type.inner[1])
        super().__setitem__(self._key(key), value)

    def __delitem__(self, key: object) -> None:
        super().__delitem__(self._key(key))

    def __contains__(self, key: object) -> bool:
        return super().__contains__(self._key(key, KeyError))

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


def script_container(value: Any) -> Any:
    """The shared form of a list or dictionary.

    Raises:
        TypeError: its items are of several types, or of one that scripts do not have.
    """
    if isinstance(value, (ScriptList, ScriptDict)):
        return value
    try:
        return ScriptDict(value) if isinstance(value, dict) else ScriptList(value)
    except NoType as reason:
        return fail(TypeError, "jit.script", "items of one type that scripts have was required", str(reason),
                    hint="convert the items to one type")  # fmt: skip
