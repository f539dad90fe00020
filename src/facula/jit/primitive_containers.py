"""Operators of TorchScript on text, lists, dicts, tuples and futures.

Takes nothing. Gives nothing: importing it fills `signatures.PRIMITIVE`.
Keeps true: each is one line, its schema (PyTorch's) and a function of all its arguments, in order.
"""

from __future__ import annotations

import operator as py
import re
import string
import warnings
from typing import Any

from facula.core.errors import fail
from facula.jit.marks import _unwrap_optional
from facula.jit.signatures import primitive
from facula.jit.value_texts import shown

__all__: list[str] = []

# ------------------------------------------------------------------ lists

primitive("aten::len.t(t[] a) -> int", len)
primitive("aten::len.str(str s) -> int", len)
primitive("aten::len.dict(Dict(k, t) self) -> int", len)
primitive("aten::append(t[] self, t el) -> t[]", lambda a, x: (a.append(x), a)[1])
primitive("aten::extend(t[] self, t[] other) -> ()", lambda a, b: a.extend(b))
primitive("aten::insert(t[] self, int idx, t el) -> ()", lambda a, i, x: a.insert(i, x))
primitive("aten::pop(t[] self, int idx=-1) -> t", lambda a, i: a.pop(i))
primitive("aten::remove(t[] self, t el) -> ()", lambda a, x: a.remove(x))
primitive("aten::reverse(t[] self) -> ()", lambda a: a.reverse())
primitive("aten::clear(t[] self) -> ()", lambda a: a.clear())
primitive("aten::copy(t[] self) -> t[]", list)
primitive("aten::list(t[] l) -> t[]", list)
primitive("aten::list.str(str t) -> str[]", list)
primitive("aten::list.dict(Dict(k, t) d) -> k[]", list)
primitive("aten::count(t[] self, t el) -> int", lambda a, x: a.count(x))


def _index(items: list[Any], item: Any) -> int:
    """The place of an item."""
    if item not in items:
        fail(ValueError, "jit", f"an item of the list was required ('{item}' is not in list)", repr(item)[:80],
             hint="`if item in items:` beforehand")  # fmt: skip
    return items.index(item)


primitive("aten::index.list(t[] self, t el) -> int", _index)
primitive("aten::sort(t[] self, bool reverse=False) -> ()", lambda a, r: a.sort(reverse=r))
primitive("aten::sorted(t[] self) -> t[]", sorted)
primitive("aten::add.t(t[] a, t[] b) -> t[]", py.add)
primitive("aten::add_.t(t[] self, t[] b) -> t[]", py.iadd)
primitive("aten::mul.left_t(t[] l, int n) -> t[]", py.mul)
primitive("aten::mul.right(int n, t[] l) -> t[]", py.mul)
primitive("aten::mul_.t(t[] l, int n) -> t[]", py.imul)
primitive("aten::__getitem__.t(t[] list, int idx) -> t", py.getitem)
primitive("aten::__contains__.list(t[] l, t item) -> bool", lambda a, x: x in a)
primitive(
    "aten::_set_item.t(t[] l, int idx, t el) -> t[]", lambda a, i, x: (py.setitem(a, i, x), a)[1]
)
primitive("aten::Delete.t(t[] self, int idx) -> ()", py.delitem)
primitive("aten::slice.t(t[] l, int? start=None, int? end=None, int step=1) -> t[]",
          lambda a, s, e, k: a[s:e:k])  # fmt: skip

# ------------------------------------------------------------------ dicts

primitive("aten::__getitem__.dict(Dict(k, t) self, k key) -> t", py.getitem)
primitive("aten::__contains__.dict(Dict(k, t) dict, k key) -> bool", lambda d, k: k in d)
primitive("aten::_set_item.dict(Dict(k, t) l, k idx, t v) -> ()", py.setitem)
primitive("aten::Delete.dict(Dict(k, t) self, k key) -> ()", py.delitem)
primitive("aten::keys(Dict(k, t) self) -> k[]", lambda d: list(d.keys()))
primitive("aten::values.dict(Dict(k, t) self) -> t[]", lambda d: list(d.values()))
primitive("aten::items(Dict(k, t) self) -> (k, t)[]", lambda d: list(d.items()))
primitive("aten::get(Dict(k, t) self, k key) -> t?", lambda d, k: d.get(k))
primitive(
    "aten::get.default_any(Dict(k, t) self, k key, t default_value) -> t",
    lambda d, k, x: d.get(k, x),
)
primitive("aten::setdefault(Dict(k, t) self, k key, t default_value) -> t",
          lambda d, k, x: d.setdefault(k, x))  # fmt: skip
primitive("aten::pop.dict(Dict(k, t) self, k key) -> t", lambda d, k: d.pop(k))
primitive("aten::pop.dict_default(Dict(k, t) self, k key, t default_value) -> t",
          lambda d, k, x: d.pop(k, x))  # fmt: skip
primitive("aten::popitem(Dict(k, t) self) -> (k, t)", lambda d: d.popitem())
primitive("aten::clear.dict(Dict(k, t) self) -> ()", lambda d: d.clear())
primitive("aten::update(Dict(k, t) self, Dict(k, t) to_add) -> ()", lambda d, e: d.update(e))
primitive("aten::copy.dict(Dict(k, t) self) -> Dict(k, t)", dict)
primitive("aten::dict.copy(Dict(k, t) self) -> Dict(k, t)", dict)
primitive("aten::dict.pairs((k, t)[] inputs) -> Dict(k, t)", dict)

# ------------------------------------------------------------------ text

primitive("aten::add.str(str a, str b) -> str", py.add)
primitive("aten::mul.str(str l, int n) -> str", py.mul)
primitive("aten::__getitem__.str(str s, int index) -> str", py.getitem)
primitive("aten::__contains__.str(str a, str b) -> bool", lambda a, b: b in a)
primitive("aten::slice.str(str string, int? start=None, int? end=None, int step=1) -> str",
          lambda a, s, e, k: a[s:e:k])  # fmt: skip
for _name in "upper lower capitalize title swapcase".split():
    primitive(f"aten::{_name}(str self) -> str", getattr(str, _name))
for (
    _word
) in "digit alpha space alnum upper lower title decimal numeric identifier printable".split():
    primitive(f"aten::is{_word}(str self) -> bool", getattr(str, f"is{_word}"))
for _name in ("strip", "lstrip", "rstrip"):
    primitive(f"aten::{_name}(str self, str chars=' \n\t\f\v') -> str",
              lambda s, c, own=_name: getattr(s, own)(None if c == " \n\t\f\v" else c))  # fmt: skip
primitive("aten::split.str(str self, str? separator=None, int max=-1) -> str[]",
          lambda s, sep, m: s.split(sep, m))  # fmt: skip
primitive("aten::rsplit(str self, str? separator=None, int max=-1) -> str[]",
          lambda s, sep, m: s.rsplit(sep, m))  # fmt: skip
primitive("aten::splitlines(str self, bool keepends=False) -> str[]", lambda s, k: s.splitlines(k))
primitive("aten::join(str self, str[] values) -> str", lambda s, v: s.join(v))
primitive("aten::replace(str self, str old, str new, int max=-1) -> str",
          lambda s, a, b, n: s.replace(a, b, n))  # fmt: skip
primitive(
    "aten::partition(str self, str separator) -> (str, str, str)", lambda s, x: s.partition(x)
)
primitive(
    "aten::rpartition(str self, str separator) -> (str, str, str)", lambda s, x: s.rpartition(x)
)
for _name in ("startswith", "endswith"):
    primitive(f"aten::{_name}(str self, str substr, int start=0, int end=9223372036854775807) -> bool",
              lambda s, x, a, b, own=_name: getattr(s, own)(x, a, b))  # fmt: skip
for _name in ("find", "rfind", "index", "rindex", "count"):
    primitive(f"aten::{_name}.str(str self, str substr, int start=0, int end=9223372036854775807) -> int",
              lambda s, x, a, b, own=_name: getattr(s, own)(x, a, b))  # fmt: skip
for _name in ("center", "ljust", "rjust"):
    primitive(f"aten::{_name}(str self, int width, str fillchar=' ') -> str",
              lambda s, w, f, own=_name: getattr(s, own)(w, f))  # fmt: skip
primitive("aten::zfill(str self, int width) -> str", lambda s, w: s.zfill(w))
primitive("aten::expandtabs(str self, int tabsize=8) -> str", lambda s, n: s.expandtabs(n))


class _Plain(string.Formatter):
    """Format strings without attribute look-ups: `{0.x}` and `{0[x]}` are refused."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        if "." in field_name or "[" in field_name:
            fail(ValueError, "jit", "a format string of {} and {0} was required", field_name,
                 hint="format the value before")  # fmt: skip
        return super().get_field(field_name, args, kwargs)


def format_text(text: str, *values: object) -> str:
    """`str.format` with values only."""
    return _Plain().format(text, *map(shown, values))


_PLACE = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?(.?)", re.DOTALL)
_KINDS = {
    str: "String", int: "Int", float: "Double", bool: "Bool", list: "GenericList", dict: "GenericDict",
}  # fmt: skip


def percent_format(text: str, *values: object) -> str:
    """`text % values`, with an error for values that do not fit their places."""
    given = values[0] if len(values) == 1 and isinstance(values[0], tuple) else values
    assert isinstance(given, tuple)
    places = [m for m in _PLACE.finditer(text) if m[1] != "%"]
    for i, place in enumerate(places):
        word = place[1]
        if not word:
            _misfit("Incomplete format specifier", place[0], "%% stands for the sign itself")
        if word not in "sdifFeEgGcxXo":
            _misfit(f"The specifier %{word} is not supported in TorchScript format strings", place[0],
                    "%s, %d, %i, %f, %e, %g, %c and %x are")  # fmt: skip
        if i >= len(given):
            _misfit(
                f"Too few arguments for format string: {text}", len(given), "one for each place"
            )
        value, kind = given[i], _KINDS.get(type(given[i]), type(given[i]).__name__)
        if word in "difFeEgGxXo" and not isinstance(value, (int, float)):
            said = f"%{word} requires a number for formatting, but got {kind}"
            _misfit(said, repr(value), "%s takes any value")
        if word == "c" and not (type(value) is int or isinstance(value, str) and len(value) == 1):
            said = f"%c requires an int or char for formatting, but got {kind}"
            _misfit(said, repr(value), "%s takes any value")
    if len(places) < len(given):
        _misfit(f"Too many arguments for format string: {text}", len(given), "one for each place")
    texts = [shown(v) if p[1] == "s" else v for p, v in zip(places, given, strict=True)]
    return text % tuple(texts)


def _misfit(said: str, got: object, hint: str) -> None:
    fail(RuntimeError, "format", f"values that fit the text were required ({said})", got, hint)


def warn(message: str, stacklevel: int = 2) -> None:
    """`warnings.warn` of a scripted function."""
    warnings.warn(message, stacklevel=3)


primitive("aten::_unwrap_optional(t? optional) -> t", _unwrap_optional)
primitive("aten::warn(str message, int stacklevel=2) -> ()", warn)
primitive("aten::wait(Future(t) self) -> t", lambda f: f.wait())
primitive("prim::name(any a) -> str", lambda e: e.name)
