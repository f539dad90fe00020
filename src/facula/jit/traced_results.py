"""What a traced program may give.

Takes: the result of a traced call. Gives: the same, where a trace can have it.
Keeps true: a form that may depend on the inputs is an error, or a warning, unless the user asked for it.
"""

from __future__ import annotations

import warnings
from typing import Any

from facula import core
from facula.core.errors import fail, message
from facula.jit.traced_sizes import TracedInt

__all__ = ["TracerWarning", "allowed"]


class TracerWarning(Warning):
    """What may make a trace wrong for other inputs.

    Example:
        >>> issubclass(facula.jit.TracerWarning, Warning)
        True
    """

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Show none that the framework's own code is the cause of."""
        own = __name__.partition(".")[0]
        warnings.filterwarnings("ignore", category=TracerWarning, module=rf"({own}|torch)\.(?!jit)")


def allowed(result: object, strict: bool) -> Any:
    """The result of a traced call; raises where it is nothing that a trace gives."""
    if isinstance(result, dict):
        if strict:
            fail(RuntimeError, "jit.trace", "a result of one form was required (Encountering a dict at the output of "
                 "the tracer might cause the trace to be incorrect)", "a dict", hint=_CONTAINERS)  # fmt: skip
        for value in result.values():
            _check(value, _OF_DICTIONARIES)
    if isinstance(result, list):
        for value in result:
            if not isinstance(value, (core.Tensor, TracedInt)):
                _refuse(value)
        if strict:
            text = message("jit.trace", "a result of one form was required (Encountering a list at the output of the "
                           "tracer might cause the trace to be incorrect)", "a list", _CONTAINERS)  # fmt: skip
            warnings.warn(text, TracerWarning, stacklevel=5)
    return result


_CONTAINERS = "give a tuple, or a NamedTuple; strict=False says that the containers are the same for all inputs"


_OF_ALL = (
    "tensors were required as results (Only tensors, lists, tuples of tensors, or dictionary of tensors can be output "
    "from traced functions)"
)
_OF_DICTIONARIES = (
    f"{_OF_ALL[:-1]}; another dictionary cannot be understood by the tracer, only outputs matching "
    "dict[Union[str, Tensor], Union[Tensor, Tuple[Tensor, ...]]])"
)


def _check(value: object, wanted: str = _OF_ALL) -> None:
    if isinstance(value, (tuple, list)):
        for each in value:
            _check(each, wanted)
    elif isinstance(value, dict):
        _check(list(value.values()), wanted)
    elif not isinstance(value, (core.Tensor, TracedInt)) and value is not None:
        _refuse(value, wanted)


def _refuse(value: object, wanted: str = _OF_ALL) -> None:
    fail(RuntimeError, "jit.trace", wanted, type(value).__name__,
         hint="return a tensor: facula.as_tensor(value)")  # fmt: skip


def warn_of_constant(what: str, stacklevel: int) -> None:
    """Say that a value of the traced program does not follow the inputs."""
    warnings.warn(
        f"Converting a tensor to a {what} might cause the trace to be incorrect: the value is a constant of the "
        "trace, and other inputs take the same branches.", TracerWarning, stacklevel=stacklevel,
    )  # fmt: skip
