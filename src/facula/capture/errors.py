"""Exceptions of the compiler, and tracebacks that show the user's lines.

Takes: an exception and the frame that it left. Gives: the exception with an entry for that frame.
Keeps true: the names are PyTorch's; each message has the code, the user's line, the cause and a rewrite.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from facula.capture.breaks import CATALOGUE, Break
from facula.capture.interpreter.frames import Frame
from facula.core.stages import Place, place_of
from facula.fx.higher_order.errors import TorchDynamoException, UncapturedHigherOrderOpError

__all__ = [
    "BackendCompilerFailed", "FailOnRecompileLimitHit", "InternalTorchDynamoError", "InvalidBackend",
    "RecompileError", "SuppressedFaultWarning", "TorchDynamoException", "TorchRuntimeError",
    "UncapturedHigherOrderOpError", "Unsupported", "UserError", "refusal", "user_frame",
]  # fmt: skip


class Unsupported(TorchDynamoException):
    """`fullgraph=True`, and something that can not be captured."""

    def __init__(self, reason: Break) -> None:
        self.code = reason.code
        self.line = reason.line
        self.reason = reason
        entry = CATALOGUE[reason.code]
        where = f"\n  {reason.line}" if reason.line is not None else ""
        super().__init__(
            f"[compile] one graph was required (fullgraph=True): got a graph break "
            f"[{reason.code}] {reason}{where}\ncause: {entry.cause}\nhint: {reason.rewrite}"
        )


class NotAllowed(Unsupported):
    """A program that the settings exclude."""

    def __init__(self, text: str) -> None:
        TorchDynamoException.__init__(self, text)


class TorchRuntimeError(Unsupported):
    """`fullgraph=True`, and an operator of the captured program that raises for stand-ins, too."""


def refusal(reason: Break) -> Unsupported:
    """What `fullgraph=True` makes of a break."""
    return (TorchRuntimeError if reason.code == "fake-error" else Unsupported)(reason)


class BackendCompilerFailed(TorchDynamoException):
    """A backend raised."""

    def __init__(self, backend: Callable[..., Any], error: Exception) -> None:
        self.inner_exception = error
        backend = getattr(backend, "func", backend)  # with its options
        name = getattr(backend, "__name__", type(backend).__name__)
        name = getattr(backend, "backend_name", name)
        self.stage, self.line = place_of(error) or Place("backend")
        where = f"\n  {self.line}" if self.line else ""
        super().__init__(
            f"[compile] a compiled graph was required: got backend={name!r} raised:\n"
            f"{type(error).__name__}: {error}\nstage: {self.stage}{where}\n"
            "hint: backend='eager' runs captured graphs as they are; "
            "facula._dynamo.config.suppress_errors = True does so where a backend fails, and warns"
        )


class RecompileError(TorchDynamoException):
    """`error_on_recompile`, and a guard that failed."""


class FailOnRecompileLimitHit(TorchDynamoException):
    """`fail_on_recompile_limit_hit`, or `fullgraph=True`, and the limit is reached."""


class InternalTorchDynamoError(TorchDynamoException):
    """A fault of the compiler."""

    inner_exception: Exception | None = None
    stage, line = "capture", None

    @classmethod
    def of(cls, error: Exception, stage: str, line: Any) -> InternalTorchDynamoError:
        """The fault that an exception of the compiler's own code is."""
        where = f"\n  {line}" if line is not None else ""
        made = cls(
            f"[compile] a captured program was required: got {type(error).__name__}: {error}\n"
            f"stage: {stage}{where}\n"
            "hint: this is a fault of the compiler, please report it; "
            "facula._dynamo.config.suppress_errors = True runs in eager what fails, and warns"
        )
        made.inner_exception, made.stage, made.line = error, stage, line
        return made


class SuppressedFaultWarning(UserWarning):
    """A fault of the compiler or of a backend, and `suppress_errors` lets the program go on."""


class InvalidBackend(TorchDynamoException):
    """No backend has that name."""


class UserError(TorchDynamoException):
    """What was asked for does not fit the program."""

    @property
    def msg(self) -> str:
        """The message."""
        return str(self)


def user_frame(error: BaseException, frame: Frame) -> None:
    """Add the user's line to the traceback of an exception that leaves a frame."""
    line = frame.instruction.line if frame.instruction is not None else frame.code.co_firstlineno
    template = _TEMPLATE.__code__.replace(
        co_filename=frame.code.co_filename,
        co_name=frame.code.co_name,
        co_qualname=frame.code.co_qualname,
        co_firstlineno=line - 1,  # its call stands on its second line
    )
    made = types.FunctionType(template, {"current": __import__("sys")._getframe})()
    error.__traceback__ = types.TracebackType(error.__traceback__, made, made.f_lasti, line)


def _TEMPLATE() -> Any:  # noqa: N802 - a template, not a function to call
    return current()  # type: ignore[name-defined] # noqa: F821
