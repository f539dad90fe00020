"""The backward graph: nodes, edges, hooks on saved tensors and on several gradients.

Takes tensors with history.  Gives access to their nodes, and context managers that decide how saved
tensors are kept.
Keeps true: hooks apply per thread and to what is saved inside the context; what they pack is
unpacked when read.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from facula import core
from facula.core.errors import fail

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_warn_on_accumulate_grad_stream_mismatch",
]

Node = core.Node


class GradientEdge(NamedTuple):
    """One result of a node of the backward graph: where a gradient can be asked for or put in.

    Args:
        node: as ``tensor.grad_fn`` gives it
        output_nr: which of its results
        ownership_token: what keeps a compiled graph alive

    Example:
        >>> x = facula.ones(2, requires_grad=True)
        >>> facula.autograd.graph.get_gradient_edge(x * 2).output_nr
        0
    """

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: core.Tensor) -> GradientEdge:
    """The edge through which gradients reach a tensor; the tensor itself may be let go.

    Args:
        tensor: one that requires gradients

    Raises:
        RuntimeError: it requires none.

    Example:
        >>> x = facula.ones(2, requires_grad=True)
        >>> edge = facula.autograd.graph.get_gradient_edge(x * 2)
        >>> facula.autograd.grad(edge, x, facula.ones(2))
        (tensor([2., 2.]),)
    """
    if not tensor.requires_grad:
        fail(
            RuntimeError,
            "get_gradient_edge",
            "a tensor that requires grad",
            got="It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients",
            hint="call requires_grad_() on it, or on what it is computed from",
        )
    node = accumulation_node(tensor)
    return GradientEdge(node, tensor.output_nr if tensor.grad_fn is not None else 0, tensor)


def accumulation_node(tensor: core.Tensor) -> Any:
    """The node of a tensor; for a leaf the one that accumulates into it."""
    if tensor.grad_fn is not None:
        return tensor.grad_fn
    recording = core.set_grad_enabled(True)
    try:
        return tensor.view_as(tensor).grad_fn.next_functions[0][0]
    finally:
        core.set_grad_enabled(recording)


def leaves_reached(results: Iterable[core.Tensor]) -> dict[int, core.Tensor]:
    """The leaves whose gradients a backward pass from these results computes, by their `id`."""
    found: dict[int, core.Tensor] = {}
    seen: set[Any] = set()
    todo = [t.grad_fn for t in results if t.grad_fn is not None]
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            found[id(leaf)] = leaf
        todo.extend(inner for inner, _ in node.next_functions if inner is not None)
    return found


def increment_version(tensor: Any) -> None:
    """Counts a write that was made without the framework's knowledge.

    Args:
        tensor: what was written, or several

    Example:
        >>> x = facula.ones(2)
        >>> facula.autograd.graph.increment_version(x)
        >>> x._version
        1
    """
    for t in (tensor,) if isinstance(tensor, core.Tensor) else tensor:
        core.increment_version(t)


class saved_tensors_hooks:
    """A block in which tensors that are kept for the backward pass go through two functions.

    Args:
        pack_hook: of a tensor, to anything, when it is kept
        unpack_hook: of that, to a tensor, when it is read

    Example:
        >>> x = facula.tensor(3.0, requires_grad=True)
        >>> with facula.autograd.graph.saved_tensors_hooks(lambda t: t.item(), facula.tensor):
        ...     y = x * x
        >>> y.backward()
        >>> x.grad
        tensor(6.)
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        message = core.DISABLED_HOOKS[0]
        if message is not None:
            fail(
                RuntimeError,
                "saved_tensors_hooks",
                message,
                hint="leave the context that disables them first",
            )
        core.push_saved_tensor_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *args: object) -> None:
        core.pop_saved_tensor_hooks()


class save_on_cpu(saved_tensors_hooks):
    """A block in which tensors that are kept for the backward pass wait in the CPU's memory.

    Args:
        pin_memory: kept as in PyTorch
        device_type: of the device that would pin it

    Example:
        >>> x = facula.ones(2, requires_grad=True)
        >>> with facula.autograd.graph.save_on_cpu():
        ...     y = (x * x).sum()
        >>> y.backward()
        >>> x.grad
        tensor([2., 2.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: core.Tensor) -> tuple:
            if not pin_memory:
                return tensor.device, tensor.cpu()
            packed = core.empty(tensor.size(), dtype=tensor.dtype).pin_memory()
            packed.copy_(tensor)
            return tensor.device, packed

        def unpack(packed: tuple) -> Any:
            device, tensor = packed
            return tensor.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """A block in which the use of `saved_tensors_hooks` is an error.

    Args:
        error_message: what it says

    Example:
        >>> with facula.autograd.graph.disable_saved_tensors_hooks("not here"):
        ...     try:
        ...         with facula.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        ...             pass
        ...     except RuntimeError as error:
        ...         print("not here" in str(error))
        True
    """
    previous = core.set_saved_tensor_hooks_disabled(error_message)
    try:
        yield
    finally:
        core.set_saved_tensor_hooks_disabled(previous)


class _MultiHandle:
    """Removes several hooks."""

    def __init__(self, handles: tuple) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Remove all of them."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _MultiHandle:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()

    def __getstate__(self) -> tuple:
        return self.handles

    def __setstate__(self, state: tuple) -> None:
        self.handles = state


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable, *, mode: str = "all"
) -> _MultiHandle:
    """Runs a function once the gradients of several tensors are known in a backward pass.

    Args:
        tensors: a sequence
        fn: with 'all' of the list of gradients (None for tensors that are not reached), with 'any'
            of the first one
        mode: 'all' or 'any'

    Returns:
        a handle with ``remove()``.

    Example:
        >>> x = facula.ones(1, requires_grad=True)
        >>> a, b = x * 2, x * 3
        >>> _ = facula.autograd.graph.register_multi_grad_hook((a, b), print)
        >>> (a * b).backward()
        [tensor([3.]), tensor([2.])]
    """
    if mode not in ("all", "any"):
        fail(
            ValueError,
            "register_multi_grad_hook",
            f"Expects mode to be one of ('all', 'any') but got {mode}",
            hint="'all' waits for every gradient, 'any' calls with the first",
        )
    lock = threading.Lock()
    if mode == "any":
        return _MultiHandle(_hook_any(tensors, fn, lock))
    return _MultiHandle(_hook_all(tensors, fn, lock))


def _hook_any(tensors: Sequence[Any], fn: Callable, lock: Any) -> tuple:
    done: dict[int, bool] = {}

    @functools.wraps(fn)
    def hook(grad: core.Tensor) -> None:
        task = core.current_graph_task_id()
        with lock:
            if task in done:
                return
            done[task] = True
        core.queue_callback(lambda: done.pop(task, None))
        fn(grad)

    return tuple(t.register_hook(hook) for t in tensors if t.requires_grad)


def _hook_all(tensors: Sequence[Any], fn: Callable, lock: Any) -> tuple:
    """Gradients are gathered per run; at its end at the latest, where it does not reach all of the
    tensors.
    """
    gathered: dict[int, list] = {}
    wanted = sum(1 for t in tensors if t.requires_grad)
    missing: dict[int, int] = {}

    def finish(task: int) -> None:
        grads = gathered.pop(task, None)
        missing.pop(task, None)
        if grads is not None:
            fn(grads)

    def make(index: int) -> Callable:
        def hook(grad: core.Tensor) -> None:
            task = core.current_graph_task_id()
            with lock:
                if task not in gathered:
                    gathered[task] = [None] * len(tensors)
                    missing[task] = wanted
                    core.queue_callback(lambda: finish(task))
                gathered[task][index] = grad
                missing[task] -= 1
                complete = missing[task] == 0
            if complete:
                finish(task)

        return hook

    return tuple(t.register_hook(make(i)) for i, t in enumerate(tensors) if t.requires_grad)


_allow_mutation = False


class _MutationGuard:
    """Copies saved tensors before an in-place operation changes them."""

    def __init__(self) -> None:
        self.saved: list[tuple[Any, _Packed]] = []

    def clear(self) -> None:
        """Forget everything."""
        self.saved.clear()


class _Packed:
    """What the hooks keep: a tensor and the version it had, or a copy."""

    def __init__(self, tensor: core.Tensor) -> None:
        self.tensor = tensor
        self.version = tensor._version
        self.copy: Any = None


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_MutationGuard]:
    """A block in which tensors that are kept for the backward pass may be changed in place.

    A copy is made of each when it is kept.

    Example:
        >>> x = facula.ones(2, requires_grad=True)
        >>> with facula.autograd.graph.allow_mutation_on_saved_tensors():
        ...     y = x.clone()
        ...     z = (y * y).sum()
        ...     _ = y.detach().zero_()
        ...     z.backward()
        >>> x.grad
        tensor([2., 2.])
    """
    guard = _MutationGuard()

    def pack(tensor: core.Tensor) -> _Packed:
        packed = _Packed(tensor)
        packed.copy = tensor.detach().clone()
        guard.saved.append((tensor, packed))
        return packed

    def unpack(packed: _Packed) -> Any:
        if packed.tensor._version == packed.version:
            return packed.tensor
        return packed.copy

    global _allow_mutation
    if _allow_mutation:
        fail(
            RuntimeError,
            "allow_mutation_on_saved_tensors",
            "one such context at a time",
            got="allow_mutation_on_saved_tensors contexts cannot be nested",
            hint="leave the inner one out",
        )
    with saved_tensors_hooks(pack, unpack):
        _allow_mutation = True
        try:
            yield guard
        finally:
            _allow_mutation = False
            guard.clear()


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Accepted for PyTorch's sake: there is one stream a device here.

    Args:
        enabled: no effect

    Example:
        >>> facula.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)
    """
