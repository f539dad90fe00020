"""The domain of real objects: instructions do what CPython does.

Takes: real values. Gives: real values. The driver runs with it the instructions that capture can not
take, one by one; calls go through `call_hook`, which finds compiled versions of callees.
Keeps true: an exception is the host's own exception.
"""

from __future__ import annotations

import builtins
import operator
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from facula.capture.interpreter.frames import NULL, STOP, UNBOUND, Frame, Returned
from facula.capture.interpreter.instructions import Instruction
from facula.capture.interpreter.machine import run, throw

if TYPE_CHECKING:
    from facula.capture.values.kinds import Value


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "**": operator.pow, "@": operator.matmul,
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift,
    ">>": operator.rshift,
    "+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv,
    "//=": operator.ifloordiv, "%=": operator.imod, "**=": operator.ipow, "@=": operator.imatmul,
    "&=": operator.iand, "|=": operator.ior, "^=": operator.ixor, "<<=": operator.ilshift,
    ">>=": operator.irshift,
    "[]": operator.getitem,
}  # fmt: skip
UNARY: dict[str, Callable[[Any], Any]] = {
    "+": operator.pos,
    "-": operator.neg,
    "~": operator.invert,
}
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


class Concrete:
    """Operations on real objects."""

    RAISED = BaseException
    watch = None

    def __init__(self, call_hook: Callable[[Any], Any] | None = None) -> None:
        self.call_hook = call_hook or (lambda function: function)

    def caught(self, error: BaseException, frame: Frame) -> BaseException:
        return error

    def constant(self, value: object) -> Any:
        return value

    def constant_of(self, value: Value) -> Any:
        return value

    def loaded(self, value: Value) -> Any:
        return value

    def is_cell(self, value: object) -> bool:
        return type(value) is types.CellType

    def fail(self, kind: type[BaseException], text: str) -> None:
        raise kind(text)

    def unknown_instruction(self, frame: Frame, instruction: Instruction) -> None:
        raise SystemError(f"[compile] a known instruction was required: got {instruction.name}")

    # names ----------------------------------------------------------------------------------------
    def make_cell(self, value: object) -> Any:
        return types.CellType() if value is UNBOUND else types.CellType(value)

    def read_cell(self, cell: Any) -> Any:
        try:
            return cell.cell_contents
        except ValueError:
            return UNBOUND

    def write_cell(self, cell: Any, value: object) -> None:
        if value is UNBOUND:
            del cell.cell_contents
        else:
            cell.cell_contents = value

    def load_global(self, frame: Frame, name: str) -> Any:
        if name in frame.globals:
            return frame.globals[name]
        known = frame.globals.get("__builtins__", builtins)
        known = known if isinstance(known, dict) else vars(known)
        if name in known:
            return known[name]
        raise NameError(f"name '{name}' is not defined")

    def store_global(self, frame: Frame, name: str, value: Value) -> None:
        frame.globals[name] = value

    def delete_global(self, frame: Frame, name: str) -> None:
        if name not in frame.globals:
            raise NameError(f"name '{name}' is not defined")
        del frame.globals[name]

    getattr = staticmethod(builtins.getattr)
    setattr = staticmethod(builtins.setattr)
    delattr = staticmethod(builtins.delattr)
    getitem = staticmethod(operator.getitem)
    setitem = staticmethod(operator.setitem)
    delitem = staticmethod(operator.delitem)
    iter = staticmethod(builtins.iter)
    truth = staticmethod(builtins.bool)
    to_bool = staticmethod(builtins.bool)

    def branch(self, value: Value, frame: Frame, jump: object) -> bool:
        return bool(value)

    logical_not = staticmethod(operator.not_)
    is_same = staticmethod(operator.is_)
    contains = staticmethod(operator.contains)
    build_tuple = staticmethod(builtins.tuple)
    build_list: Any = staticmethod(builtins.list)
    build_set: Any = staticmethod(builtins.set)

    def getattr_or(self, owner: Value, name: str) -> Any:
        return builtins.getattr(owner, name, None)

    def super(self, frame: Frame, function: Callable[..., Any], arguments: list[Any]) -> Any:
        if arguments:
            return function(*arguments)
        first = frame.code.co_varnames[0]
        self_ = frame.locals.get(first, UNBOUND)
        if self_ is UNBOUND:
            self_ = self.read_cell(frame.cells[first])
        return function(self.read_cell(frame.cells["__class__"]), self_)

    def next(self, iterator: Any) -> Any:
        return builtins.next(iterator, STOP)

    def send(self, receiver: Any, value: object) -> tuple[bool, Any]:
        try:
            if value is None:
                return False, builtins.next(receiver)
            return False, receiver.send(value)
        except StopIteration as stop:
            return True, stop.value

    def is_none(self, value: object) -> bool:
        return value is None

    def binary(self, symbol: str, left: object, right: object) -> Any:
        return BINARY[symbol](left, right)

    def unary(self, symbol: str, value: Value) -> Any:
        return UNARY[symbol](value)

    def compare(self, symbol: str, left: object, right: object) -> Any:
        return COMPARE[symbol](left, right)

    # making things --------------------------------------------------------------------------------
    def build_dict(self, keys: list[Any], values: list[Any]) -> Any:
        return dict(zip(keys, values, strict=True))

    def build_slice(self, parts: list[Any]) -> Any:
        return slice(*parts)

    def build_string(self, parts: list[Any]) -> Any:
        return "".join(parts)

    def format(self, value: Value, conversion: Any, spec: Any) -> Any:
        return builtins.format(conversion(value) if conversion else value, spec)

    def list_append(self, owner: Any, value: object) -> None:
        owner.append(value)

    def list_extend(self, owner: Any, values: object) -> None:
        owner.extend(values)

    def set_add(self, owner: Any, value: object) -> None:
        owner.add(value)

    def set_update(self, owner: Any, values: object) -> None:
        owner.update(values)

    def dict_update(self, owner: Any, values: object) -> None:
        owner.update(values)

    def dict_merge(self, owner: Any, values: Any) -> None:
        for key in values.keys():
            if key in owner:
                raise TypeError(f"got multiple values for keyword argument '{key}'")
            owner[key] = values[key]

    def unpack(self, value: Any, count: int) -> list[Any]:
        values = list(value)
        if len(values) > count:
            raise ValueError(f"too many values to unpack (expected {count})")
        if len(values) < count:
            raise ValueError(f"not enough values to unpack (expected {count}, got {len(values)})")
        return values

    def unpack_all(self, value: Any) -> list[Any]:
        return list(value)

    def keywords(self, value: Any) -> dict[str, Any]:
        return dict(value)

    def make_function(self, frame: Frame, code: types.CodeType, parts: dict[str, Any]) -> Any:
        closure = parts.get("closure") or tuple(frame.cells[name] for name in code.co_freevars)
        made = types.FunctionType(code, frame.globals, code.co_name, None, closure)
        made.__module__ = frame.globals.get("__name__")
        for name, value in parts.items():
            self.set_function_part(made, name, value)
        return made

    def set_function_part(self, function: Any, name: str, value: Any) -> Any:
        if name == "closure":
            if function.__closure__ != value:
                made = types.FunctionType(
                    function.__code__, function.__globals__, function.__name__, None, value
                )
                made.__defaults__, made.__kwdefaults__ = (
                    function.__defaults__,
                    function.__kwdefaults__,
                )
                return made
        elif name == "annotations":
            names = (
                value
                if isinstance(value, dict)
                else dict(zip(value[::2], value[1::2], strict=True))
            )
            function.__annotations__ = names
        else:
            builtins.setattr(function, f"__{name}__", value)
        return function

    def is_mapping(self, value: object) -> bool:
        return isinstance(value, Mapping)

    def is_sequence(self, value: object) -> bool:
        return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))

    # calls ----------------------------------------------------------------------------------------
    def call(self, function: object, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return self.call_hook(function)(*args, **kwargs)

    def call_in(
        self, frame: Frame, function: object, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        if function is builtins.super and not args:
            return self.super(frame, function, args)
        if function is builtins.locals and not args:
            cells = {n: self.read_cell(c) for n, c in frame.cells.items()}
            return {n: v for n, v in {**frame.locals, **cells}.items() if v is not UNBOUND}
        if function is builtins.globals and not args:
            return frame.globals
        if frame.handling is not None:
            return _while_handling(frame.handling, self.call_hook(function), args, kwargs)
        return self.call_hook(function)(*args, **kwargs)

    def import_name(self, frame: Frame, name: str, names: Any, level: int) -> Any:
        return __import__(name, frame.globals, None, names, level)

    def import_from(self, module: Any, name: str) -> Any:
        try:
            return builtins.getattr(module, name)
        except AttributeError:
            found = sys.modules.get(f"{module.__name__}.{name}")
            if found is None:
                raise ImportError(f"cannot import name {name!r} from {module.__name__!r}") from None
            return found

    def load_build_class(self, frame: Frame) -> Any:
        return builtins.__build_class__

    def make_generator(self, frame: Frame) -> Any:
        return run_generator(self, frame)

    # exceptions -----------------------------------------------------------------------------------
    def exception_matches(self, error: object, kind: Any) -> bool:
        return isinstance(error, kind)

    def split_group(self, error: object, kind: Any) -> tuple[Any, Any]:
        if isinstance(error, kind) and not isinstance(error, BaseExceptionGroup):
            return None, BaseExceptionGroup("", [error])
        if isinstance(error, BaseExceptionGroup):
            match, rest = error.split(kind)
            return rest, match
        return error, None

    def prepare_reraise_star(self, original: object, failed: list[Any]) -> Any:
        left = [error for error in failed if error is not None]
        if not left:
            return None
        if len(left) == 1 and (left[0] is original or not isinstance(original, BaseExceptionGroup)):
            return left[0]
        return BaseExceptionGroup("", left) if len(left) > 1 else left[0]

    def raise_(self, frame: Frame, error: object, cause: Any) -> None:
        raised = error() if isinstance(error, type) else error
        if not isinstance(raised, BaseException):
            raise TypeError("exceptions must derive from BaseException")
        if frame.handling is not None and raised is not frame.handling:
            raised.__context__ = frame.handling
        if cause is not None or (frame.instruction is not None and frame.instruction.arg == 2):
            raised.__cause__ = cause() if isinstance(cause, type) else cause
        raise raised

    def reraise(self, frame: Frame, error: Any) -> None:
        if error is None:
            raise RuntimeError("No active exception to reraise")
        raise error

    def stop_iteration_error(self, error: object) -> Any:
        if not isinstance(error, StopIteration):
            return error
        made = RuntimeError("generator raised StopIteration")
        made.__cause__ = made.__context__ = error
        return made

    def stopped_value(self, error: Any) -> Any:
        if isinstance(error, StopIteration):
            return error.value
        raise error

    def context_methods(self, manager: Any) -> tuple[Any, Any]:
        cls = type(manager)
        for name in ("__enter__", "__exit__"):
            if not hasattr(cls, name):
                raise TypeError(
                    f"'{cls.__name__}' object does not support the context manager protocol"
                )
        return manager.__exit__, manager.__enter__

    def exception_triple(self, error: Any) -> list[Any]:
        return [type(error), error, error.__traceback__]


def _while_handling(
    error: BaseException, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """A call inside of an `except` block, so that what it raises or asks sees the exception."""
    try:
        raise error
    except BaseException as present:
        if present is not error:
            raise
        trace = error.__traceback__
        if trace is not None:
            error.__traceback__ = trace.tb_next
        return function(*args, **kwargs)


def run_generator(domain: Concrete, frame: Frame) -> Any:
    """A real generator over a frame."""
    while True:
        signal = run(domain, frame)
        if isinstance(signal, Returned):
            return signal.value
        try:
            sent = yield signal.value
        except BaseException as error:
            if not throw(domain, frame, error):
                raise
        else:
            frame.push(sent)


def call_concretely(function: types.FunctionType, values: dict[str, Any], domain: Concrete) -> Any:
    """Run a function's code in the domain, its parameters given by name."""
    frame = Frame(function.__code__, function, function.__globals__)
    frame.locals.update(values)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        frame.cells[name] = cell
    return run(domain, frame).value


__all__ = ["BINARY", "COMPARE", "NULL", "UNARY", "Concrete", "call_concretely", "run_generator"]
