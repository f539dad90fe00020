"""Checkpointing: saving memory by computing a part of the forward pass again during the backward
pass.

Takes a function and its arguments.  Gives its result; what the function would have kept for the
backward pass is thrown away and computed again when needed.
Keeps true: the second computation sees the same random numbers and autocast state; in the
non-reentrant form its saved tensors are matched one by one, by number and (by default) shape, dtype
and device.
"""

from __future__ import annotations

import contextlib
import platform
import sys
import threading
import traceback
import uuid
import warnings
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from facula import core
from facula.autograd import autocast
from facula.autograd import backward as run_backward
from facula.autograd.function import Function
from facula.autograd.grad_mode import enable_grad, no_grad
from facula.autograd.graph import saved_tensors_hooks
from facula.autograd.selective_checkpoint import (  # noqa: F401 - part of this module's names
    ALIKE,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)
from facula.core.errors import fail

__all__ = """CheckpointError CheckpointFunction CheckpointPolicy SelectiveCheckpointContext
check_backward_validity checkpoint checkpoint_sequential create_selective_checkpoint_contexts
detach_variable get_device_states noop_context_fn set_checkpoint_debug_enabled
set_checkpoint_early_stop set_device_states""".split()

_debug_enabled: bool | None = None
_early_stop = True


class CheckpointError(RuntimeError):
    """The second run of a checkpoint did not do what the first did.

    Example:
        >>> issubclass(facula.utils.checkpoint.CheckpointError, RuntimeError)
        True
    """


class DefaultDeviceType:
    """The kind of device whose random state is kept beside the CPU's."""

    _default_device_type = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Set it."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """Give it."""
        return DefaultDeviceType._default_device_type


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """A block in which ``debug`` of every checkpoint is the same.

    Args:
        enabled: True, False, or None for what each one says

    Example:
        >>> with facula.utils.checkpoint.set_checkpoint_debug_enabled(True):
        ...     pass
    """
    global _debug_enabled
    previous, _debug_enabled = _debug_enabled, enabled
    try:
        yield
    finally:
        _debug_enabled = previous


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """A block that says whether second runs end when all kept tensors are there.

    Args:
        enable: whether they do

    Example:
        >>> with facula.utils.checkpoint.set_checkpoint_early_stop(False):
        ...     pass
    """
    global _early_stop
    previous, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = previous


def detach_variable(inputs: tuple) -> tuple:
    """Tensors without their history, with the same ``requires_grad``.

    Args:
        inputs: a tuple; what is no tensor stays

    Example:
        >>> x = facula.ones(1, requires_grad=True)
        >>> facula.utils.checkpoint.detach_variable((x * 2,))
        (tensor([2.], requires_grad=True),)
    """
    if not isinstance(inputs, tuple):
        fail(
            RuntimeError,
            "detach_variable",
            "a tuple of tensors",
            got=type(inputs).__name__,
            hint="pass (x,) for a single tensor",
        )
    out = []
    for value in inputs:
        if isinstance(value, core.Tensor):
            detached = value.detach()
            detached.requires_grad = value.requires_grad
            out.append(detached)
        else:
            out.append(value)
    return tuple(out)


def check_backward_validity(inputs: Any) -> None:
    """Warns where no input requires a gradient: a reentrant checkpoint gives none then.

    Args:
        inputs: an iterable

    Example:
        >>> facula.utils.checkpoint.check_backward_validity([facula.ones(1, requires_grad=True)])
    """
    if not any(isinstance(i, core.Tensor) and i.requires_grad for i in inputs):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=3
        )


def _device_module(kind: str) -> Any:
    """The functions of a kind of device: an attribute of the root package, also of a program's own."""
    return getattr(sys.modules[__name__.partition(".")[0]], kind)


def get_device_states(*args: object) -> tuple[list[int], list[Any]]:
    """The devices of the arguments beside the CPU, and the states of their random numbers.

    Args:
        *args: a nesting of tensors

    Example:
        >>> facula.utils.checkpoint.get_device_states(facula.ones(1))
        ([], [])
    """
    devices = {
        a.get_device()
        for a in args
        if isinstance(a, core.Tensor) and a.device.type not in ("cpu", "meta")
    }
    if not devices:
        return [], []
    module = _device_module(DefaultDeviceType.get_device_type())
    return sorted(devices), [module.get_rng_state(d) for d in sorted(devices)]


def set_device_states(
    devices: list[int], states: list[Any], *, device_type: str | None = None
) -> None:
    """Puts back what `get_device_states` gave.

    Args:
        devices: numbers of devices
        states: of each
        device_type: their type; None for the one that was asked

    Example:
        >>> facula.utils.checkpoint.set_device_states([], [])
    """
    kind = device_type or DefaultDeviceType.get_device_type()
    for device, state in zip(devices, states, strict=True):
        _device_module(kind).set_rng_state(state, device)


class _RandomState:
    """The random states of the CPU and of the arguments' devices at one moment."""

    def __init__(self, args: tuple) -> None:
        self.cpu = core.default_generator.clone_state()
        self.devices, self.states = get_device_states(*args)

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Inside, the states are those of that moment; afterwards they are as before."""
        now = core.default_generator.clone_state()
        core.default_generator.graphsafe_set_state(self.cpu)
        set_device_states(self.devices, self.states)
        try:
            yield
        finally:
            core.default_generator.graphsafe_set_state(now)


def _autocast_state() -> dict[str, Any]:
    return {
        "device_type": "cpu",
        "enabled": autocast.is_autocast_enabled("cpu"),
        "dtype": autocast.get_autocast_dtype("cpu"),
        "cache": autocast.is_autocast_cache_enabled(),
    }


@contextlib.contextmanager
def _same_autocast(state: dict[str, Any]) -> Iterator[None]:
    """A context with the autocast state of the first computation."""
    if state["enabled"] == autocast.is_autocast_enabled("cpu"):
        yield
        return
    before = autocast.enter_region(**state)
    try:
        yield
    finally:
        autocast.leave_region(before)


class CheckpointFunction(Function):
    """The reentrant form of `checkpoint`, as a `Function`: a backward pass inside of the backward
    pass.

    Example:
        >>> issubclass(facula.utils.checkpoint.CheckpointFunction, facula.autograd.Function)
        True
    """

    @staticmethod
    def forward(ctx: Any, run_function: Callable, preserve_rng_state: bool, *args: Any) -> Any:
        """Run unrecorded; keep the arguments."""
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.random_state = _RandomState(args) if preserve_rng_state else None
        ctx.autocast_state = _autocast_state()
        ctx.inputs = [None if isinstance(a, core.Tensor) else a for a in args]
        ctx.tensor_indices = [i for i, a in enumerate(args) if isinstance(a, core.Tensor)]
        ctx.save_for_backward(*[args[i] for i in ctx.tensor_indices])
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *args: object) -> Any:
        """Run recorded, and go back through that."""
        inputs = list(ctx.inputs)
        for index, tensor in zip(ctx.tensor_indices, ctx.saved_tensors, strict=True):
            inputs[index] = tensor
        again = ctx.random_state.restored() if ctx.random_state else contextlib.nullcontext()
        with again:
            detached = detach_variable(tuple(inputs))
            with enable_grad(), _same_autocast(ctx.autocast_state):
                outputs = ctx.run_function(*detached)
        if isinstance(outputs, core.Tensor):
            outputs = (outputs,)
        pairs = [
            (out, grad)
            for out, grad in zip(outputs, args, strict=True)
            if isinstance(out, core.Tensor) and out.requires_grad
        ]
        if not pairs:
            fail(
                RuntimeError,
                "checkpoint",
                "an output that requires a gradient",
                got="none of output has requires_grad=True, this checkpoint() is not necessary",
                hint="call requires_grad_() on an input, or pass use_reentrant=False",
            )
        run_backward([out for out, _ in pairs], [grad for _, grad in pairs])
        grads = tuple(i.grad if isinstance(i, core.Tensor) else None for i in detached)
        return (None, None, *grads)


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts that do nothing: the default of ``context_fn``.

    Example:
        >>> first, second = facula.utils.checkpoint.noop_context_fn()
        >>> with first, second:
        ...     pass
    """
    return contextlib.nullcontext(), contextlib.nullcontext()


def _refuse_keywords(kwargs: dict[str, Any]) -> None:
    """The reentrant form has no place for keyword arguments of the function."""
    if kwargs:
        fail(
            ValueError,
            "checkpoint",
            "Unexpected keyword arguments: " + ",".join(kwargs),
            hint=(
                "pass them through a lambda or functools.partial: only the function's "
                "positional arguments are taken"
            ),
        )


def checkpoint(
    function: Callable,
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Calls a function without keeping what its backward pass needs, and runs it again there. [Chen et
    al. 2016]

    Random numbers and autocast are the same the second time.

    Args:
        function: what is called
        *args, **kwargs: its arguments
        use_reentrant: False for the form that works with `autograd.grad`, nestings and keyword
            arguments; say which
        context_fn: gives two contexts, for the first and the second run
        determinism_check: 'default' compares shapes, dtypes and devices of both runs, 'none' does
            not
        debug: whether an error tells what both runs did
        early_stop: whether the second run ends when all is there

    Raises:
        CheckpointError: the second run did not do what the first did.

    Example:
        >>> x = facula.tensor([0.5], requires_grad=True)
        >>> y = facula.utils.checkpoint.checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False)
        >>> y.backward()
        >>> x.grad
        tensor([1.4174])
    """
    if use_reentrant is None:
        warnings.warn(
            "checkpoint: pass use_reentrant explicitly; use_reentrant=False is recommended, and True "
            "is taken now",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        _refuse_keywords(kwargs)
        if context_fn is not noop_context_fn or debug is not False:
            fail(
                ValueError,
                "checkpoint",
                "Passing `context_fn` or `debug` is only supported when use_reentrant=False.",
                hint="use_reentrant=False takes both",
            )
        return CheckpointFunction.apply(function, preserve, *args)
    steps = _without_reentrance(
        function, preserve, context_fn, determinism_check, debug, early_stop, *args, **kwargs
    )
    next(steps)
    result = function(*args, **kwargs)
    with contextlib.suppress(StopIteration):
        next(steps)
    return result


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: core.Tensor,
    use_reentrant: bool | None = None,
    **kwargs: object,
) -> Any:
    """Runs a sequence of modules in parts, each but the last by `checkpoint`.

    Args:
        functions: a `nn.Sequential`, or a list of functions
        segments: number of parts
        input: of the first
        use_reentrant: as of `checkpoint`

    Example:
        >>> model = facula.nn.Sequential(facula.nn.Linear(2, 2), facula.nn.Linear(2, 1))
        >>> x = facula.ones(3, 2, requires_grad=True)
        >>> facula.utils.checkpoint.checkpoint_sequential(model, 2, x, use_reentrant=False).shape
        facula.Size([3, 1])
    """
    if use_reentrant is None:
        warnings.warn(
            "checkpoint_sequential: pass use_reentrant explicitly; True is taken now",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    _refuse_keywords(kwargs)
    modules = list(functions.children()) if hasattr(functions, "children") else list(functions)

    def run(start: int, end: int) -> Callable:
        def forward(x: core.Tensor) -> Any:
            for module in modules[start : end + 1]:
                x = module(x)
            return x

        return forward

    size = len(modules) // segments
    end = -1
    for start in range(0, size * (segments - 1), size):
        end = start + size - 1
        input = checkpoint(
            run(start, end), input, use_reentrant=use_reentrant, preserve_rng_state=preserve
        )
    return run(end + 1, len(modules) - 1)(input)


# the non-reentrant form ---------------------------------------------------------------------------


class _Handle:
    """Stands for one recomputed tensor; alive as long as something may ask for it."""

    #: how often the tensor had been written to when it was saved
    version: int | None = None


class _Holder:
    """What is saved in place of a tensor: which handle to ask, per backward run."""

    def __init__(self) -> None:
        self.handles: dict[Any, _Handle] = {}


class _StopRecomputation(Exception):
    """All tensors are there."""


def _metadata(tensor: core.Tensor) -> dict[str, Any]:
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


_DETERMINISM_CHECKS = {"default": _metadata, "none": None}


class _Frame:
    """One checkpointed call: what it saved, and how to compute it again."""

    def __init__(self, recompute: Callable, early_stop: bool, metadata: Callable | None) -> None:
        self.recompute = recompute
        self.early_stop = early_stop
        self.metadata = metadata
        self.holders: list[Any] = []
        self.saved_metadata: list[dict] = []
        self.recomputed: dict[Any, weakref.WeakKeyDictionary] = defaultdict(
            weakref.WeakKeyDictionary
        )
        self.counts: dict[Any, int] = defaultdict(int)
        self.is_recomputed: dict[Any, bool] = defaultdict(bool)
        self.names: list[str] = []
        self.recomputed_names: list[str] = []
        self.ended = False

    def check(self, run: Any) -> None:
        """Raises CheckpointError where the second computation did other than the first."""
        if not self.counts[run] == len(self.holders):
            fail(
                CheckpointError,
                "checkpoint",
                "the same number of saved tensors in both computations was required: A different "
                "number of tensors was saved during the original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.holders)}\n"
                f"Number of tensors saved during recomputation: {self.counts[run]}",
                hint=ALIKE,
            )
        if self.metadata is None:
            return
        different = []
        for index, reference in enumerate(self.holders):
            holder = reference()
            if holder is None or run not in holder.handles:
                continue
            tensor = self.recomputed[run].get(holder.handles[run])
            if tensor is None:
                continue
            then, now = self.saved_metadata[index], self.metadata(tensor)
            if then != now:
                different.append(
                    f"tensor at position {index}:\nsaved metadata: {then}\nrecomputed metadata: "
                    f"{now}"
                )
        if different:
            fail(
                CheckpointError,
                "checkpoint",
                "the same metadata in both computations was required: Recomputed values for the "
                "following tensors have different metadata than during the forward pass.\n"
                + "\n".join(different),
                hint=ALIKE,
            )


def _recomputation_hooks(frame_reference: Any, run: Any) -> saved_tensors_hooks:
    def pack(tensor: core.Tensor) -> Any:
        frame = frame_reference()
        index = frame.counts[run]
        frame.counts[run] += 1
        if index >= len(frame.holders):
            if not frame.early_stop:
                fail(
                    CheckpointError,
                    "checkpoint",
                    "the same number of saved tensors in both computations was required: trying to "
                    "save more tensors during recomputation than during the original forward pass.",
                    hint=ALIKE,
                )
            raise _StopRecomputation
        holder = frame.holders[index]()
        if holder is not None:
            handle = holder.handles.get(run)
            if handle is None:
                handle = holder.handles[run] = _Handle()
            frame.recomputed[run][handle] = tensor.detach()
            handle.version = None if tensor.is_inference() else tensor._version
        if frame.early_stop and frame.counts[run] == len(frame.holders):
            raise _StopRecomputation
        return tensor.detach()

    return saved_tensors_hooks(pack, lambda packed: packed)


def _check_unmodified(tensor: core.Tensor, handle: _Handle) -> None:
    """Raises where the function wrote over a tensor after it was saved."""
    if handle.version is not None and tensor._version != handle.version:
        fail(
            RuntimeError,
            "checkpoint",
            "an unmodified saved tensor was required: one of the variables needed for gradient computation has "
            "been modified by an inplace operation",
            f"{list(tensor.shape)} at version {tensor._version}, saved at {handle.version}",
            hint="replace the in-place operation of the function by its functional form",
        )


def _checkpoint_hooks(frame: _Frame) -> saved_tensors_hooks:
    def pack(tensor: core.Tensor) -> _Holder:
        holder = _Holder()
        frame.holders.append(weakref.ref(holder))
        if frame.metadata is not None:
            with no_grad():
                frame.saved_metadata.append(frame.metadata(tensor))
        return holder

    def unpack(holder: _Holder) -> Any:
        group = getattr(GraphExecGroup._current, "group", None)
        task = core.current_graph_task_id() if group is None else group
        run = (
            uuid.uuid4() if task == -1 else task
        )  # read outside a backward run: computed for this once
        if not frame.is_recomputed[run]:
            with (
                _recomputation_hooks(weakref.ref(frame), run),
                contextlib.suppress(_StopRecomputation),
            ):
                frame.recompute()
            frame.is_recomputed[run] = True
            frame.check(run)
        handle = holder.handles.get(run)
        if handle is None or handle not in frame.recomputed[run]:
            fail(
                CheckpointError,
                "checkpoint",
                "a recomputed tensor that is still there was required",
                got="one that was read before",
                hint="read ctx.saved_tensors only once in a backward",
            )
        tensor = frame.recomputed[run][handle]
        holder.handles.pop(run)
        _check_unmodified(tensor, handle)
        return tensor

    return saved_tensors_hooks(pack, unpack)


def _explaining(check: Callable[[Any], None], trace: list[list[str]]) -> Callable[[Any], None]:
    """A check whose error tells where the two runs saved their tensors."""

    def explained(run: Callable[..., Any]) -> None:
        try:
            check(run)
        except CheckpointError as error:
            raise CheckpointError(
                f"{error}\n\nforward on "
                f"{platform.machine()}:\n{''.join(trace[0])}\nrecomputation:\n"
                f"{''.join(trace[1])}"
            ) from error

    return explained


def _without_reentrance(
    function: Callable,
    preserve_rng_state: bool,
    context_fn: Callable,
    determinism_check: str,
    debug: bool,
    early_stop: bool,
    *args: object,
    **kwargs: object,
) -> Iterator[None]:
    if determinism_check not in _DETERMINISM_CHECKS:
        fail(
            ValueError,
            "checkpoint",
            (
                f"determinism_check should be one of {list(_DETERMINISM_CHECKS)}, but got "
                f"{determinism_check}"
            ),
            hint="'default' compares shapes, dtypes and devices, 'none' nothing",
        )
    debug = _debug_enabled if _debug_enabled is not None else debug
    if debug and context_fn is not noop_context_fn:
        fail(
            ValueError,
            "checkpoint",
            "debug=True is incompatible with non-default context_fn",
            hint="leave out debug or context_fn",
        )
    trace: list[list[str]] = [[], []]
    forward_context, recompute_context = (
        (_Trace(trace[0]), _Trace(trace[1])) if debug else context_fn()
    )
    random_state = _RandomState(args) if preserve_rng_state else None
    autocast_state = _autocast_state()

    def recompute() -> None:
        again = random_state.restored() if random_state else contextlib.nullcontext()
        with again, _same_autocast(autocast_state), recompute_context, enable_grad():
            function(*args, **kwargs)

    frame = _Frame(recompute, early_stop and _early_stop, _DETERMINISM_CHECKS[determinism_check])
    if debug:
        frame.check = _explaining(frame.check, trace)  # type: ignore[method-assign, assignment]
    with _checkpoint_hooks(frame), forward_context:
        yield
    frame.ended = True


class _Trace:
    """Notes where tensors were saved, by noting the calls on the way."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def __enter__(self) -> _Trace:
        self.lines.extend(traceback.format_stack(limit=12)[:-1])
        return self

    def __exit__(self, *exc_info: object) -> None:
        return None


# selective checkpointing --------------------------------------------------------------------------


class GraphExecGroup:
    """Marks backward runs that share recomputed tensors; one at a time per thread."""

    _current = threading.local()

    def __enter__(self) -> None:
        if getattr(GraphExecGroup._current, "group", None) is not None:
            fail(
                RuntimeError,
                "GraphExecGroup",
                ("GraphExecGroup contexts cannot be nested. Already in a GraphExecGroup context."),
                hint="leave the outer one first",
            )
        GraphExecGroup._current.group = self

    def __exit__(self, *exc_info: object) -> None:
        GraphExecGroup._current.group = None
