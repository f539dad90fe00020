"""One way to say that something is wrong.

Takes an exception type, the operator's name, what it required, what it got and what to do about it;
raises the exception with a message of one fixed form.  Keeps true: every error that facula raises
about an argument reads `[op] what was required: got what was got`, then, on its own line, `hint:
what to do`.
"""

from typing import Any, NoReturn

__all__ = ["LinAlgError", "fail", "message"]


class LinAlgError(RuntimeError):
    """A matrix has no factorisation or inverse, or an iteration did not converge."""


def message(op: str, required: str, got: Any = None, hint: str | None = None) -> str:
    """The text that `fail` raises, for those who warn or collect instead of raising."""
    text = f"[{op}] {required}"
    if got is not None:
        text += f": got {got}"
    if hint is not None:
        text += f"\nhint: {hint}"
    return text


def fail(
    exception: type[BaseException],
    op: str,
    required: str,
    got: Any = None,
    hint: str | None = None,
) -> NoReturn:
    """Raise `exception` with the message `[op] required: got got`, and the hint below it.

    >>> fail(ValueError, "softmax", "dim must be in [-2, 1]", got=5, hint="the tensor is 2-d")
    Traceback (most recent call last):
        ...
    ValueError: [softmax] dim must be in [-2, 1]: got 5
    hint: the tensor is 2-d
    """
    raise exception(message(op, required, got, hint))
