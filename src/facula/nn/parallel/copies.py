"""One module on several devices: its copies, the parts of the input, and the results put together.

Takes a module and the devices of an accelerator. Gives `DataParallel` and its parts.
Keeps true: gradients of all copies reach the parameters of the module; without accelerators, the
module is called as it is.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import facula
from facula.core.errors import fail
from facula.nn.modules.module import Module


def _devices(given: Sequence[Any] | None) -> list[Any]:
    """The devices to use: those named, or all of the accelerator."""
    if given is not None:
        return [_device(d) for d in given]
    kind = facula.accelerator.current_accelerator() if facula.accelerator.is_available() else None
    if kind is None:
        return []
    return [facula.device(kind.type, i) for i in range(facula.accelerator.device_count())]


def _device(where: object) -> Any:
    if isinstance(where, int):
        kind = (
            facula.accelerator.current_accelerator() if facula.accelerator.is_available() else None
        )
        if kind is None:
            fail(
                RuntimeError,
                "nn.parallel",
                "an accelerator was required for a device number",
                where,
                "leave device_ids out: the module then runs on the CPU",
            )
        return facula.device(kind.type, where)
    return facula.device(where)


def scatter(inputs: object, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Parts of all tensors in a nesting along a dimension, one for each device; other values are
    repeated.

    Args:
        inputs: a nesting of tuples, lists and dictionaries
        target_gpus: devices
        dim: the dimension

    Example:
        >>> facula.nn.parallel.scatter(facula.arange(4), ["cpu", "cpu"])
        [tensor([0, 1]), tensor([2, 3])]
    """
    devices = [_device(d) for d in target_gpus]

    def part(value: object) -> list[Any]:
        if isinstance(value, facula.Tensor):
            pieces = value.chunk(len(devices), dim)
            return [p.to(d) for p, d in zip(pieces, devices, strict=False)]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return [type(value)(*v) for v in zip(*map(part, value), strict=False)]
        if isinstance(value, (tuple, list)) and value:
            return [type(value)(v) for v in zip(*map(part, value), strict=False)]
        if isinstance(value, dict) and value:
            return [type(value)(v) for v in zip(*map(part, value.items()), strict=False)]
        return [value] * len(devices)

    return part(inputs)


def gather(outputs: Any, target_device: object, dim: int = 0) -> Any:
    """The tensors of several nestings of one form put together along a dimension on one device.

    Args:
        outputs: a sequence of nestings
        target_device: where
        dim: the dimension

    Example:
        >>> facula.nn.parallel.gather([facula.zeros(1), facula.ones(1)], "cpu")
        tensor([0., 1.])
    """
    device = _device(target_device)

    def joined(values: Any) -> Any:
        first = values[0]
        if isinstance(first, facula.Tensor):
            moved = [v.to(device) for v in values]
            return facula.stack(moved) if first.dim() == 0 else facula.cat(moved, dim)
        if first is None:
            return None
        if isinstance(first, dict):
            if not all(len(first) == len(v) for v in values):
                fail(
                    ValueError,
                    "gather",
                    "All dicts must have the same number of keys",
                    hint="return the same keys from every replica",
                )
            return type(first)((k, joined([v[k] for v in values])) for k in first)
        if hasattr(first, "_fields"):
            return type(first)(*(joined(list(v)) for v in zip(*values, strict=True)))
        return type(first)(joined(list(v)) for v in zip(*values, strict=True))

    return joined(list(outputs))


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Any]:
    """A copy of a module on each device, whose parameters are differentiable functions of its own.

    Args:
        network: the module
        devices: where
        detach: whether gradients stop at the copies

    Example:
        >>> len(facula.nn.parallel.replicate(facula.nn.Linear(2, 2), ["cpu", "cpu"]))
        2
    """
    copies = []
    for device in map(_device, devices):
        made: dict[int, Module] = {}
        for module in network.modules():
            made[id(module)] = module._replicate_for_data_parallel()
        for module in network.modules():
            copy = made[id(module)]
            for name, child in module._modules.items():
                if child is not None:
                    copy._modules[name] = made[id(child)]
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    moved = parameter.to(device)
                    copy._parameters.pop(name, None)
                    object.__setattr__(copy, name, moved.detach() if detach else moved)
            for name, buffer in module._buffers.items():
                copy._buffers[name] = None if buffer is None else buffer.to(device)
        copies.append(made[id(network)])
    return copies


def parallel_apply(
    modules: Sequence[Any],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """Each module on its own arguments, in threads; the first error of any is raised.

    Args:
        modules: as many as there are arguments
        inputs: arguments of each, a tuple or one value
        kwargs_tup: keyword arguments of each; None for none
        devices: of each; None for those of the inputs

    Example:
        >>> layer = facula.nn.ReLU()
        >>> facula.nn.parallel.parallel_apply([layer, layer], [facula.ones(1), -facula.ones(1)])
        [tensor([1.]), tensor([0.])]
    """
    if len(modules) != len(inputs):
        fail(
            AssertionError,
            "parallel_apply",
            "as many inputs as modules were required",
            f"{len(inputs)} and {len(modules)}",
            hint="scatter() makes one input for each module",
        )
    keywords = [{} for _ in modules] if kwargs_tup is None else list(kwargs_tup)
    results: list[Any] = [None] * len(modules)
    recording, mode = facula.is_grad_enabled(), facula.is_inference_mode_enabled()

    def work(i: int) -> None:
        given = inputs[i] if isinstance(inputs[i], (list, tuple)) else (inputs[i],)
        try:
            with facula.inference_mode(mode), facula.set_grad_enabled(recording and not mode):
                results[i] = (True, modules[i](*given, **keywords[i]))
        except Exception as error:  # raised again below, in the caller's thread
            results[i] = (False, error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, len(modules))]
    for thread in threads:
        thread.start()
    work(0)
    for thread in threads:
        thread.join()
    for done, value in results:
        if not done:
            raise value
    return [value for _, value in results]


def data_parallel(
    module: Module,
    inputs: object,
    device_ids: Sequence[Any] | None = None,
    output_device: object = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """A module on parts of its input, each on a device; the results are put together on the first.

    Args:
        module: what is run
        inputs: its arguments, a tuple or one value
        device_ids: devices; None for all accelerators
        output_device: where results are joined; None for the first
        dim: the dimension that is split
        module_kwargs: keyword arguments

    Example:
        >>> facula.nn.parallel.data_parallel(facula.nn.Linear(3, 2), facula.ones(4, 3), ["cpu"]).shape
        facula.Size([4, 2])
    """
    given = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    keywords = {} if module_kwargs is None else module_kwargs
    devices = _devices(device_ids)
    if not devices:
        return module(*given, **keywords)
    parts = list(scatter(given, devices, dim)) or [()]
    named = list(scatter(keywords, devices, dim)) or [{}]
    used = devices[: len(parts)]
    if len(used) == 1:
        return module(*parts[0], **named[0])
    results = parallel_apply(replicate(module, used), parts, named[: len(used)], used)
    return gather(results, devices[0] if output_device is None else output_device, dim)


class DataParallel(Module):
    """A module that splits its input over the devices of this process, runs a copy on each, and joins
    the results.

    On one device, or the CPU alone, the module is simply called. For training on several machines
    or processes see `facula.nn.parallel.DistributedDataParallel`.

    Args:
        module: what is run
        device_ids: devices; None for all accelerators
        output_device: where results are joined; None for the first
        dim: the dimension that is split

    Example:
        >>> model = facula.nn.DataParallel(facula.nn.Linear(3, 2), device_ids=["cpu"])
        >>> model(facula.ones(4, 3)).shape
        facula.Size([4, 2])
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: object = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module = module
        self.dim = dim
        self.device_ids = _devices(device_ids)
        self.output_device = output_device
        if self.device_ids:
            self.module.to(self.device_ids[0])

    def forward(self, *inputs: object, **kwargs: object) -> Any:
        """The module's result, in the order of the input."""
        return data_parallel(
            self.module,
            inputs,
            self.device_ids or None,
            self.output_device,
            self.dim,
            kwargs,
        )
