"""Methods and properties of Tensor that are neither operators nor part of the core.

Takes: the operator table. Gives: `attach`, which puts them onto the class.
Keeps true: each is a short composition of operators or a question about the tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.core import printing
from facula.core.errors import fail
from facula.ops.table.registry import F

from . import older_methods
from . import storage as storages
from .storage import CASTS, TypedStorage

Tensor = core.Tensor

_CASTS = {
    **CASTS,
    "cfloat": core.complex64,
    "cdouble": core.complex128,
    "chalf": core.complex32,
}


def _cast(name: str, dtype: core.dtype) -> Callable[..., Any]:
    def method(self: Tensor, memory_format: core.memory_format = core.preserve_format) -> Tensor:
        return self.to(dtype, memory_format=memory_format)

    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    method.__doc__ = f"The tensor as `{dtype.name}`."
    return method


def _transposed(self: Tensor) -> Tensor:
    """The dimensions in reverse order."""
    dim = self.dim()
    return self.permute((1, 0)) if dim == 2 else self.permute(tuple(range(dim))[::-1])


def _matrix_transposed(self: Tensor) -> Tensor:
    """The last two dimensions exchanged."""
    if self.dim() < 2:
        fail(
            RuntimeError,
            "mT",
            "tensor.mT is only supported on matrices or batches of matrices",
            f"{self.dim()}-D tensor",
            hint="x[:, None] is a column, x[None] a row of a vector",
        )
    return self.transpose(-2, -1)


def _hermitian(self: Tensor) -> Tensor:
    """The conjugate transpose of a matrix."""
    if self.dim() not in (0, 2):
        fail(
            RuntimeError,
            "H",
            "tensor.H is only supported on matrices (2-D tensors)",
            f"{self.dim()}-D tensor",
            hint="x.mH takes batches of matrices",
        )
    return self.adjoint() if self.dim() else self.conj()


def _matrix_hermitian(self: Tensor) -> Tensor:
    """The conjugate transpose of the last two dimensions."""
    return self.adjoint()


def new_tensor(
    self: Tensor,
    data: object,
    *,
    dtype: core.dtype | None = None,
    device: core.device | str | int | None = None,
    requires_grad: bool = False,
    layout: core.layout = core.strided,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of `data` with this tensor's dtype and device by default."""
    return core.tensor(
        data,
        dtype=self.dtype if dtype is None else dtype,
        device=self.device if device is None else device,
        requires_grad=requires_grad,
    )


def cuda(
    self: Tensor,
    device: core.device | str | int | None = None,
    non_blocking: bool = False,
    memory_format: core.memory_format = core.preserve_format,
) -> Tensor:
    """The tensor on a CUDA device; raises where there is none."""
    return self.to("cuda" if device is None else device)


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both tensors are the same view of the same memory."""
    return (
        core.address_of(self) == core.address_of(tensor)
        and self.shape == tensor.shape
        and self.stride() == tensor.stride()
        and self.storage_offset() == tensor.storage_offset()
    )


def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:  # noqa: A002
    """Replace every element by `callable(element)`: slow, for the CPU."""
    if self.requires_grad and core.is_grad_enabled():
        fail(
            TypeError,
            "apply_",
            "apply_() can't be called on tensors that require grad",
            hint="call it on x.detach()",
        )
    flat = [callable(value) for value in self.reshape(-1).tolist()]
    return self.copy_(core.tensor(flat, dtype=self.dtype).reshape(self.shape) if flat else self)


def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:  # noqa: A002
    """Replace every element by `callable(element, other)`: slow, for the CPU."""
    other = tensor.expand(self.shape).reshape(-1).tolist()
    flat = [callable(a, b) for a, b in zip(self.reshape(-1).tolist(), other, strict=True)]
    return self.copy_(core.tensor(flat, dtype=self.dtype).reshape(self.shape) if flat else self)


def storage(self: Tensor) -> Any:
    """The memory of the tensor, all of it, as a row of its numbers."""
    return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)


def _typed_storage(self: Tensor) -> Any:
    """As `storage`."""
    return storage(self)


def storage_type(self: Tensor) -> type:
    """The kind of storage that `storage` gives."""
    return getattr(storages, f"{self.dtype.type_word}Storage", TypedStorage)


def _lazy_clone(self: Tensor) -> Tensor:
    """A copy that is made when one of both is written to; at once where a gradient is recorded."""
    recorded = self.requires_grad and core.is_grad_enabled()
    return self.clone() if recorded else core.lazy_clone(self)


def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions from the outermost to the innermost in memory.

    `ambiguity_check`: raise where several orders describe the memory as well; or a list of the memory formats
    of which one is
    expected.
    """
    if not isinstance(ambiguity_check, (bool, list, tuple)):
        fail(
            TypeError,
            "dim_order",
            "a bool or a list of memory formats was required as ambiguity_check",
            ambiguity_check,
            hint="True refuses every ambiguity",
        )
    if self.layout is not core.strided:
        fail(
            AttributeError,
            "dim_order",
            "a strided tensor was required (Can't get dim order on sparse tensor)",
            self.layout,
            hint="to_dense() has strides",
        )
    strides, sizes = self.stride(), self.shape
    formats = ambiguity_check if isinstance(ambiguity_check, (list, tuple)) else ()
    for layout in formats:
        if self.is_contiguous(memory_format=layout):
            return _ORDERS.get(layout, lambda n: tuple(range(n)))(self.dim())
    ambiguous = len(set(strides)) < len(strides) or any(size == 1 for size in sizes)
    if ambiguity_check and (formats or ambiguous):
        fail(
            RuntimeError,
            "dim_order",
            "one order of dimensions was required (The tensor does not have unique dim order, or "
            "cannot map to exact one of the given memory formats)",
            f"sizes {list(sizes)}, strides {list(strides)}",
            hint="name the memory formats that you expect in ambiguity_check=",
        )
    return tuple(sorted(range(self.dim()), key=lambda d: (-strides[d], d)))


#: the orders of memory formats that are not that of the dimensions
_ORDERS = dict.fromkeys((core.channels_last, core.channels_last_3d), lambda n: (0, *range(2, n), 1))


def is_distributed(self: Tensor) -> bool:
    """Always False."""
    return False


def is_coalesced(self: Tensor) -> bool:
    """For sparse tensors only."""
    fail(
        RuntimeError,
        "is_coalesced",
        "a sparse tensor was required",
        self.layout,
        hint="to_sparse() makes one",
    )


def rename(self: Tensor, *names: Any, **mapping: Any) -> Tensor:
    """facula has no dimension names: only `rename(None)` is answered."""
    if mapping or names != (None,):
        fail(
            NotImplementedError,
            "rename",
            "unnamed dimensions were required",
            names or mapping,
            hint="dimensions are numbered here: use permute() and dim numbers",
        )
    return self


def _view_property(function: Callable[[Tensor], Tensor]) -> property:
    return property(function, doc=function.__doc__)


def _set_real(self: Tensor, value: object) -> None:
    F.real(self).copy_(value if isinstance(value, Tensor) else core.tensor(value))


def _set_imag(self: Tensor, value: object) -> None:
    F.imag(self).copy_(value if isinstance(value, Tensor) else core.tensor(value))


def _reversed_division(self: Tensor, other: object) -> Tensor:
    """``other / self``, under the name of Python 2."""
    return self.reciprocal() * other


def dequantize(self: Tensor) -> Tensor:
    """The numbers as float32: those that are no integers of a quantized tensor are there already."""
    return self.to(core.float32)


def _of_quantized_only(name: str) -> Callable[..., Any]:
    def method(self: Tensor) -> Any:
        text = (
            f"Could not run 'aten::{name}' with arguments from the 'CPU' backend: a quantized one"
        )
        fail(
            NotImplementedError,
            name,
            text,
            self.dtype,
            hint="quantize_per_tensor() makes such tensors",
        )

    method.__name__ = name
    method.__doc__ = "For quantized tensors only."
    return method


_OF_QUANTIZED = (
    "int_repr q_scale q_zero_point qscheme q_per_channel_scales q_per_channel_zero_points "
    "q_per_channel_axis"
).split()


def _filled(made_by: Any) -> Any:
    """A ``__new__`` for a class of the core that gives objects which may be used without ``__init__``.

    Subclasses whose ``__init__`` does not call this one's come by here, and those whose own
    ``__new__`` passes sizes, data or a tensor on. The class itself is made without Python, and filled
    by ``__init__``.
    """
    bare = made_by.__new__

    def new(cls: type, *args: object, **kwargs: object) -> Any:
        made = bare(cls)
        made_by.__init__(made, *args, **kwargs)
        return made

    return staticmethod(new)


_METHODS = (
    new_tensor,
    cuda,
    is_set_to,
    apply_,
    map_,
    storage,
    _typed_storage,
    storage_type,
    _lazy_clone,
    dim_order,
    is_distributed,
    is_coalesced,
    rename,
    dequantize,
)


def attach() -> None:
    """Put everything onto Tensor, and the printer into its slot."""
    put = core.set_type_attribute
    for name, dtype in _CASTS.items():
        put(Tensor, name, _cast(name, dtype))
    put(Tensor, "T", _view_property(_transposed))
    put(Tensor, "mT", _view_property(_matrix_transposed))
    put(Tensor, "H", _view_property(_hermitian))
    put(Tensor, "mH", _view_property(_matrix_hermitian))
    put(
        Tensor, "real", property(lambda self: F.real(self), _set_real, doc="The real part, a view.")
    )
    put(
        Tensor,
        "imag",
        property(lambda self: F.imag(self), _set_imag, doc="The imaginary part, a view."),
    )
    put(Tensor, "_cdata", property(id, doc="A number that tells tensors apart while they live."))
    for method in _METHODS:
        put(Tensor, method.__name__, method)
    for name in _OF_QUANTIZED:
        put(Tensor, name, _of_quantized_only(name))
    for method in older_methods.METHODS:
        put(Tensor, method.__name__, method)
    for name, value in older_methods.VALUES.items():
        put(Tensor, name, value)
    put(Tensor, "__new__", _filled(Tensor))
    put(core.UntypedStorage, "__new__", _filled(core.UntypedStorage))
    put(Tensor, "is_shared_", Tensor.is_shared)
    put(core.UntypedStorage, "untyped", lambda self: self)
    put(core.UntypedStorage, "byteswap", storages._byteswap)
    put(core.UntypedStorage, "_write_file", storages._write_file)
    put(core.UntypedStorage, "__copy__", core.UntypedStorage.clone)
    for name in ("_share_fd_cpu_", "_share_filename_cpu_"):
        put(core.UntypedStorage, name, core.UntypedStorage.share_memory_)
    put(Tensor, "__rdiv__", _reversed_division)
    core.PRINTER[0] = printing.tensor_repr
