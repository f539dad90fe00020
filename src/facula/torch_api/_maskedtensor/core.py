"""The class of masked tensors, and the gradients that pass between them and ordinary ones.

Takes elements and bools of one shape and layout (strided, COO, CSR). Gives `MaskedTensor`.
Keeps true: `_masked_data` and `_masked_mask` are ordinary tensors without history; the history is the
masked tensor's own. What a masked tensor holds where its mask is false means nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

from facula import core
from facula.autograd import Function
from facula.core.errors import fail
from facula.ops.table.registry import F

Tensor = core.Tensor
_LAYOUTS = (core.strided, core.sparse_coo, core.sparse_csr)


def is_masked_tensor(obj: object, /) -> bool:
    """Whether an object is a masked tensor."""
    return isinstance(obj, MaskedTensor)


def places_of(tensor: core.Tensor) -> tuple[Any, ...]:
    """The index tensors of a sparse tensor; nothing of a strided one."""
    if tensor.layout is core.sparse_coo:
        return (tensor.indices(),)
    if tensor.layout is core.sparse_csr:
        return tensor.crow_indices(), tensor.col_indices()
    return ()


def same_places(a: Any, b: Any) -> bool:
    """Whether two tensors of one layout store elements at the same places."""
    return all(
        p.shape == q.shape and bool((p == q).all())
        for p, q in zip(places_of(a), places_of(b), strict=True)
    )


class MaskedTensor(Tensor):
    """A tensor with a mask of the same shape: elements where it is false do not count.

    Elementwise operators need operands of one mask, reductions leave out what is masked, and what
    moves elements moves their masks along; other operators raise a `TypeError`.
    """

    hears_own_operators = True
    _masked_data: Any
    _masked_mask: Any

    @staticmethod
    def __new__(
        cls: Any, data: Any, mask: core.Tensor, requires_grad: bool = False
    ) -> MaskedTensor:
        _check(data, mask)
        if data.requires_grad:
            warnings.warn(
                "It is not recommended to create a MaskedTensor with a tensor that requires_grad. "
                "To avoid this, you can use data.detach().clone()",
                UserWarning,
                stacklevel=2,
            )
        made: MaskedTensor = _shell(cls, *_settled(data.detach(), mask.detach()))
        return made.requires_grad_(requires_grad) if requires_grad else made

    def __init__(self, data: object, mask: core.Tensor, requires_grad: bool = False) -> None:
        """Everything was done when the object was made."""

    @staticmethod
    def _from_values(data: object, mask: core.Tensor) -> MaskedTensor:
        """One whose gradient reaches `data`."""
        _check(data, mask)
        found: MaskedTensor = _FromValues.apply(data, mask)
        return found

    # ------------------------------------------------------------------ its parts

    def get_data(self) -> Any:
        """The elements, masked ones included; gradients flow back to the masked tensor."""
        if self.requires_grad and core.is_grad_enabled():
            return _Data.apply(self)
        return self._masked_data.detach()

    def get_mask(self) -> Any:
        """The mask: True where elements count."""
        return self._masked_mask

    def to_tensor(self, value: object) -> Any:
        """An ordinary tensor, with a value in the place of masked elements."""
        return self.get_data().masked_fill(~self.get_mask(), value)

    def is_sparse_coo(self) -> bool:
        """Whether the elements are stored with coordinates."""
        return self.layout is core.sparse_coo

    def is_sparse_csr(self) -> bool:
        """Whether the elements are stored row by row."""
        return self.layout is core.sparse_csr

    layout = property(lambda self: self._masked_data.layout)
    is_sparse = property(lambda self: self.layout is not core.strided)

    # ------------------------------------------------------------------ operators

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if not all(issubclass(t, (MaskedTensor, Tensor)) for t in types):
            return NotImplemented
        return RUN["function"](func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(
        cls,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return RUN["dispatch"](func, args, kwargs or {})

    def is_contiguous(self, memory_format: core.memory_format = core.contiguous_format) -> bool:
        """Whether the elements lie in memory in the order of their dimensions."""
        strided_only(self, "is_contiguous")
        return bool(self._masked_data.is_contiguous(memory_format=memory_format))

    def item(self) -> Any:
        """The element as a number; an error where it is masked."""
        if self.numel() == 1 and not self._masked_mask.to_dense().item():
            fail(
                ValueError,
                "item",
                "an element that counts was required",
                "a masked one",
                hint="mt.to_tensor(value) gives masked elements a value",
            )
        return self._masked_data.to_dense().item()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __len__(self) -> int:
        return len(self._masked_data)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.unbind(0))

    def __reduce_ex__(self, protocol: object) -> Any:
        return MaskedTensor, (self._masked_data, self._masked_mask, self.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> MaskedTensor:
        made = MaskedTensor(self._masked_data, self._masked_mask, self.requires_grad)
        memo[id(self)] = made
        return made

    def __repr__(self, *, tensor_contents: object = None) -> str:
        data, mask = self._masked_data.to_dense(), self._masked_mask.to_dense()
        if data.dim() == 0:
            shown = _word(data.item()) if mask.item() else "--"
            return f"MaskedTensor({shown}, {mask.item()})"
        lines = "\n".join("  " + line for line in _text(data, mask).split("\n"))
        return f"MaskedTensor(\n{lines}\n)"


#: how functions and operators run on masked tensors: `rules` fills it
RUN: dict[str, Any] = {}


def wrapped(data: Any, mask: core.Tensor) -> MaskedTensor:
    """A masked tensor on given parts, with the history of the elements."""
    if data.requires_grad and core.is_grad_enabled():
        found: MaskedTensor = _Wrapped.apply(data, mask)
        return found
    return _shell(MaskedTensor, data.detach(), mask)


def _shell(cls: Any, data: Any, mask: core.Tensor) -> MaskedTensor:
    strides = data.stride() if data.layout is core.strided else None
    made: MaskedTensor = Tensor._make_wrapper_subclass(
        cls, tuple(data.shape), strides=strides, dtype=data.dtype, device=data.device
    )
    made._masked_data, made._masked_mask = data, mask
    return made


class _FromValues(Function):
    """Elements become masked; their gradient is a masked tensor."""

    @staticmethod
    def forward(ctx: Any, data: Any, mask: core.Tensor) -> MaskedTensor:
        return _shell(MaskedTensor, *_settled(data.detach(), mask))

    @staticmethod
    def backward(ctx: object, grad: core.Tensor) -> Any:
        return grad, None


class _Wrapped(Function):
    """Elements become masked inside of an operator; masked elements pass on no gradient."""

    @staticmethod
    def forward(ctx: Any, data: Any, mask: core.Tensor) -> MaskedTensor:
        ctx.mask = mask
        return _shell(MaskedTensor, data.detach(), mask)

    @staticmethod
    def backward(ctx: Any, grad: core.Tensor) -> Any:
        found = grad.get_data() if is_masked_tensor(grad) else grad
        if ctx.mask.layout is core.strided:
            return found.masked_fill(~ctx.mask, 0), None
        if found.layout is core.strided:
            found = found.sparse_mask(ctx.mask)
        values = found.values().masked_fill(~ctx.mask.values(), 0)
        return with_values(ctx.mask, values), None


class _Data(Function):
    """The elements of a masked tensor; their gradient has its mask."""

    @staticmethod
    def forward(ctx: Any, masked: MaskedTensor) -> Any:
        ctx.mask = masked._masked_mask
        return masked._masked_data.detach()

    @staticmethod
    def backward(ctx: Any, grad: core.Tensor) -> Any:
        if is_masked_tensor(grad):
            return grad
        if grad.layout is core.sparse_coo:
            grad = grad.coalesce()
        if grad.layout is not ctx.mask.layout or not same_places(grad, ctx.mask):
            dense = grad.to_dense()
            grad = dense if ctx.mask.layout is core.strided else dense.sparse_mask(ctx.mask)
        return wrapped(grad, ctx.mask)


def with_values(like: Any, values: Any) -> Any:
    """A sparse tensor that stores other elements at the same places."""
    shape = tuple(like.shape)
    if like.layout is core.sparse_coo:
        return F.sparse_coo_tensor(like.indices(), values, shape, is_coalesced=True)
    return F.sparse_csr_tensor(like.crow_indices(), like.col_indices(), values, shape)


# ------------------------------------------------------------------ checks


def _check(data: Any, mask: core.Tensor) -> None:
    for word, value in (("data", data), ("mask", mask)):
        if is_masked_tensor(value) or not isinstance(value, Tensor):
            fail(
                TypeError,
                "masked_tensor",
                f"{word} must be a Tensor",
                type(value).__name__,
                hint="the parts of a masked tensor are get_data() and get_mask()",
            )
    if data.layout is not mask.layout:
        fail(
            TypeError,
            "masked_tensor",
            "data and mask must have the same layout",
            f"{data.layout} and {mask.layout}",
            hint="mask.to_sparse(layout=data.layout) converts the mask",
        )
    if data.layout not in _LAYOUTS:
        fail(
            TypeError,
            "masked_tensor",
            f"data layout of {data.layout} is not supported",
            hint="use a strided, COO or CSR tensor",
        )
    if mask.dtype is not core.bool_:
        fail(TypeError, "masked_tensor", "mask must have dtype bool", mask.dtype, "mask.bool()")
    for word, ours, theirs in (("dim", data.dim(), mask.dim()), ("size", data.shape, mask.shape)):
        if ours != theirs:
            fail(
                ValueError,
                "masked_tensor",
                f"data.{word}() must equal mask.{word}()",
                f"{ours} and {theirs}",
                hint="mask.expand_as(data) broadcasts the mask",
            )


def _settled(data: Any, mask: core.Tensor) -> tuple[Any, Any]:
    """Copies of both parts, which store elements at the same places where they are sparse."""
    if data.layout is core.strided:
        return data.clone(), mask.clone()
    coordinates = data.layout is core.sparse_coo
    if coordinates:
        data, mask = data.coalesce(), mask.coalesce()
    if data._nnz() != mask._nnz():
        data = data.to_dense().sparse_mask(mask)
    if not same_places(data, mask):
        what = (
            "data and mask are both sparse COO tensors but do not have the same indices."
            if coordinates
            else "data and mask are both sparse CSR tensors but do not share either crow or col indices."
        )
        fail(ValueError, "masked_tensor", what, hint="data.sparse_mask(mask) has the mask's places")
    return data.clone(), mask.clone()


def strided_only(masked: Any, name: str) -> None:
    if masked.is_sparse:
        fail(
            ValueError,
            name,
            f"MaskedTensors with sparse data do not have {name}",
            str(masked.layout),
            hint="mt.to_dense() makes a strided one",
        )


# ------------------------------------------------------------------ printing


def _word(value: object) -> str:
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _text(data: Any, mask: core.Tensor) -> str:
    """A dimension after the other; masked elements are dashes."""
    if data.dim() > 1:
        parts = [_text(d, m).split("\n") for d, m in zip(data, mask, strict=True)]
        inner = ",\n".join("\n".join("  " + line for line in lines) for lines in parts)
        return f"[\n{inner}\n]"
    counted = mask.tolist()
    words = [_word(value) for value in data.tolist()]
    width = max((len(w) if c else 8 for w, c in zip(words, counted, strict=True)), default=0)
    return (
        "["
        + ", ".join(w if c else "--".rjust(width) for w, c in zip(words, counted, strict=True))
        + "]"
    )
