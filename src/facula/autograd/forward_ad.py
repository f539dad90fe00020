"""Forward-mode differentiation with dual tensors.

Takes tensors and their tangents inside of a `dual_level`.  Gives dual tensors, which carry tangents
through operations.
Keeps true: the tangents of a level are gone when it is left; levels are not nested, but transforms
of `func` may be at work inside or outside of one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from facula import core
from facula.autograd.transforms.forward import check_pair, dual
from facula.autograd.transforms.levels import own_tangent, tangent_of
from facula.autograd.transforms.tangents import JvpLevel
from facula.core import printing
from facula.core.errors import fail

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]

_active: list[JvpLevel] = []


class UnpackedDualTensor(NamedTuple):
    """The value of a dual tensor, and its tangent.

    Args:
        primal: the value
        tangent: None where there is none

    Example:
        >>> facula.autograd.forward_ad.UnpackedDualTensor(facula.tensor(1.0), None).primal
        tensor(1.)
    """

    primal: Any
    tangent: Any


def enter_dual_level() -> int:
    """Enters a level of dual tensors, without a block.

    Returns:
        its number.

    Example:
        >>> import facula.autograd.forward_ad as fwAD
        >>> level = fwAD.enter_dual_level()
        >>> fwAD.exit_dual_level(level=level)
    """
    if _active:
        fail(
            RuntimeError,
            "enter_dual_level",
            ("Nested forward mode AD is not supported at the moment (a dual level is active)"),
            hint="facula.func.jvp() nests",
        )
    _active.append(JvpLevel().__enter__())
    return len(_active) - 1


def exit_dual_level(*, level: int | None = None) -> None:
    """Leaves the level of dual tensors that is active; tangents are forgotten.

    Args:
        level: its number; None for the active one

    Raises:
        RuntimeError: it is not the active level.

    Example:
        >>> import facula.autograd.forward_ad as fwAD
        >>> _ = fwAD.enter_dual_level()
        >>> fwAD.exit_dual_level()
    """
    number = len(_active) - 1 if level is None else level
    if not _active or number != len(_active) - 1:
        fail(
            RuntimeError,
            "exit_dual_level",
            (
                "Trying to exit a forward AD level that was not the last one that was "
                "created. This is not supported."
            ),
            hint="forward_ad.dual_level() as a context leaves in the right order",
        )
    _active.pop().__exit__()


def make_dual(tensor: core.Tensor, tangent: core.Tensor, *, level: int | None = None) -> Any:
    """A dual tensor: a view of a tensor with a tangent.

    Args:
        tensor: the value, of a floating or complex dtype
        tangent: of the same shape and dtype
        level: at which level; None for the active one

    Raises:
        RuntimeError: there is no level.

    Example:
        >>> import facula.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     x = fwAD.make_dual(facula.tensor([1.0, 2.0]), facula.tensor([1.0, 0.0]))
        ...     fwAD.unpack_dual(x.exp().sum()).tangent
        tensor(2.7183)
    """
    if not _active:
        fail(
            RuntimeError,
            "make_dual",
            (
                "Trying to create a dual Tensor for forward AD but no level exists, make "
                "sure to enter_dual_level() first."
            ),
            hint="with facula.autograd.forward_ad.dual_level(): enters one",
        )
    number = _active[-1].number
    for x, required in (
        (tensor, "a tensor without a tangent was required (Making a dual Tensor based on a Tensor that already "
         "has a forward gradient at the same level 0 is not supported.)"),
        (tangent, "a tangent without one of its own was required (Setting a forward grad that itself has a forward "
         "gradient at the same level 0 is not supported.)"),
    ):  # fmt: skip
        if isinstance(x, core.Tensor) and own_tangent(x, number) is not None:
            fail(
                RuntimeError,
                "make_dual",
                required,
                "a dual tensor",
                hint="unpack_dual(x) gives both parts",
            )
    check_pair("make_dual", tensor, tangent)
    return dual(tensor, tangent, _active[-1])


def unpack_dual(tensor: core.Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value of a tensor, and its tangent (None where it has none).

    Args:
        tensor: any
        level: at which level; None for the active one

    Example:
        >>> import facula.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     fwAD.unpack_dual(facula.tensor(1.0)).tangent is None
        True
    """
    if not _active:
        return UnpackedDualTensor(tensor, None)
    current = _active[-1]
    tangent = tangent_of(tensor, current.number)
    if tangent is None:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(current.call_below(tensor.view_as, (tensor,), {}), tangent)


class dual_level:  # noqa: N801
    """A block in which dual tensors live: tensors with a tangent, on which operators compute both.

    Example:
        >>> import facula.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     x = fwAD.make_dual(facula.tensor(3.0), facula.tensor(1.0))
        ...     fwAD.unpack_dual(x * x).tangent
        tensor(6.)
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exception: object) -> None:
        exit_dual_level()


def _printed(tensor: core.Tensor) -> tuple[Any, Any]:
    if not _active or own_tangent(tensor, _active[-1].number) is None:
        return tensor, None
    with_below = _active[-1]
    return with_below.call_below(tensor.detach, (), {}), own_tangent(tensor, with_below.number)


printing.unpack_dual = _printed
