"""Instructions that move values: the stack, locals, cells, globals, attributes, items, operators.

Keeps true: an action takes its operands off, asks the domain, and puts the result on.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from facula.capture.interpreter.frames import NULL, UNBOUND, Frame, action
from facula.capture.interpreter.instructions import VERSION, Instruction
from facula.capture.values.graph_names import called_after
from facula.capture.values.kinds import GeneratorValue

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic
    from facula.capture.values.kinds import Value

#: references to a value that one local variable has, while it is counted
ALONE = 2


@action("POP_TOP")
def pop_top(d: Symbolic, f: Frame, i: Instruction) -> None:
    value = f.pop()
    # a loop that was left: its generator's `finally` runs here, unless somebody else has it
    if isinstance(value, GeneratorValue) and value.started and sys.getrefcount(value) == ALONE:
        d.close(value)


def let_go(d: Symbolic, f: Frame) -> None:
    """A function ends: so do the generators that only its variables have."""
    for name in [*f.locals]:
        value = f.locals[name]
        if isinstance(value, GeneratorValue) and value.started:
            if sys.getrefcount(value) == ALONE + 1:  # the table of the variables has it as well
                d.close(value)


@action("PUSH_NULL")
def push_null(d: Any, f: Frame, i: Instruction) -> None:
    f.push(NULL)


@action("SWAP")
def swap(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.stack[-1], f.stack[-i.arg] = f.stack[-i.arg], f.stack[-1]


@action("COPY")
def copy(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.push(f.stack[-i.arg])


@action("LOAD_CONST")
def load_const(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.push(d.constant(i.value))


@action("LOAD_ASSERTION_ERROR")
def load_assertion_error(d: Any, f: Frame, i: Instruction) -> None:
    f.push(d.constant(AssertionError))


def _local(d: Symbolic, f: Frame, name: str) -> Any:
    value = f.locals.get(name, UNBOUND)
    if value is UNBOUND:
        if name in f.cells:
            return f.cells[name]
        _unbound(d, f, name)
    return d.loaded(value)


def _unbound(d: Any, f: Frame, name: str) -> None:
    """Raise what Python raises where a variable has no value."""
    if name in f.code.co_freevars:
        text = f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
        d.fail(NameError, text)
    text = f"cannot access local variable '{name}' where it is not associated with a value"
    d.fail(UnboundLocalError, text)


def _store(d: Symbolic, f: Frame, name: str, value: Value) -> None:
    if d.is_cell(value):
        f.cells[name] = value
    else:
        f.locals[name] = value
        called_after(value, name)


@action("LOAD_FAST")
def load_fast(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.push(_local(d, f, i.value))


@action("LOAD_FAST_LOAD_FAST")
def load_fast_load_fast(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.push(_local(d, f, i.value[0]))
    f.push(_local(d, f, i.value[1]))


@action("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(d: Symbolic, f: Frame, i: Instruction) -> None:
    if i.value in f.cells:
        f.push(f.cells.pop(i.value))
    else:
        f.push(f.locals.pop(i.value, UNBOUND))


@action("STORE_FAST")
def store_fast(d: Symbolic, f: Frame, i: Instruction) -> None:
    value = f.pop()
    if value is UNBOUND:
        f.locals.pop(i.value, None)
        f.cells.pop(i.value, None)
    else:
        _store(d, f, i.value, value)


@action("STORE_FAST_STORE_FAST")
def store_fast_store_fast(d: Symbolic, f: Frame, i: Instruction) -> None:
    _store(d, f, i.value[0], f.pop())
    _store(d, f, i.value[1], f.pop())


@action("STORE_FAST_LOAD_FAST")
def store_fast_load_fast(d: Symbolic, f: Frame, i: Instruction) -> None:
    _store(d, f, i.value[0], f.pop())
    f.push(_local(d, f, i.value[1]))


@action("DELETE_FAST")
def delete_fast(d: Symbolic, f: Frame, i: Instruction) -> None:
    if f.locals.pop(i.value, UNBOUND) is UNBOUND:
        _unbound(d, f, i.value)


@action("MAKE_CELL")
def make_cell(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.cells[i.value] = d.make_cell(f.locals.pop(i.value, UNBOUND))


@action("LOAD_CLOSURE")
def load_closure(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.push(f.cells[i.value])


@action("LOAD_DEREF")
def load_deref(d: Symbolic, f: Frame, i: Instruction) -> None:
    value = d.read_cell(f.cells[i.value])
    if value is UNBOUND:
        _unbound(d, f, i.value)
    f.push(value)


@action("STORE_DEREF")
def store_deref(d: Symbolic, f: Frame, i: Instruction) -> None:
    value = f.pop()
    called_after(value, i.value)
    d.write_cell(f.cells[i.value], value)


@action("DELETE_DEREF")
def delete_deref(d: Any, f: Frame, i: Instruction) -> None:
    if d.read_cell(f.cells[i.value]) is UNBOUND:
        _unbound(d, f, i.value)
    d.write_cell(f.cells[i.value], UNBOUND)


@action("LOAD_GLOBAL")
def load_global(d: Any, f: Frame, i: Instruction) -> None:
    value = d.load_global(f, i.value)
    if not i.arg & 1:
        f.push(value)
    elif VERSION.null_first:
        f.push(NULL)
        f.push(value)
    else:
        f.push(value)
        f.push(NULL)


@action("STORE_GLOBAL")
def store_global(d: Symbolic, f: Frame, i: Instruction) -> None:
    d.store_global(f, i.value, f.pop())


@action("DELETE_GLOBAL")
def delete_global(d: Symbolic, f: Frame, i: Instruction) -> None:
    d.delete_global(f, i.value)


def _push_method(f: Frame, value: Any) -> None:
    if VERSION.null_first:
        f.push(NULL)
        f.push(value)
    else:
        f.push(value)
        f.push(NULL)


@action("LOAD_METHOD")
def load_method(d: Symbolic, f: Frame, i: Instruction) -> None:
    _push_method(f, d.getattr(f.pop(), i.value))


@action("LOAD_ATTR")
def load_attr(d: Symbolic, f: Frame, i: Instruction) -> None:
    value = d.getattr(f.pop(), i.value)
    if VERSION.method_bit and i.arg & 1:
        _push_method(f, value)
    else:
        f.push(value)


@action("LOAD_SUPER_ATTR")
def load_super_attr(d: Symbolic, f: Frame, i: Instruction) -> None:
    function, cls, self = f.pop_many(3)
    arguments = [cls, self] if i.arg & 2 else []
    value = d.getattr(d.super(f, function, arguments), i.value)
    if i.arg & 1:
        _push_method(f, value)
    else:
        f.push(value)


@action("STORE_ATTR")
def store_attr(d: Symbolic, f: Frame, i: Instruction) -> None:
    owner = f.pop()
    d.setattr(owner, i.value, f.pop())


@action("DELETE_ATTR")
def delete_attr(d: Symbolic, f: Frame, i: Instruction) -> None:
    d.delattr(f.pop(), i.value)


@action("BINARY_SUBSCR")
def binary_subscr(d: Symbolic, f: Frame, i: Instruction) -> None:
    key = f.pop()
    f.push(d.getitem(f.pop(), key))


@action("STORE_SUBSCR")
def store_subscr(d: Symbolic, f: Frame, i: Instruction) -> None:
    value, owner, key = f.pop_many(3)
    d.setitem(owner, key, value)


@action("DELETE_SUBSCR")
def delete_subscr(d: Symbolic, f: Frame, i: Instruction) -> None:
    key = f.pop()
    d.delitem(f.pop(), key)


@action("BINARY_SLICE")
def binary_slice(d: Symbolic, f: Frame, i: Instruction) -> None:
    owner, start, stop = f.pop_many(3)
    f.push(d.getitem(owner, d.build_slice([start, stop])))


@action("STORE_SLICE")
def store_slice(d: Symbolic, f: Frame, i: Instruction) -> None:
    value, owner, start, stop = f.pop_many(4)
    d.setitem(owner, d.build_slice([start, stop]), value)


@action("BINARY_OP")
def binary_op(d: Symbolic, f: Frame, i: Instruction) -> None:
    right = f.pop()
    f.push(d.binary(i.text, f.pop(), right))


_UNARY = {
    "UNARY_POSITIVE": "+",
    "UNARY_NEGATIVE": "-",
    "UNARY_INVERT": "~",
}


@action(*_UNARY)
def unary(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.push(d.unary(_UNARY[i.name], f.pop()))


@action("UNARY_NOT")
def unary_not(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.push(d.logical_not(f.pop()))


@action("TO_BOOL")
def to_bool(d: Symbolic, f: Frame, i: Instruction) -> None:
    if not _jumps_next(f):
        f.push(d.to_bool(f.pop()))


def _jumps_next(f: Frame) -> bool:
    """Whether a jump follows, which asks for the truth itself."""
    return f.program.instructions[f.index].name.startswith("POP_JUMP_IF")


@action("COMPARE_OP")
def compare_op(d: Symbolic, f: Frame, i: Instruction) -> None:
    right = f.pop()
    text = i.text.removeprefix("bool(").removesuffix(")")
    result = d.compare(text, f.pop(), right)
    f.push(d.to_bool(result) if text != i.text and not _jumps_next(f) else result)


@action("IS_OP")
def is_op(d: Any, f: Frame, i: Instruction) -> None:
    right = f.pop()
    f.push(d.constant(d.is_same(f.pop(), right) != bool(i.arg)))


@action("CONTAINS_OP")
def contains_op(d: Symbolic, f: Frame, i: Instruction) -> None:
    owner = f.pop()
    found = d.contains(owner, f.pop())
    f.push(d.logical_not(found) if i.arg else found)
