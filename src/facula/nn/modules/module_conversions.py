"""Moving and casting a module: `to` and its short forms.

Takes a module's parameters and buffers, and the target of a ``to`` call.  Gives `ConversionMixin`.
Keeps true: parameters stay the same objects, with new data; gradients go along; only floating point
and complex tensors are cast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import facula
from facula import core
from facula.autograd.grad_mode import no_grad
from facula.core.errors import fail, said
from facula.namespaces.swapping import swap_tensors
from facula.nn.parameter import Parameter, is_lazy

#: what a conversion does to parameters beside giving them new data (`facula.__future__`): "overwrite" makes new ones,
#: "swap" exchanges them with new ones
ON_CONVERSION = {"overwrite": False, "swap": False}


class ConversionMixin:
    """What changes the tensors of a whole tree in place."""

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    children: Callable[[], Iterator[Any]]

    def _apply(self, fn: Callable, recurse: bool = True) -> Any:
        """Replace every parameter's, gradient's and buffer's data by ``fn`` of it."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is None:
                continue
            with no_grad():
                self._apply_to_parameter(fn, name, parameter)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def _apply_to_parameter(self, fn: Callable, name: str, parameter: Parameter) -> None:
        grad = parameter.grad
        new = fn(parameter)
        if ON_CONVERSION["swap"]:
            self._swap_parameter(fn, name, parameter, new)
            return
        keeps_object = type(parameter) is Parameter or is_lazy(parameter)
        if keeps_object and not ON_CONVERSION["overwrite"]:
            parameter.grad = None  # a gradient of the old dtype or device does not fit the new data
            parameter.data = new
        else:
            parameter = Parameter(new, parameter.requires_grad)
            self._parameters[name] = parameter
        if grad is not None:
            parameter.grad = fn(grad).requires_grad_(grad.requires_grad)

    def _swap_parameter(
        self, fn: Callable, name: str, parameter: Parameter, new: core.Tensor
    ) -> None:
        """Make a parameter, and its gradient, what ``fn`` gave; both stay the same objects."""
        grad = parameter.grad
        pairs: list[Any] = [(parameter, Parameter(new, parameter.requires_grad))]
        if grad is not None:
            pairs.append((grad, fn(grad).requires_grad_(grad.requires_grad)))
        parameter.grad = None  # it goes along by itself
        swapped: list[Any] = []
        try:
            for pair in pairs:
                swap_tensors(*pair)
                swapped.append(pair)
        except RuntimeError as error:
            for pair in swapped:
                swap_tensors(*pair)  # back
            parameter.grad = grad
            fail(
                RuntimeError,
                "Module._apply",
                f"parameters that can be exchanged were required: _apply(): Couldn't swap {type(self).__name__}.{name}",
                said(error),
                hint="facula.__future__.set_swap_module_params_on_conversion(False) changes their data",
            )
        parameter.grad = grad

    def to(self, *args: object, **kwargs: object) -> Any:
        """Move and cast in place: ``to(device)``, ``to(dtype)``, ``to(tensor)``,
        ``to(memory_format=...)``.

        Only floating point and complex tensors are cast; the others move.
        """
        device, dtype, non_blocking, memory_format = parse_to(args, kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            fail(
                TypeError,
                "Module.to",
                "a floating point or complex dtype",
                got=dtype,
                hint="cast integer buffers one by one",
            )

        def convert(tensor: core.Tensor) -> Any:
            castable = tensor.is_floating_point() or tensor.is_complex()
            target = dtype if castable else None
            if not is_lazy(tensor) and memory_format is not None and tensor.dim() in (4, 5):
                return tensor.to(device, target, non_blocking, memory_format=memory_format)
            return tensor.to(device, target, non_blocking)

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Any:
        """Move to ``device`` without copying: contents are undefined afterwards."""
        return self._apply(lambda t: facula.empty_like(t, device=device), recurse=recurse)

    def type(self, dst_type: object) -> Any:
        """Cast all parameters and buffers to ``dst_type``."""
        return self._apply(lambda t: t.type(dst_type))

    def _cast_floating(self, dtype: core.dtype) -> Any:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self) -> Any:
        """Cast floating point tensors to float32."""
        return self._cast_floating(core.float32)

    def double(self) -> Any:
        """Cast floating point tensors to float64."""
        return self._cast_floating(core.float64)

    def half(self) -> Any:
        """Cast floating point tensors to float16."""
        return self._cast_floating(core.float16)

    def bfloat16(self) -> Any:
        """Cast floating point tensors to bfloat16."""
        return self._cast_floating(core.bfloat16)

    def cpu(self) -> Any:
        """Move everything to the CPU."""
        return self._apply(lambda t: t.cpu())

    def _move(self, kind: str, device: core.device | str | int | None) -> Any:
        where = (
            kind
            if device is None
            else facula.device(kind, device)
            if isinstance(device, int)
            else device
        )
        return self._apply(lambda t: t.to(where))

    def cuda(self, device: core.device | str | int | None = None) -> Any:
        """Move everything to a CUDA device."""
        return self._move("cuda", device)

    def xpu(self, device: core.device | str | int | None = None) -> Any:
        """Move everything to an XPU device."""
        return self._move("xpu", device)

    def ipu(self, device: core.device | str | int | None = None) -> Any:
        """Move everything to an IPU device."""
        return self._move("ipu", device)

    def mtia(self, device: core.device | str | int | None = None) -> Any:
        """Move everything to an MTIA device."""
        return self._move("mtia", device)

    def share_memory(self) -> Any:
        """Move all tensors to memory that other processes can map."""
        return self._apply(lambda t: t.share_memory_())


def parse_to(args: tuple, kwargs: dict) -> tuple[Any, Any, bool, Any]:
    """(device, dtype, non_blocking, memory_format) from the arguments of a ``to`` call."""
    kwargs = dict(kwargs)
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    non_blocking, memory_format = (
        kwargs.pop("non_blocking", False),
        kwargs.pop("memory_format", None),
    )
    other = kwargs.pop("tensor", None)
    if kwargs.pop("copy", False):
        hint = "copy.deepcopy(module).to(...) makes a copy"
        fail(RuntimeError, "Module.to", "`.to()` does not accept copy argument", hint=hint)
    flags = []
    for value in args:
        if isinstance(value, core.dtype):
            dtype = value
        elif isinstance(value, core.Tensor):
            other = value
        elif isinstance(value, bool):
            flags.append(value)
        elif value is not None:
            device = value
    if other is not None:
        device, dtype = other.device, other.dtype
    if flags:
        non_blocking = flags[0]
    if kwargs:
        fail(
            TypeError,
            "Module.to",
            "known keyword arguments",
            got=", ".join(kwargs),
            hint="to() takes device, dtype, non_blocking, copy and memory_format",
        )
    if device is not None and not isinstance(device, core.device):
        device = facula.device(device)
    return device, dtype, non_blocking, memory_format
