"""Instructions that make things: containers, slices, strings, functions, unpacking, matching.

Keeps true: the value that an instruction changes (`LIST_APPEND` and its like) lies where CPython's does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from facula.capture.interpreter.frames import Frame, action
from facula.capture.interpreter.instructions import VERSION, Instruction

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic


@action("BUILD_TUPLE")
def build_tuple(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.push(d.build_tuple(f.pop_many(i.arg)))


@action("BUILD_LIST")
def build_list(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.push(d.build_list(f.pop_many(i.arg)))


@action("BUILD_SET")
def build_set(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.push(d.build_set(f.pop_many(i.arg)))


@action("BUILD_MAP")
def build_map(d: Symbolic, f: Frame, i: Instruction) -> None:
    items = f.pop_many(2 * i.arg)
    f.push(d.build_dict(items[::2], items[1::2]))


@action("BUILD_CONST_KEY_MAP")
def build_const_key_map(d: Symbolic, f: Frame, i: Instruction) -> None:
    keys = [d.constant(key) for key in d.constant_of(f.pop())]
    f.push(d.build_dict(keys, f.pop_many(i.arg)))


@action("BUILD_SLICE")
def build_slice(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.push(d.build_slice(f.pop_many(i.arg)))


@action("BUILD_STRING")
def build_string(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.push(d.build_string(f.pop_many(i.arg)))


_CONVERSIONS = {0: None, 1: str, 2: repr, 3: ascii}


@action("FORMAT_VALUE")
def format_value(d: Symbolic, f: Frame, i: Instruction) -> None:
    spec = f.pop() if i.arg & 4 else d.constant("")
    f.push(d.format(f.pop(), _CONVERSIONS[i.arg & 3], spec))


@action("CONVERT_VALUE")
def convert_value(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.push(d.call(d.constant(_CONVERSIONS[i.arg]), [f.pop()], {}))


@action("FORMAT_SIMPLE")
def format_simple(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.push(d.format(f.pop(), None, d.constant("")))


@action("FORMAT_WITH_SPEC")
def format_with_spec(d: Symbolic, f: Frame, i: Instruction) -> None:
    spec = f.pop()
    f.push(d.format(f.pop(), None, spec))


@action("LIST_APPEND")
def list_append(d: Symbolic, f: Frame, i: Instruction) -> None:
    value = f.pop()
    d.list_append(f.stack[-i.arg], value)


@action("SET_ADD")
def set_add(d: Symbolic, f: Frame, i: Instruction) -> None:
    value = f.pop()
    d.set_add(f.stack[-i.arg], value)


@action("MAP_ADD")
def map_add(d: Symbolic, f: Frame, i: Instruction) -> None:
    key, value = f.pop_many(2)
    d.setitem(f.stack[-i.arg], key, value)


@action("LIST_EXTEND")
def list_extend(d: Symbolic, f: Frame, i: Instruction) -> None:
    value = f.pop()
    d.list_extend(f.stack[-i.arg], value)


@action("SET_UPDATE")
def set_update(d: Symbolic, f: Frame, i: Instruction) -> None:
    value = f.pop()
    d.set_update(f.stack[-i.arg], value)


@action("DICT_UPDATE")
def dict_update(d: Symbolic, f: Frame, i: Instruction) -> None:
    value = f.pop()
    d.dict_update(f.stack[-i.arg], value)


@action("DICT_MERGE")
def dict_merge(d: Symbolic, f: Frame, i: Instruction) -> None:
    value = f.pop()
    d.dict_merge(f.stack[-i.arg], value)


@action("LIST_TO_TUPLE")
def list_to_tuple(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.push(d.build_tuple(d.unpack_all(f.pop())))


@action("UNPACK_SEQUENCE")
def unpack_sequence(d: Symbolic, f: Frame, i: Instruction) -> None:
    for value in reversed(d.unpack(f.pop(), i.arg)):
        f.push(value)


@action("UNPACK_EX")
def unpack_ex(d: Symbolic, f: Frame, i: Instruction) -> None:
    before, after = i.arg & 0xFF, i.arg >> 8
    values = d.unpack_all(f.pop())
    if len(values) < before + after:
        d.fail(
            ValueError,
            f"not enough values to unpack (expected at least {before + after}, got {len(values)})",
        )
    end = len(values) - after
    for value in reversed(values[end:]):
        f.push(value)
    f.push(d.build_list(values[before:end]))
    for value in reversed(values[:before]):
        f.push(value)


@action("MAKE_FUNCTION")
def make_function(d: Symbolic, f: Frame, i: Instruction) -> None:
    code = d.constant_of(f.pop())
    parts: dict[str, Any] = {}
    if VERSION.function_flags:
        for bit, name in ((8, "closure"), (4, "annotations"), (2, "kwdefaults"), (1, "defaults")):
            if i.arg & bit:
                parts[name] = f.pop()
    f.push(d.make_function(f, code, parts))


@action("SET_FUNCTION_ATTRIBUTE")
def set_function_attribute(d: Symbolic, f: Frame, i: Instruction) -> None:
    function, value = f.pop(), f.pop()
    name = {1: "defaults", 2: "kwdefaults", 4: "annotations", 8: "closure"}[i.arg]
    f.push(d.set_function_part(function, name, value))


@action("GET_LEN")
def get_len(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.push(d.call(d.constant(len), [f.stack[-1]], {}))


@action("MATCH_MAPPING")
def match_mapping(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.push(d.constant(d.is_mapping(f.stack[-1])))


@action("MATCH_SEQUENCE")
def match_sequence(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.push(d.constant(d.is_sequence(f.stack[-1])))


@action("MATCH_KEYS")
def match_keys(d: Symbolic, f: Frame, i: Instruction) -> None:
    keys, subject = f.stack[-1], f.stack[-2]
    values = []
    for key in d.unpack_all(keys):
        if not d.truth(d.contains(subject, key)):
            f.push(d.constant(None))
            return
        values.append(d.getitem(subject, key))
    f.push(d.build_tuple(values))


@action("MATCH_CLASS")
def match_class(d: Symbolic, f: Frame, i: Instruction) -> None:
    names = d.constant_of(f.pop())
    cls = f.pop()
    subject = f.pop()
    f.push(_matched(d, subject, cls, i.arg, names))


def _matched(d: Symbolic, subject: Any, cls: Any, count: int, names: tuple[str, ...]) -> Any:
    """The matched attributes as a tuple, or None."""
    none = d.constant(None)
    if not d.truth(d.call(d.constant(isinstance), [subject, cls], {})):
        return none
    values = []
    if count:
        real = d.constant_of(cls)
        own = getattr(real, "__match_args__", None)
        if own is None and count == 1:
            values.append(subject)
        else:
            names = (*(own or ())[:count], *names)
    for name in names:
        found = d.getattr_or(subject, name)
        if found is None:
            return none
        values.append(found)
    return d.build_tuple(values)
