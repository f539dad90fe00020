"""One way to say that something is wrong.

Takes an exception type, the operator's name, what it required, what it got and what to do about it;
raises the exception with a message of one fixed form.  Keeps true: every error that facula raises
about an argument reads `[op] what was required: got what was got`, then, on its own line, `hint:
what to do`, with facula's names as the program knows them (`spoken`): under an alias those of the
alias.
"""

import re
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

from facula.core._core import DTYPE_PREFIX, spoken, unkept

__all__ = [
    "LinAlgError",
    "batch_hint",
    "cast_hint",
    "dim_hint",
    "fail",
    "in_favor_of",
    "is_own",
    "message",
    "no_attribute",
    "own_name",
    "product_hint",
    "said",
    "spoken",
    "system_kind",
    "told",
]


class LinAlgError(RuntimeError):
    """A matrix has no factorisation or inverse, or an iteration did not converge."""


def message(op: str, required: str, got: Any = None, hint: str | None = None) -> str:
    """The text that `fail` raises, for those who warn or collect instead of raising."""
    text = spoken(f"[{op}] {required}")
    if got is not None:
        text += f": got {got}"
    if hint is not None:
        text += f"\nhint: {spoken(hint)}"
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


def said(error: BaseException) -> str:
    """What an error of another library says, without addresses of objects; its kind, where it says nothing."""
    text = re.sub(
        r"<[^<>]*\bobject at 0x[0-9a-f]+>|<_io\.[^<>]*>", "it", str(error).partition("\nhint: ")[0]
    )
    text = " ".join(text.split())
    return text or type(error).__name__


def system_kind(error: BaseException, other: type[Exception]) -> type[Exception]:
    """The kind of an error of the system (a file that is not there, a connection that broke); `other` of all others,
    those of libraries included, which may take other arguments than a text.
    """
    kind = type(error)
    return kind if issubclass(kind, OSError) and kind.__module__ == "builtins" else other


def no_attribute(module: str, name: str) -> AttributeError:
    """What a module's `__getattr__` raises: Python's own words."""
    return AttributeError(spoken(f"module {module!r} has no attribute {name!r}"))


def is_own(module: str | None) -> bool:
    """Whether a module is facula or part of it."""
    top = (module or "").partition(".")[0]
    return top == "facula" or top == DTYPE_PREFIX[0]


def own_name(module: str | None) -> str:
    """The name of a module as it stands in facula's own source, also under an alias."""
    if module is None or not is_own(module):
        return module or ""
    return "".join(("facula", *module.partition(".")[1:]))


def dim_hint(ndim: int) -> str:
    """What to do about a dimension that a tensor of `ndim` dimensions does not have."""
    if ndim == 0:
        return "the tensor has no dimensions: only dim=0 and dim=-1 are taken"
    return f"the tensor is {ndim}-d: dim={ndim - 1} or dim=-1 is its last dimension"


def cast_hint(name: str, dtype: Any) -> str:
    """What to do about an argument of another dtype than `dtype`."""
    return f"{name}.to({dtype}) converts it"


def one_dtype(op: str, first: Any, second: Any, required: str) -> None:
    """Raise for tensors of two dtypes; `required` has `{0}` and `{1}` where their names go.

    Raises:
        RuntimeError: the dtypes differ.
    """
    if first.dtype is not second.dtype:
        text = required.format(first.dtype.type_word, second.dtype.type_word)
        got = f"{first.dtype} and {second.dtype}"
        fail(RuntimeError, op, text, got, cast_hint("the second", first.dtype))


def product_hint(
    left: Sequence[int], right: Sequence[int], names: tuple[str, str] = ("mat1", "mat2")
) -> str:
    """What to do about two matrices (or batches of them) that have no product: a transpose where
    one fits.  A single row or column may stand for a vector, so it is not turned.
    """
    for name, shape, fits in (
        (names[1], right, left[-1] == right[-1] > 1),
        (names[0], left, left[-2] == right[-2] > 1),
    ):
        if fits:
            turned = [*shape[:-2], shape[-1], shape[-2]]
            return f"{name}.mT has shape {turned}, which would fit"
    return f"give {names[1]} {left[-1]} row(s), or {names[0]} {right[-2]} column(s)"


def batch_hint(left: Sequence[int], right: Sequence[int]) -> str:
    """What to do about two batches of matrices, batch1 and batch2, that have no product."""
    if left[0] != right[0]:
        if 1 in (left[0], right[0]):
            return "matmul() repeats a batch of 1 as often as the other batch needs"
        return f"slice or repeat one of them: {left[0]} and {right[0]} matrices do not pair up"
    return product_hint(left, right, ("batch1", "batch2"))


def told(op: str, text: str, hint: str) -> None:
    """Warn of a call of the operator `op`, with PyTorch's key phrase, at the caller's line.

    The call is not kept by the launch cache, so that it warns each time: Python's filters decide what is shown.
    """
    unkept()
    warnings.warn(spoken(f"[{op}] {text}\nhint: {hint}"), UserWarning, stacklevel=4)


def in_favor_of(op: str, newer: str, hint: str) -> None:
    """Warn that the operator `op` has a successor."""
    told(op, f"facula.{op} is deprecated in favor of facula.{newer}", hint)
