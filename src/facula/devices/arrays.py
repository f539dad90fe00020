"""A device in host memory whose kernels are functions on NumPy arrays.

Takes a device name and a mapping from operator names to functions. Gives a backend that
`facula.backends.register` takes.
Keeps true: a kernel sees arrays in the place of tensors and otherwise what the operator was called
with; shapes, dtypes and errors about arguments are the operator's, not the kernel's; an operator
without a kernel is an error that names it and the device, never a detour over the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.core.nested import mapped, tensors_in
from facula.devices.results import unset_results
from facula.ops.table.registry import TABLE

__all__ = ["ArrayBackend", "HostMemory"]


class HostMemory:
    """Memory for a device that lives in the host: buffers, copies and fills that respect strides."""

    def __init__(self, name: str) -> None:
        self.name = name

    def allocate(self, nbytes: int, device: core.device | str | int | None) -> bytearray:
        """A zeroed buffer."""
        return bytearray(nbytes)

    def view(self, tensor: Any) -> Any:
        """A host tensor on the bytes of a device tensor: same shape, strides and dtype."""
        if tensor.device.type != self.name:
            return tensor.detach()
        buffer, offset = core.foreign_buffer(tensor)
        host = core.empty((0,), dtype=tensor.dtype)
        if tensor.numel() == 0:
            return core.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
        storage = core.UntypedStorage.from_buffer(buffer)
        return host.set_(storage, offset // tensor.dtype.itemsize, tensor.shape, tensor.stride())

    def copy(self, target: object, source: object) -> None:
        """Copies elements from, to or within the device, with a cast where dtypes differ."""
        self.view(target).copy_(self.view(source))

    def fill(self, tensor: core.Tensor, value: object) -> None:
        """Sets every element."""
        self.view(tensor).fill_(value)


class ArrayBackend(HostMemory):
    """Runs the operators for which it was given functions on NumPy arrays."""

    def __init__(self, name: str, kernels: Mapping[str, Callable[..., Any]]) -> None:
        super().__init__(name)
        unknown = sorted(set(kernels) - set(TABLE))
        if unknown:
            fail(
                TypeError,
                "backends.register",
                "names of operators were required",
                unknown,
                hint="facula.ops.TABLE has the names",
            )
        self.arrays = dict(kernels)
        self.tensors: dict[str, Callable[..., Any]] = {}

    def implement(self, name: str, function: Callable[..., Any]) -> None:
        """Adds a kernel that takes and gives tensors of the device."""
        self.tensors[name] = function

    def run(self, operator: Any, arguments: tuple[Any, ...]) -> Any:
        """Runs one operator; its results are on the device, with the operator's shapes and dtypes."""
        positional, keywords = operator.definition.trim(arguments)
        if operator.name in self.tensors:
            return self.tensors[operator.name](*positional, **keywords)
        kernel = self.arrays.get(operator.name)
        if kernel is None:
            required = f"a kernel for the device '{self.name}' was required (not implemented there)"
            known = ", ".join(sorted({*self.arrays, *self.tensors}))
            hint = f"the device has {known}; compute on the CPU with .cpu()"
            fail(NotImplementedError, operator.name, required, "none", hint)
        self._check(operator, arguments)
        results = unset_results(operator, arguments)
        positional, keywords = operator.definition.trim(
            mapped(arguments, self._array, core.device("meta"))
        )
        self._store(operator, results, kernel(*positional, **keywords))
        return results

    def _array(self, tensor: Any) -> Any:
        return self.view(tensor).numpy()

    def _check(self, operator: Any, arguments: tuple[Any, ...]) -> None:
        for tensor in tensors_in(arguments):
            if tensor.device.type != self.name and tensor.dim():
                required = "Expected all tensors to be on the same device"
                got = f"at least two devices, {self.name} and {tensor.device}"
                fail(RuntimeError, operator.name, required, got, "move one with .to(device)")

    def _store(self, operator: Any, results: Any, values: object) -> None:
        """Puts what a kernel returned into the results, whose shapes it must have."""
        import numpy

        wanted = tensors_in(results)
        given = list(values) if isinstance(values, (tuple, list)) else [values]
        if len(given) != len(wanted):
            required = f"{len(wanted)} arrays from the kernel of '{self.name}' were required"
            fail(
                RuntimeError,
                operator.name,
                required,
                len(given),
                hint="return one array for each result of the operator",
            )
        for tensor, value in zip(wanted, given, strict=True):
            array = numpy.asarray(value)
            if array.shape != tuple(tensor.shape):
                required = (
                    f"shape {list(tensor.shape)} from the kernel of '{self.name}' was required"
                )
                fail(
                    RuntimeError,
                    operator.name,
                    required,
                    list(array.shape),
                    hint="return arrays of the shapes that meta tensors have",
                )
            self.copy(tensor, core.from_numpy(numpy.array(array, copy=True)))
