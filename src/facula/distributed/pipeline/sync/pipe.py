"""`Pipe(nn.Sequential, chunks)`: micro-batches through partitions. [Kim et al. 2020]

Takes: a Sequential, whose neighbours on one device make a partition. Gives: a module that gives a reference
to its output.
Keeps true: the result and the gradients are those of the Sequential on the whole batch (of layers that look at
one entry at a time); micro-batch i is in partition j while micro-batch i+1 is in partition j-1; what is not to
be kept is computed again in the backward pass.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from facula import core, nn
from facula.autograd.checkpoint import checkpoint
from facula.core.errors import fail
from facula.distributed import rpc
from facula.distributed.pipeline.sync import skip
from facula.distributed.rpc.requests import STATE
from facula.ops.table.registry import F

__all__ = ["NoChunk", "Pipe", "WithDevice"]

Tensor = core.Tensor
#: whether this thread computes something again, in a backward pass
_LOCAL = threading.local()


class NoChunk:
    """A tensor that every micro-batch gets whole."""

    def __init__(self, inp: Tensor) -> None:
        if not isinstance(inp, Tensor):
            fail(TypeError, "NoChunk", "a tensor was required (NoChunk only supported for tensors)",
                 type(inp).__name__, "other values are not cut anyway")  # fmt: skip
        self.tensor = inp


class WithDevice(nn.Module):
    """A layer without parameters, with the device that it runs on."""

    def __init__(self, module: nn.Module, device: core.device | str | int | None) -> None:
        super().__init__()
        self.module, self.device = module, core.device(device)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The layer's result."""
        return self.module(*args, **kwargs)


def _device_of(layer: nn.Module) -> Any:
    if isinstance(layer, WithDevice):
        return layer.device
    devices = {p.device for p in layer.parameters()} or {core.device("cpu")}
    if len(devices) > 1:
        fail(ValueError, "Pipe", "the parameters of a layer on one device were required (should have "
             "all parameters on a single device)", sorted(map(str, devices)),
             "cut the layer, or use .to()")  # fmt: skip
    return devices.pop()


def _partitions(module: nn.Sequential) -> list[nn.Sequential]:
    found: list[tuple[Any, list[nn.Module]]] = []
    for layer in module:
        device = _device_of(layer)
        if found and found[-1][0] == device:
            found[-1][1].append(layer)
        else:
            found.append((device, [layer]))
    return [nn.Sequential(*layers) for _, layers in found]


class Pipe(nn.Module):
    """A Sequential in partitions, through which micro-batches go.

    >>> pipe = Pipe(nn.Sequential(a, b), chunks=8)
    >>> output = pipe(x).local_value()
    """

    def __init__(
        self, module: nn.Sequential, chunks: int = 1, checkpoint: str = "except_last",
        deferred_batch_norm: bool = False,
    ) -> None:  # fmt: skip
        """Cut a Sequential.

        Args:
            chunks: how many micro-batches a batch is cut into.
            checkpoint: "always", "except_last" or "never": of which micro-batches intermediate results are
                computed again in the backward pass.
            deferred_batch_norm: whether batch norms update their statistics once a batch.
        """
        super().__init__()
        if not isinstance(module, nn.Sequential):
            fail(TypeError, "Pipe", "an nn.Sequential was required (expected nn.Sequential to be "
                 "partitioned)", type(module).__name__, "nn.Sequential(*layers) makes one")  # fmt: skip
        if not isinstance(chunks, int) or chunks < 1:
            fail(ValueError, "Pipe", "a number of chunks of at least 1 was required (number of chunks "
                 "must be positive integer)", chunks, "chunks=1 sends the whole batch")  # fmt: skip
        if checkpoint not in ("always", "except_last", "never"):
            fail(ValueError, "Pipe", "checkpoint 'always', 'except_last' or 'never' was required",
                 repr(checkpoint), "'except_last' is the default")  # fmt: skip
        if not STATE.agent:
            fail(RuntimeError, "Pipe", "init_rpc() was required before (Please initialize RPC framework "
                 "for Pipe using torch.distributed.rpc.init_rpc)", "no workers",
                 "init_rpc('worker', rank=0, world_size=1)")  # fmt: skip
        skip.verify_skippables(module)
        if deferred_batch_norm:
            _defer(module, chunks)
        self.chunks, self.checkpoint = chunks, checkpoint
        parts = _partitions(module)
        self.partitions = nn.ModuleList(parts)
        self.devices = [_device_of(p[0]) for p in parts]

    def __len__(self) -> int:
        return sum(len(p) for p in self.partitions)

    def __iter__(self) -> Iterator[nn.Module]:
        for partition in self.partitions:
            yield from partition.children()

    def __getitem__(self, index: int) -> nn.Module:
        return list(self)[index]

    def forward(self, *inputs: Any) -> Any:
        """A reference to the result; cut along the first dimension of the tensors."""
        batches = _cut(inputs, self.chunks)
        count = len(batches)
        again = {"always": count, "except_last": count - 1, "never": 0}[self.checkpoint]
        again = again if core.is_grad_enabled() and self.training else 0
        stashes: list[dict[Any, Any]] = [{} for _ in batches]
        outputs = _run_all(self.partitions, self.devices, batches, stashes, again)
        return rpc.RRef(_joined(outputs))


def _run_all(
    partitions: Any,
    devices: list[Any],
    batches: list[Any],
    stashes: list[dict[Any, Any]],
    again: int,
) -> list[Any]:
    """All micro-batches through all partitions, a clock at a time."""
    recording, several = core.is_grad_enabled(), len(partitions) > 1
    failed = threading.Event()

    def one(batch: int, place: int) -> None:
        core.set_grad_enabled(recording)
        if failed.is_set():
            return
        values = tuple(v.to(devices[place]) if isinstance(v, Tensor) else v for v in batches[batch])
        with skip.using(stashes[batch]):
            if batch < again:
                run = _Recomputed(partitions[place], stashes[batch])
                result = checkpoint(run, *values, use_reentrant=False)
            else:
                result = partitions[place](*values)
        batches[batch] = result if isinstance(result, tuple) else (result,)

    with ThreadPoolExecutor(max(min(len(partitions), len(batches)), 1)) as pool:
        for clock in range(len(batches) + len(partitions) - 1):
            work = [
                (clock - place, place)
                for place in range(len(partitions))
                if 0 <= clock - place < len(batches)
            ]
            if not several:
                one(*work[0])
                continue
            pending = [pool.submit(one, *item) for item in work]
            try:
                for future in pending:
                    future.result()
            except BaseException:
                failed.set()
                raise
    return [b if len(b) > 1 else b[0] for b in batches]


class _Recomputed:
    """A partition that may run twice: the second time it finds what was stashed before it."""

    def __init__(self, partition: Any, stash: dict[Any, Any]) -> None:
        self.partition, self.stash = partition, stash
        self.before = dict(stash)
        self.times = 0

    def __call__(self, *values: Any) -> Any:
        self.times += 1
        if self.times == 1:
            return self.partition(*values)
        _LOCAL.again = True
        try:
            with skip.using(dict(self.before)):
                return self.partition(*values)
        finally:
            _LOCAL.again = False


def _cut(inputs: tuple[Any, ...], chunks: int) -> list[tuple[Any, ...]]:
    """The inputs of micro-batches."""
    tensors = [x for x in inputs if isinstance(x, Tensor)]
    if not tensors and not any(isinstance(x, NoChunk) for x in inputs):
        fail(TypeError, "Pipe", "a tensor among the inputs was required (expected at least one tensor)",
             [type(x).__name__ for x in inputs], "other values go to every micro-batch")  # fmt: skip
    parts = [x.chunk(chunks) if isinstance(x, Tensor) else x for x in inputs]
    counts = {len(p) for p in parts if isinstance(p, (tuple, list))} or {1}
    if len(counts) > 1:
        fail(RuntimeError, "Pipe", "tensors of one first dimension were required (Found different number "
             "of chunks produced for inputs)", [tuple(t.shape) for t in tensors],
             "wrap what all micro-batches need whole in NoChunk")  # fmt: skip
    whole = [x.tensor if isinstance(x, NoChunk) else x for x in parts]
    cut = [isinstance(x, Tensor) for x in inputs]
    return [
        tuple(v[i] if c else v for v, c in zip(whole, cut, strict=True))
        for i in range(counts.pop())
    ]


def _joined(outputs: list[Any]) -> Any:
    first = outputs[0]
    if isinstance(first, tuple):
        return tuple(_joined([o[i] for o in outputs]) for i in range(len(first)))
    return F.cat(outputs) if isinstance(first, Tensor) else first


def _defer(module: nn.Module, chunks: int) -> None:
    """Have batch norms take their statistics from the whole batch, once."""
    for layer in module.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.track_running_stats:
            layer.register_forward_hook(_Deferred(layer, chunks))


class _Deferred:
    """Sums what micro-batches say, and updates the running statistics after the last."""

    def __init__(self, layer: nn.Module, chunks: int) -> None:
        self.chunks, self.momentum = chunks, layer.momentum
        layer.momentum = 0.0
        self.sums: list[Any] = []

    def __call__(self, layer: Any, inputs: Any, output: Any) -> None:
        if not layer.training or getattr(_LOCAL, "again", False):
            return
        x = inputs[0].detach()
        dims = [d for d in range(x.dim()) if d != 1]
        self.sums.append((x.sum(dims), (x * x).sum(dims), x.numel() // x.shape[1]))
        if len(self.sums) < self.chunks:
            return
        count = sum(n for _, _, n in self.sums)
        mean = sum(s for s, _, _ in self.sums) / count
        variance = (
            (sum(q for _, q, _ in self.sums) / count - mean * mean) * count / max(count - 1, 1)
        )
        self.sums = []
        rate = (
            self.momentum if self.momentum is not None else 1.0 / float(layer.num_batches_tracked)
        )
        layer.running_mean.mul_(1 - rate).add_(mean * rate)
        layer.running_var.mul_(1 - rate).add_(variance * rate)
