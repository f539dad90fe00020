"""Who hears that a program begins, and has ended, to be compiled.

Takes: functions. Gives: `on_compile_start`, `on_compile_end`, and the object that keeps them.
Keeps true: of compilations inside one another the outermost is announced; what hears them gets `CallbackArgs`.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections.abc import Callable
from typing import Any

from facula.capture.events import ON_END, ON_START

__all__ = [
    "CallbackArgs",
    "CallbackTrigger",
    "callback_handler",
    "on_compile_end",
    "on_compile_start",
]


class CallbackTrigger(enum.Enum):
    """What is compiled."""

    DYNAMO = 1
    LAZY_BACKWARD = 2
    TRITON_AUTOTUNING = 3
    CUDAGRAPH_RECORDING = 4


@dataclasses.dataclass
class CallbackArgs:
    """What is compiled, and the number of the compilation in this process."""

    callback_trigger: CallbackTrigger
    compile_id: str


Callback = Callable[..., Any]


class CompilationCallbackHandler:
    """The functions that hear of compilations."""

    def __init__(self) -> None:
        self.start_callbacks: list[Callback] = []
        self.end_callbacks: list[Callback] = []
        ON_START.append(lambda number: self._tell(self.start_callbacks, number))
        ON_END.append(lambda number: self._tell(self.end_callbacks, number))

    @staticmethod
    def _tell(callbacks: list[Callback], number: int) -> None:
        for callback in list(callbacks):
            if inspect.signature(callback).parameters:
                callback(CallbackArgs(CallbackTrigger.DYNAMO, str(number)))
            else:
                callback()  # as PyTorch up to 2.6 called it

    def register_start_callback(self, callback: Callback) -> Callback:
        """Have a function hear of every beginning."""
        self.start_callbacks.append(callback)
        return callback

    def register_end_callback(self, callback: Callback) -> Callback:
        """Have a function hear of every end."""
        self.end_callbacks.append(callback)
        return callback

    def remove_start_callback(self, callback: Callback) -> None:
        """Take back `register_start_callback`."""
        self.start_callbacks.remove(callback)

    def remove_end_callback(self, callback: Callback) -> None:
        """Take back `register_end_callback`."""
        self.end_callbacks.remove(callback)

    def clear(self) -> None:
        """Nobody hears anything any more."""
        self.start_callbacks.clear()
        self.end_callbacks.clear()


callback_handler = CompilationCallbackHandler()


def on_compile_start(callback: Callback) -> Callback:
    """Has a function called whenever a program begins to be compiled; also a decorator.

    Args:
        callback: of a `CallbackArgs`, or of nothing

    Example:
        >>> from facula._dynamo import callback_handler, on_compile_start
        >>> heard = []
        >>> listener = on_compile_start(lambda told: heard.append(told.callback_trigger.name))
        >>> facula.compile(lambda x: x + 1, backend="eager")(facula.zeros(1))
        tensor([1.])
        >>> heard
        ['DYNAMO']
        >>> callback_handler.clear()
    """
    return callback_handler.register_start_callback(callback)


def on_compile_end(callback: Callback) -> Callback:
    """Has a function called whenever a program has been compiled, or could not be; also a decorator.

    Args:
        callback: of a `CallbackArgs`, or of nothing

    Example:
        >>> from facula._dynamo import callback_handler, on_compile_end
        >>> heard = []
        >>> listener = on_compile_end(lambda told: heard.append(told.callback_trigger.name))
        >>> facula.compile(lambda x: x + 1, backend="eager")(facula.zeros(1))
        tensor([1.])
        >>> heard
        ['DYNAMO']
        >>> callback_handler.clear()
    """
    return callback_handler.register_end_callback(callback)
