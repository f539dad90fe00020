"""Tensors without elements that are like given ones: shapes, steps, views, history's outlines.

Takes tensors.  Gives tensors on the meta device.
Keeps true: the same tensor gives the same one as long as both live, and tensors of one memory lie in
one memory there; a leaf gives a leaf, a view a view of what its base gives, with its gradient, too.
"""

from __future__ import annotations

import weakref
from typing import Any

import facula
from facula import core
from facula.core.errors import fail

__all__ = ["MetaConverter", "assert_metadata_eq", "is_sparse_any"]


def is_sparse_any(t: core.Tensor) -> bool:
    """Whether a tensor has one of the sparse layouts."""
    return t.layout not in (core.strided, getattr(facula, "jagged", None))


class MetaConverter:
    """Makes tensors on the meta device, the same for the same.

    Example:
        >>> from facula._subclasses.meta_utils import MetaConverter
        >>> to_meta, x = MetaConverter(), facula.ones(2, 3, requires_grad=True)
        >>> y = to_meta(x)
        >>> y.device, y.requires_grad, to_meta(x) is y
        (device(type='meta'), True, True)
    """

    def __init__(self) -> None:
        self.tensor_memo: dict[int, Any] = {}
        self.storage_memo: dict[int, Any] = {}
        self.hit = self.miss = 0

    def successful(self) -> bool:
        """Whether tensors were converted, and all that were asked for."""
        return self.hit > 0 and self.miss == 0

    def __call__(self, t: Any, shape_env: object = None, **options: object) -> Any:
        """The tensor on the meta device for a tensor; what is no tensor as it is."""
        if not isinstance(t, core.Tensor):
            return t
        if t.layout is not core.strided or core.is_wrapper(t):
            self.miss += 1
            fail(
                NotImplementedError,
                "MetaConverter",
                "a tensor with strides was required",
                t.layout,
                hint="convert the parts of other layouts, as x.values() and x.indices()",
            )
        self.hit += 1
        known = self.tensor_memo.get(id(t))
        if known is not None:
            return known
        made = self._made(t)
        if t.is_leaf and t.grad is not None:
            made.grad = self(t.grad)
        if isinstance(t, facula.nn.Parameter):
            made = facula.nn.Parameter(made.detach(), t.requires_grad)
        self.tensor_memo[id(t)] = made
        weakref.finalize(t, self.tensor_memo.pop, id(t), None)
        return made

    def _made(self, t: core.Tensor) -> Any:
        place = (tuple(t.shape), t.stride(), t.storage_offset())
        if t._is_view() and t._base is not None:
            base = self(t._base)
            with facula.set_grad_enabled(t.requires_grad and not t.is_leaf):
                if base.dtype is not t.dtype:
                    base = base.view(t.dtype)
                made = base.as_strided(*place)
            return made.requires_grad_() if t.requires_grad and t.is_leaf else made
        with facula.no_grad():
            made = core.empty((0,), dtype=t.dtype, device="meta")
            made = made.set_(self._storage(t), place[2], place[0], place[1])
        if not t.requires_grad:
            return made
        made.requires_grad_()
        if t.is_leaf:
            return made
        with facula.enable_grad():  # with a history, as the result of an operator has one
            return made.clone(memory_format=core.preserve_format)

    def _storage(self, t: core.Tensor) -> Any:
        storage = t.untyped_storage()
        key = storage._cdata
        if key not in self.storage_memo:
            self.storage_memo[key] = facula.UntypedStorage(storage.nbytes(), device="meta")
            weakref.finalize(t, self.storage_memo.pop, key, None)
        return self.storage_memo[key]


def assert_metadata_eq(assert_eq: Any, m1: Any, m2: Any, **options: object) -> None:
    """Compare what is to be seen of two tensors but for their elements and devices.

    Args:
        assert_eq: a function of two values
        m1, m2: the tensors

    Example:
        >>> from facula._subclasses.meta_utils import assert_metadata_eq
        >>> def same(a, b):
        ...     assert a == b
        >>> assert_metadata_eq(same, facula.ones(2), facula.zeros(2))
    """
    for word in ("dtype", "shape", "requires_grad", "is_leaf", "layout"):
        assert_eq(getattr(m1, word), getattr(m2, word))
    for method in ("is_floating_point", "is_complex", "is_conj", "is_neg", "_is_view"):
        assert_eq(getattr(m1, method)(), getattr(m2, method)())
    if m1.is_leaf:  # only leaves have gradients
        assert_eq(m1.grad is not None, m2.grad is not None)
        if m1.grad is not None:
            assert_metadata_eq(assert_eq, m1.grad, m2.grad)
    if m1.layout is core.strided:
        assert_eq(m1.stride(), m2.stride())
        assert_eq(m1.storage_offset(), m2.storage_offset())
    if m1._is_view() and m1._base is not None and m2._base is not None:
        assert_metadata_eq(assert_eq, m1._base, m2._base)
