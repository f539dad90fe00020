"""Fake tensors beside real ones: `CrossRefFakeMode` runs every operator on both, and compares.

Takes: programs. Gives: the mode, and `try_convert_fake_to_real`. Keeps true: results are those of the real run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.fx import _pytree as pytree
from facula.fx.dispatch_mode import TorchDispatchMode
from facula.fx.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)

__all__ = ["CrossRefFakeMode", "MetadataMismatchError", "try_convert_fake_to_real"]

_UNKNOWN = (
    UnsupportedFakeTensorException, DynamicOutputShapeException, DataDependentOutputException,
)  # fmt: skip


class MetadataMismatchError(Exception):
    """A fake result that is not like the real one."""


def _is_tensor(x: object) -> bool:
    return isinstance(x, core.Tensor)


def _differs(func: Callable[..., Any], what: str, fake: object, real: object) -> None:
    fail(
        MetadataMismatchError,
        str(func),
        f"a fake result like the real one was required: {what}",
        f"{fake} for {real}",
        hint="the operator's function for tensors without data says something else",
    )


class CrossRefFakeMode(TorchDispatchMode):
    """A block in which every operator runs on fake tensors as well, and both results must have the same metadata."""

    hears_own_operators = True

    def __init__(
        self,
        ignore_op_fn: Callable[[Any], bool] | None = None,
        *,
        check_strides: bool = True,
        check_aliasing: bool = True,
        only_check_ops_with_meta: bool = True,
    ) -> None:
        super().__init__()
        self.ignore_op_fn = ignore_op_fn or (lambda function: False)
        self.check_strides, self.check_aliasing = check_strides, check_aliasing
        self.only_check_ops_with_meta = only_check_ops_with_meta

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: object,
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        found = _UNKNOWN
        if not self.ignore_op_fn(func):
            try:
                with FakeTensorMode() as mode:
                    fake = pytree.tree_map_only(
                        core.Tensor,
                        lambda t: mode.from_tensor(t, static_shapes=True),
                        (args, kwargs),
                    )
                    found = func(*fake[0], **fake[1])
            except _UNKNOWN:
                pass
        real = func(*args, **kwargs)
        if found is not _UNKNOWN:
            self._compare(func, found, real, fake, (args, kwargs))
        return real

    def _compare(
        self,
        func: Callable[..., Any],
        fake: object,
        real: object,
        fake_given: object,
        given: object,
    ) -> None:
        fakes, reals = pytree.tree_leaves(fake), pytree.tree_leaves(real)
        if len(fakes) != len(reals):
            _differs(func, "the number of results", len(fakes), len(reals))
        for one, other in zip(fakes, reals, strict=True):
            if not _is_tensor(other):
                continue
            if not _is_tensor(one):
                _differs(func, "a tensor", one, other)
            for name in ("shape", "dtype", "device", "requires_grad"):
                if getattr(one, name) != getattr(other, name):
                    _differs(func, name, getattr(one, name), getattr(other, name))
            if self.check_strides and other.numel() and _strides(one) != _strides(other):
                _differs(func, "strides", one.stride(), other.stride())
        if self.check_aliasing:
            own, theirs = _shared(fakes, fake_given), _shared(reals, given)
            if own != theirs:
                _differs(func, "what shares memory", own, theirs)


def _strides(t: core.Tensor) -> list[int]:
    """Those of dimensions in which one moves."""
    return [stride for stride, size in zip(t.stride(), t.shape, strict=True) if size > 1]


def _shared(results: list[Any], given: object) -> list[tuple[int, int]]:
    """Which results share memory with which arguments."""
    inputs = [x for x in pytree.tree_leaves(given) if _is_tensor(x)]
    return [
        (i, k)
        for i, x in enumerate(results)
        for k, y in enumerate(inputs)
        if _is_tensor(x) and x.numel() and core.storage_place(x) == core.storage_place(y)
    ]


def try_convert_fake_to_real(ten_list: list[Any]) -> list[Any]:
    """Real tensors with the geometry of fake ones; views of one memory stay that. What is not fake is given as
    it is.
    """
    wholes: dict[int, Any] = {}

    def real(t: object) -> Any:
        if not isinstance(t, FakeTensor):
            return t
        place = core.storage_place(t)
        if place not in wholes:
            count = t.untyped_storage().nbytes()
            wholes[place] = core.empty((count,), dtype=core.uint8, device=t.device)
        offset = t.storage_offset() * t.element_size()
        return core.view_dtype(wholes[place], t.dtype, tuple(t.shape), t.stride(), offset)

    return [real(t) for t in ten_list]
