"""Instructions that call, import, return and yield.

Keeps true: a call's empty slot (`NULL`) is where the version puts it; what is pushed by attribute
look-up is always a bound method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from facula.capture.interpreter.frames import NULL, STOP, Frame, Returned, Yielded, action
from facula.capture.interpreter.instructions import VERSION, Instruction
from facula.capture.interpreter.opcodes_stack import let_go

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic


def _callee(f: Frame, args: list[Any]) -> tuple[Any, list[Any]]:
    second, first = f.pop(), f.pop()
    if first is NULL:
        return second, args
    if second is NULL:
        return first, args
    return first, [second, *args]


@action("CALL")
def call(d: Symbolic, f: Frame, i: Instruction) -> None:
    args = f.pop_many(i.arg)
    callee, args = _callee(f, args)
    split = len(args) - len(i.names)
    kwargs = dict(zip(i.names, args[split:], strict=True))
    f.push(d.call_in(f, callee, args[:split], kwargs))


@action("CALL_KW")
def call_kw(d: Symbolic, f: Frame, i: Instruction) -> None:
    names = d.constant_of(f.pop())
    args = f.pop_many(i.arg)
    callee, args = _callee(f, args)
    split = len(args) - len(names)
    kwargs = dict(zip(names, args[split:], strict=True))
    f.push(d.call_in(f, callee, args[:split], kwargs))


@action("CALL_FUNCTION_EX")
def call_function_ex(d: Symbolic, f: Frame, i: Instruction) -> None:
    keywords = d.keywords(f.pop()) if i.arg & 1 else {}
    args = d.unpack_all(f.pop())
    callee, args = _callee(f, args) if VERSION.null_first else (_plain_callee(f), args)
    f.push(d.call_in(f, callee, args, keywords))


def _plain_callee(f: Frame) -> Any:
    f.pop()
    return f.pop()


@action("CALL_INTRINSIC_1")
def call_intrinsic(d: Symbolic, f: Frame, i: Instruction) -> None:
    name = i.text
    if name == "INTRINSIC_LIST_TO_TUPLE":
        f.push(d.build_tuple(d.unpack_all(f.pop())))
    elif name == "INTRINSIC_UNARY_POSITIVE":
        f.push(d.unary("+", f.pop()))
    elif name == "INTRINSIC_STOPITERATION_ERROR":
        f.push(d.stop_iteration_error(f.pop()))
    else:
        d.unknown_instruction(f, i)


@action("CALL_INTRINSIC_2")
def call_intrinsic_two(d: Symbolic, f: Frame, i: Instruction) -> None:
    if i.text != "INTRINSIC_PREP_RERAISE_STAR":
        d.unknown_instruction(f, i)
    original, failed = f.pop_many(2)
    f.push(d.prepare_reraise_star(original, failed))


@action("IMPORT_NAME")
def import_name(d: Symbolic, f: Frame, i: Instruction) -> None:
    level, names = f.pop_many(2)
    f.push(d.import_name(f, i.value, d.constant_of(names), d.constant_of(level)))


@action("IMPORT_FROM")
def import_from(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.push(d.import_from(f.stack[-1], i.value))


@action("LOAD_BUILD_CLASS")
def load_build_class(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.push(d.load_build_class(f))


@action("RETURN_VALUE")
def return_value(d: Symbolic, f: Frame, i: Instruction) -> Returned:
    value = f.pop()
    let_go(d, f)
    return Returned(value)


@action("RETURN_CONST")
def return_const(d: Symbolic, f: Frame, i: Instruction) -> Returned:
    let_go(d, f)
    return Returned(d.constant(i.value))


@action("RETURN_GENERATOR")
def return_generator(d: Symbolic, f: Frame, i: Instruction) -> Returned:
    # the generator goes on behind this instruction, with the value that is sent first
    f.push(d.constant(None))
    return Returned(d.make_generator(f))


@action("YIELD_VALUE")
def yield_value(d: Symbolic, f: Frame, i: Instruction) -> Yielded:
    return Yielded(f.pop())


@action("GET_ITER")
def get_iter(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.push(d.iter(f.pop()))


@action("GET_YIELD_FROM_ITER")
def get_yield_from_iter(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.push(d.iter(f.pop()))


@action("FOR_ITER")
def for_iter(d: Symbolic, f: Frame, i: Instruction) -> None:
    value = d.next(f.stack[-1])
    if value is not STOP:
        f.push(value)
        return
    if VERSION.for_iter_pops:
        f.pop()
    else:
        f.push(NULL)
    f.index = i.target


@action("END_FOR")
def end_for(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.pop_many(VERSION.end_for_pops)


@action("SEND")
def send(d: Symbolic, f: Frame, i: Instruction) -> None:
    done, value = d.send(f.stack[-2], f.stack[-1])
    f.pop()
    if done and VERSION.send_pops:
        f.pop()
    f.push(value)
    if done:
        f.index = i.target


@action("END_SEND")
def end_send(d: Symbolic, f: Frame, i: Instruction) -> None:
    value = f.pop()
    f.pop()
    f.push(value)


@action("CLEANUP_THROW")
def cleanup_throw(d: Symbolic, f: Frame, i: Instruction) -> None:
    error = f.pop()
    value = d.stopped_value(error)
    f.pop_many(2)
    f.push(d.constant(None))
    f.push(value)
