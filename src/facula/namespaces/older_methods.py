"""Methods of Tensor that PyTorch keeps for older programs and for other libraries' protocols.

Takes: a tensor. Gives: `METHODS` and `VALUES`, what `tensor_methods.attach` puts onto the class.
Keeps true: each is another way to say what a current method says; what has no meaning here says so.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F

from .legacy import of_sizes_or_data
from .storage import TypedStorage

Tensor = core.Tensor


def is_nonzero(self: Tensor) -> bool:
    """Whether the only element is not zero."""
    return bool(self)


def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Whether both shapes are equal; of nested tensors, those of all their parts."""
    if self.is_nested != other.is_nested:
        kinds = ["nested" if t.is_nested else "not nested" for t in (self, other)]
        fail(
            RuntimeError,
            "is_same_size",
            "Expected both self and other to be nested tensors",
            f"Self is {kinds[0]}. While Other is {kinds[1]}.",
            hint="a tensor and a nested tensor have no size in common",
        )
    if self.is_nested:
        parts = [[p.shape for p in t.unbind()] for t in (self, other)]
        return parts[0] == parts[1]
    return self.shape == other.shape


def __nonzero__(self: Tensor) -> bool:  # noqa: N807 - Python 2's protocol
    """Whether the only element is not zero."""
    return bool(self)


def __long__(self: Tensor) -> int:  # noqa: N807 - Python 2's protocol
    """The only element as an int."""
    return int(self)


def __div__(self: Tensor, other: object) -> Tensor:  # noqa: N807 - Python 2's protocol
    """`self / other`."""
    return self / other


def __idiv__(self: Tensor, other: Any) -> Tensor:  # noqa: N807 - Python 2's protocol
    """`self /= other`."""
    return self.div_(other)


def __reversed__(self: Tensor) -> Tensor:  # noqa: N807 - a protocol of Python
    """The elements in reverse along the first dimension."""
    return F.flip(self, (0,)) if self.dim() else self


def __array_wrap__(  # noqa: N807 - NumPy's protocol
    self: Tensor, array: Any, context: object = None, return_scalar: bool = False
) -> Tensor:
    """A tensor of what a NumPy function made out of this one; truths are bytes, as in PyTorch."""
    if array.dtype.kind == "b":
        array = array.astype("uint8")
    return core.from_numpy(array.copy() if not array.flags.writeable else array)


def resize(self: Tensor, *sizes: Any) -> Tensor:
    """The elements in another shape of as many (deprecated: use `reshape`)."""
    warnings.warn("non-inplace resize is deprecated", stacklevel=2)
    return _resized(self, "resize", sizes[0] if len(sizes) == 1 else sizes)


def _resized(self: Tensor, op: str, sizes: Any) -> Tensor:
    shape = [sizes] if isinstance(sizes, int) else list(sizes)
    if math.prod(shape) != self.numel() or min(shape, default=0) < 0:
        wanted, size = ("x".join(map(str, each)) for each in (shape, self.shape))
        fail(
            RuntimeError,
            op,
            f"a shape of {self.numel()} elements was required (requested resize to {wanted} "
            f"({math.prod(shape)} elements in total), but the given tensor has a size of {size})",
            shape,
            hint="resize_() changes the number of elements",
        )
    return self.reshape(shape)


def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """The elements in the shape of another tensor (deprecated: use `reshape`)."""
    warnings.warn("non-inplace resize_as is deprecated", stacklevel=2)
    return _resized(self, "resize_as", tensor.shape)


def new(
    self: Tensor, *args: object, size: Any = None, device: core.device | str | int | None = None
) -> Tensor:
    """A tensor of this dtype: of sizes, or of data (deprecated: use `new_empty`, `new_tensor`)."""
    device = self.device if device is None else device
    if len(args) == 1 and isinstance(args[0], (core.UntypedStorage, TypedStorage)):
        return core.empty((0,), dtype=self.dtype, device=device).set_(args[0])
    if len(args) == 1 and isinstance(args[0], Tensor):
        if args[0].dtype is not self.dtype:
            fail(
                TypeError,
                "new",
                f"a tensor of {self.dtype} was required (expected {self.dtype.type_word}, but got "
                f"{args[0].dtype.type_word})",
                args[0].dtype,
                hint="convert it with .to(dtype)",
            )
        return args[0].detach().to(device=device)
    if size is not None:
        return core.empty(size, dtype=self.dtype, device=device)
    return of_sizes_or_data(args, self.dtype, device)


def reinforce(self: Tensor, reward: Any) -> None:
    """Gone from PyTorch: always raises."""
    fail(
        RuntimeError,
        "reinforce",
        "score-function gradients by hand were required (reinforce() was removed)",
        hint="use log_prob() of facula.distributions: loss = -log_prob * reward",
    )


def record_stream(self: Tensor, stream: object) -> None:
    """Nothing to record: memory here is never handed to another stream."""


def dense_dim(self: Tensor) -> int:
    """The number of dense dimensions: all of them."""
    return self.dim()


def sparse_dim(self: Tensor) -> int:
    """The number of sparse dimensions: none."""
    return 0


def const_data_ptr(self: Tensor) -> int:
    """The address of the first element, to read from."""
    return self.data_ptr()


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[..., Any]) -> Tensor:  # noqa: A002
    """Replace every element by `callable(element, x, y)`: slow, for the CPU."""
    if core.is_grad_enabled() and any(t.requires_grad for t in (self, x, y)):
        fail(
            RuntimeError,
            "map2_",
            "tensors without gradients were required (map2_ can't be called on a tensor that requires grad)",
            hint="call it on x.detach()",
        )
    columns = [t.expand(self.shape).reshape(-1).tolist() for t in (self, x, y)]
    flat = [callable(*row) for row in zip(*columns, strict=True)]
    return self.copy_(core.tensor(flat, dtype=self.dtype).reshape(self.shape)) if flat else self


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What `load_state_dict` puts in the place of this parameter when parameters are swapped."""
    return other.detach() if assign else self.detach().copy_(other.detach())


def _placed(device_type: str) -> Callable[..., Tensor]:
    def method(
        self: Tensor,
        device: core.device | str | int | None = None,
        non_blocking: bool = False,
        memory_format: core.memory_format = core.preserve_format,
    ) -> Tensor:
        return self.to(device_type if device is None else device)

    method.__name__ = device_type
    method.__doc__ = f"The tensor on a device of type {device_type}; raises where there is none."
    return method


def _name(self: Tensor) -> None:
    """None: tensors have no names."""


def _volatile(self: Tensor) -> bool:
    """Always False: use `no_grad`."""
    warnings.warn("volatile was removed (Variable.volatile is always False)", stacklevel=2)
    return False


def _removed(name: str, instead: str) -> Callable[..., Any]:
    """A function that PyTorch has removed: a call says what took its place."""

    def call(*args: Any, **kwargs: Any) -> Any:
        fail(
            RuntimeError,
            name,
            "a function that is there was required (This function was deprecated since version 1.9 and is "
            "now removed)",
            name,
            hint=instead,
        )

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"""Removed: {instead}.

    Raises:
        RuntimeError: always, and says what took its place.

    Example:
        >>> try:
        ...     facula.{name}()
        ... except RuntimeError:
        ...     print("it was removed")
        it was removed
    """
    return call


solve = _removed("solve", "solve(B, A).solution is linalg.solve(A, B); lu() gives the factors")
eig = _removed(
    "eig", "linalg.eig(A) gives complex values and vectors, linalg.eigvals(A) the values"
)
lstsq = _removed("lstsq", "lstsq(B, A).solution is linalg.lstsq(A, B).solution; qr is linalg.qr(A)")
symeig = _removed(
    "symeig",
    "symeig(A, upper=u) is linalg.eigvalsh(A, UPLO='U' if u else 'L'), with eigenvectors linalg.eigh",
)

METHODS: tuple[Callable[..., Any], ...] = (
    is_nonzero,
    is_same_size,
    __nonzero__,
    __long__,
    __div__,
    __idiv__,
    __reversed__,
    __array_wrap__,
    resize,
    resize_as,
    new,
    reinforce,
    record_stream,
    dense_dim,
    sparse_dim,
    const_data_ptr,
    map2_,
    module_load,
    solve,
    eig,
    lstsq,
    symeig,
    *(_placed(name) for name in ("ipu", "xpu", "mtia")),
)
VALUES: dict[str, Any] = {
    "name": property(_name),
    "volatile": property(_volatile),
    "__array_priority__": 1000,
}
