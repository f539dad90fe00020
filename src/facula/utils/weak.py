"""Dictionaries whose keys live only as long as something else holds them, compared by identity.

Takes objects that can be referred to weakly. Gives `WeakIdKeyDictionary` and `WeakTensorKeyDictionary`.
Keeps true: keys are compared as objects, never by `==`, which compares elements of tensors; an entry is gone
once its key is.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, MutableMapping
from copy import deepcopy as copy_value
from typing import Any

__all__ = ["WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref):
    """A weak reference that is equal to those of the same object only.

    Example:
        >>> x = facula.ones(2)
        >>> facula.utils.weak.WeakIdRef(x) == facula.utils.weak.WeakIdRef(x)
        True
    """

    __slots__ = ("_id",)
    _id: int

    def __new__(cls, key: object, callback: Any = None) -> WeakIdRef:
        """A reference to a key, with what is called once that is gone."""
        made = super().__new__(cls, key, callback)
        made._id = id(key)
        return made

    def __init__(self, key: Any, callback: Any = None) -> None:
        super().__init__(key, callback)  # type: ignore[call-arg]

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine, theirs = self(), other() if isinstance(other, weakref.ref) else None
        if mine is not None and theirs is not None:
            return mine is theirs
        return self is other

    def __ne__(self, other: object) -> bool:
        return not self == other  # the base class would compare what is referred to


class WeakIdKeyDictionary(MutableMapping):
    """A dictionary by the identity of its keys, which it does not keep alive.

    Args:
        dict: a mapping to begin with
        ref_type: the class of references

    Example:
        >>> notes = facula.utils.weak.WeakIdKeyDictionary()
        >>> x = facula.ones(2)
        >>> notes[x] = "weights"
        >>> len(notes)
        1
        >>> del x
        >>> len(notes)
        0
    """

    def __init__(self, dict: Mapping | None = None, ref_type: type = WeakIdRef) -> None:
        self.data: dict_of_references = {}
        self.ref_type = ref_type
        me = weakref.ref(self)

        def forget(reference: object) -> None:
            found = me()
            if found is not None:
                found.data.pop(reference, None)

        self._forget = forget
        self.update(dict or {})

    def __getitem__(self, key: object) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: object, value: object) -> None:
        self.data[self.ref_type(key, self._forget)] = value

    def __delitem__(self, key: object) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # what cannot be referred to weakly is no key
            return False

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def __or__(self, other: Mapping) -> WeakIdKeyDictionary:
        if not isinstance(other, Mapping):
            return NotImplemented
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other: Mapping) -> WeakIdKeyDictionary:
        if not isinstance(other, Mapping):
            return NotImplemented
        made = type(self)(other, self.ref_type)
        made.update(self)
        return made

    def __ior__(self, other: Mapping) -> WeakIdKeyDictionary:
        self.update(other)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> WeakIdKeyDictionary:
        made = type(self)(None, self.ref_type)
        for key, value in self.items():
            made[key] = copy_value(value, memo)
        return made

    def copy(self) -> WeakIdKeyDictionary:
        """Another dictionary with the same entries."""
        return type(self)(self, self.ref_type)

    __copy__ = copy


dict_of_references = dict[Any, Any]
WeakTensorKeyDictionary = WeakIdKeyDictionary
