"""Exceptions and context managers of the program that is interpreted.

Takes: exception values. Gives: `Raised`, which the machine sends to the frame's handler.
Keeps true: an exception that a computation on known values raises is the program's own.
"""

from __future__ import annotations

import types
from typing import Any, NoReturn

from facula.capture.breaks import Break
from facula.capture.interpreter.domain import Part
from facula.capture.values.kinds import Known, ObjectValue, Raised, SequenceValue

#: what classes of C keep of an exception: for the class and the attribute, which of its arguments
_PARTS: dict[tuple[type, str], int] = {
    (BaseExceptionGroup, "message"): 0,
    (BaseExceptionGroup, "exceptions"): 1,
    (StopIteration, "value"): 0,
    (SystemExit, "code"): 0,
}
#: the descriptors of what leads from an exception to others
EXCEPTION_LINKS: dict[str, Any] = {
    name: vars(BaseException)[name] for name in ("__cause__", "__context__")
}


class Exceptions(Part):
    """The part of `Symbolic` that knows exceptions."""

    RAISED = Raised

    def caught(self, error: Raised, frame: Any) -> ObjectValue:
        """The exception, which knows from now on what was being handled when it was raised."""
        value, handled = error.value, frame.handling
        if handled is None or value.source is not None or "__context__" in value.slots:
            return value
        handled = self.force(handled)
        if handled is not value and not self.is_none(handled):
            link = EXCEPTION_LINKS["__context__"]
            before = handled
            while isinstance(before, ObjectValue):  # no exception is among those that led to it
                found = before.slots.get("__context__", (None, None))[1]
                if found is value:
                    before.slots["__context__"] = (link, Known(None))
                before = None if found is value else found
            value.slots["__context__"] = (link, handled)
        return value

    def exception_part(self, owner: ObjectValue, name: str) -> Any:
        """An attribute that classes of C give an exception; None where it is any other."""
        if name in owner.slots:
            return self.force(owner.slots[name][1])
        base = self.class_of_attribute(owner.kind, name)
        if base is BaseException and name == "__suppress_context__":
            return Known("__cause__" in owner.slots)
        if base is BaseException and (name in EXCEPTION_LINKS or name == "__traceback__"):
            return Known(None)
        at = _PARTS.get((base, name))
        if at is None:
            return None
        parts = self.exception_args(owner).items
        chosen = self.force(parts[at]) if at < len(parts) else Known(None)
        return self.build_tuple(self.unpack_all(chosen)) if name == "exceptions" else chosen

    def new_exception(self, kind: type, args: list[Any]) -> ObjectValue:
        """An instance of an exception class."""
        value = self.made(ObjectValue(kind))
        value.args = self.build_tuple(args)
        return value

    def exception_args(self, owner: ObjectValue) -> Any:
        """`error.args`."""
        if owner.args is None:
            owner.args = self.wrap(owner.real.args, owner.source.attr("args"))
        return owner.args

    def fail(self, kind: type[BaseException], text: str) -> NoReturn:
        """Raise in the program."""
        raise Raised(self.new_exception(kind, [Known(text)]))

    def raise_with(self, kind: type[BaseException], args: list[Any]) -> NoReturn:
        """Raise in the program, with symbolic arguments."""
        raise Raised(self.new_exception(kind, args))

    def raise_host(self, error: BaseException) -> NoReturn:
        """Raise in the program what a computation on known values raised."""
        value = self.made(ObjectValue(type(error)))
        value.args = self.lift(tuple(error.args))
        raise Raised(value) from None

    def raise_(self, frame: object, error: object, cause: Any) -> None:
        error = self.force(error)
        if isinstance(error, Known) and isinstance(error.obj, type):
            error = self.call(error, [], {})
        if not isinstance(error, ObjectValue) or not issubclass(error.kind, BaseException):
            if isinstance(error, Known) and isinstance(error.obj, BaseException):
                raise Break("unsupported-value", "raising an exception from outside")
            self.fail(TypeError, "exceptions must derive from BaseException")
        if cause is not None:
            if error.source is not None:
                raise Break("unsupported-mutation", "the cause of an exception from outside")
            cause = self.force(cause)
            if isinstance(cause, Known) and isinstance(cause.obj, type):
                cause = self.call(cause, [], {})
            error.slots["__cause__"] = (EXCEPTION_LINKS["__cause__"], cause)
        raise Raised(error)

    def reraise(self, frame: object, error: object) -> NoReturn:
        if error is None:
            self.fail(RuntimeError, "No active exception to reraise")
        raise Raised(self.force(error))

    def exception_matches(self, error: object, kind: object) -> bool:
        return issubclass(self.force(error).cls, self.constant_of(kind))

    def split_group(self, error: Any, kind: object) -> tuple[Any, Any]:
        error, wanted = self.force(error), self.constant_of(kind)
        if not issubclass(error.cls, BaseExceptionGroup):
            if issubclass(error.cls, wanted):
                group = self.new_exception(ExceptionGroup, [Known(""), self.build_list([error])])
                return Known(None), group
            return error, Known(None)
        if issubclass(error.cls, wanted):
            return Known(None), error
        text, members = (self.force(v) for v in self.exception_args(error).items)
        parts: tuple[list, list] = ([], [])
        for member in self.unpack_all(members):
            parts[issubclass(self.force(member).cls, wanted)].append(member)
        made = [
            self.new_exception(error.kind, [text, self.build_list(part)]) if part else Known(None)
            for part in parts
        ]
        return made[0], made[1]

    def prepare_reraise_star(self, original: object, failed: object) -> Any:
        left = [e for e in self.unpack_all(failed) if not self.is_none(e)]
        if not left:
            return Known(None)
        if len(left) == 1:
            return left[0]
        return self.new_exception(ExceptionGroup, [Known(""), self.build_list(left)])

    def stop_iteration_error(self, error: Any) -> Any:
        error = self.force(error)
        if not issubclass(error.cls, StopIteration):
            return error
        made = self.new_exception(RuntimeError, [Known("generator raised StopIteration")])
        made.slots["__cause__"] = (EXCEPTION_LINKS["__cause__"], error)
        return made

    def stopped_value(self, error: object) -> Any:
        value = self.force(error)
        if issubclass(value.cls, StopIteration):
            args = self.exception_args(value).items
            return self.force(args[0]) if args else Known(None)
        raise Raised(value)

    def exception_triple(self, error: object) -> list[Any]:
        value = self.force(error)
        return [self.trusted(value.cls), value, Known(None)]

    def context_methods(self, manager: Any) -> tuple[Any, Any]:
        manager = self.force(manager)
        cls = manager.cls
        for name in ("__enter__", "__exit__"):
            if not hasattr(cls, name):
                self.fail(
                    TypeError,
                    f"'{cls.__name__}' object does not support the context manager protocol",
                )
        if isinstance(manager, ObjectValue) and isinstance(
            self.type_lookup(cls, "__enter__"), types.FunctionType
        ):
            return self.getattr(manager, "__exit__"), self.getattr(manager, "__enter__")
        raise Break("unsupported-call", f"the context manager {cls.__name__}")

    def exception_text(self, error: ObjectValue) -> Any:
        """`str(error)`."""
        args = self.exception_args(error)
        if not args.items:
            return Known("")
        if len(args.items) == 1 and not issubclass(error.kind, KeyError):
            return self.call(Known(str), [args.items[0]], {})
        plain = [self.constant_of(item) for item in args.items]
        return Known(str(error.kind(*plain)))


__all__ = ["Exceptions", "SequenceValue"]
