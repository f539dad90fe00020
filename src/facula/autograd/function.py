"""Operations with a gradient of the user's own: `Function`.

Takes a class with static `forward` and `backward`.  Gives `apply`, which runs `forward` unrecorded
and makes its outputs the results of one node.
Keeps true: the context given to `forward` and `backward` is the node; saved tensors are
version-checked, pass through saved-tensor hooks and are freed with the graph; gradients are checked
against the inputs' shapes.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

from facula import core
from facula.autograd.profiler_recorder import FUNCTION, recorded_range
from facula.core.errors import fail

__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "FunctionMeta",
    "InplaceFunction",
    "NestedIOFunction",
    "once_differentiable",
]

Tensor = core.Tensor


class FunctionCtx:
    """What `forward` and `setup_context` may tell about a call."""

    needs_input_grad: tuple[bool, ...]

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for `backward`, which finds them in ``saved_tensors``."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for `jvp`, which finds them in ``saved_tensors``."""
        for tensor in tensors:
            if not isinstance(tensor, Tensor) and tensor is not None:
                fail(
                    TypeError,
                    "save_for_forward",
                    "tensors or None",
                    got=type(tensor).__name__,
                    hint="keep other values as attributes of ctx",
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: object) -> None:
        """Say which inputs were modified in place; they must be returned as outputs."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: object) -> None:
        """Say which outputs have no gradient."""
        self.non_differentiable = args

    def mark_shared_storage(self, *pairs: object) -> None:
        """Deprecated in PyTorch; tensors that share storage are found without it."""
        warnings.warn(
            "mark_shared_storage is deprecated: tensors with shared storages are tracked "
            "automatically",
            FutureWarning,
            stacklevel=2,
        )

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` sees zeros (True) or None where an output got no gradient."""
        self.materialize_grads = value


class _HookMixin:
    """What PyTorch's class of this name gives."""

    @staticmethod
    def _register_hook(backward_hooks: Any, hook: Callable) -> Any:
        handles = {} if backward_hooks is None else backward_hooks
        handle = core.RemovableHandle(handles)
        handles[handle.id] = hook
        return handles, handle


class BackwardCFunction(core.Node, FunctionCtx, _HookMixin):
    """The node of one call of a `Function`."""

    _forward_cls: Any = None
    materialize_grads = True
    dirty_tensors: tuple = ()
    non_differentiable: tuple = ()
    to_save: tuple = ()
    saved_for_forward: tuple = ()
    _saved: tuple | None = None
    _released = False
    _tensor_positions: tuple[int, ...] = ()
    _n_inputs = 0
    _output_metas: tuple = ()
    _input_metas: tuple = ()

    def name(self) -> str:
        """The name of the function with "Backward"."""
        return type(self).__name__

    @property
    def saved_tensors(self) -> tuple:
        """The tensors that `save_for_backward` was given."""
        if self._saved is None:
            if self._released:
                self._fail_released()
            return tuple(self.to_save) or tuple(self.saved_for_forward)
        return tuple([None if s is None else s.unpack(self) for s in self._saved])

    saved_variables = saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple:
        return self._saved or ()

    def _fail_released(self) -> Any:
        return fail(
            RuntimeError,
            "backward",
            f"saved tensors of {self.name()}",
            got="freed ones (Trying to backward through the graph a second time, or to access "
            "saved tensors after they "
            "have already been freed)",
            hint="call backward(retain_graph=True) the first time",
        )

    def release_variables(self) -> None:
        """Drop what was kept; the engine calls this when the graph is freed."""
        for saved in self._saved or ():
            if saved is not None:
                saved.release()
        self._saved = None
        self._released = bool(self.to_save) or self._had_saved
        self.to_save = ()

    _had_saved = False

    def _user_backward(self) -> Callable:
        cls = self._forward_cls
        backward, vjp = cls.backward, cls.vjp
        if backward is not Function.backward and vjp is not Function.vjp:
            fail(
                RuntimeError,
                cls.__name__,
                "either 'backward' or 'vjp', not both",
                got="Implementing both 'backward' and 'vjp' for a custom Function is not allowed",
                hint="remove one of them",
            )
        return vjp if vjp is not Function.vjp else backward

    def apply(self, *grads: Any) -> tuple:
        """Run the user's `backward`; gives one gradient for every tensor input."""
        if self._released and self._had_saved:
            self._fail_released()
        if self.materialize_grads:
            grads = tuple(
                [
                    _zeros(meta) if grad is None and meta is not None else grad
                    for grad, meta in zip(grads, self._output_metas, strict=True)
                ]
            )
        result = self._user_backward()(self, *grads)
        if not isinstance(result, tuple):
            result = (result,)
        if len(result) > self._n_inputs and any(r is not None for r in result[self._n_inputs :]):
            self._wrong_count(len(result))
        if len(result) < self._n_inputs:
            self._wrong_count(len(result))
        return tuple(
            [
                None if result[p] is None else self._checked(result[p], p, meta)
                for p, meta in zip(self._tensor_positions, self._input_metas, strict=True)
            ]
        )

    def _wrong_count(self, count: int) -> None:
        fail(
            RuntimeError,
            self._forward_cls.__name__,
            "a gradient for each input of forward",
            got=f"function {self.name()} returned an incorrect number of gradients (expected "
            f"{self._n_inputs}, got "
            f"{count})",
            hint="return None for an input that has no gradient",
        )

    def _checked(self, grad: core.Tensor, position: int, meta: tuple) -> Any:
        """The gradient in the input's shape and dtype; None where the input asked for none."""
        if not isinstance(grad, Tensor):
            fail(
                TypeError,
                self._forward_cls.__name__,
                f"a Tensor or None from backward for input {position}",
                got=f"expected Variable or None (got {type(grad).__name__})",
                hint="facula.as_tensor(value) makes a tensor of a number",
            )
        if not self.needs_input_grad[position]:
            # nobody takes it, so backward may give a placeholder of any shape
            return None
        shape, dtype, _ = meta
        if grad.shape != shape:
            if not _expandable(shape, grad.shape):
                fail(
                    RuntimeError,
                    self._forward_cls.__name__,
                    f"a gradient of shape {list(shape)} for input {position}",
                    got=f"Function {self.name()} returned an invalid gradient at index {position} "
                    "- got "
                    f"{list(grad.shape)} but expected shape compatible with {list(shape)}",
                    hint="sum over the dimensions that were broadcast",
                )
            grad = grad.sum_to_size(shape)
        if grad.dtype != dtype:
            if grad.dtype.is_complex and not dtype.is_complex:
                grad = grad.real
            grad = grad.to(dtype)
        return grad

    def apply_jvp(self, *args: object) -> Any:
        """Run the user's `jvp`."""
        return self._forward_cls.jvp(self, *args)


def _zeros(meta: tuple) -> Any:
    shape, dtype, device = meta
    return core.empty(shape, dtype=dtype, device=device).zero_()


def _expandable(shape: Any, larger: Any) -> bool:
    """Whether ``shape`` broadcasts to ``larger``."""
    if len(shape) > len(larger):
        return False
    tail = larger[len(larger) - len(shape) :]
    return all(s == 1 or s == t for s, t in zip(shape, tail, strict=True))


class FunctionMeta(type):
    """Gives every Function a node class of its own, named after it."""

    def __init__(cls, name: str, bases: tuple, attrs: dict) -> None:
        node_name = name + "Backward"
        cls._backward_cls = type(
            node_name, (BackwardCFunction,), {"_forward_cls": cls, "__module__": cls.__module__}
        )
        super().__init__(name, bases, attrs)


class _SingleLevelFunction(FunctionCtx, _HookMixin, metaclass=FunctionMeta):
    """The user's side of a Function."""

    _backward_cls: Any

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs: ``forward(ctx, ...)``, or ``forward(...)`` beside a `setup_context`."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: object, inputs: tuple, output: object) -> Any:
        """Keep what `backward` needs; given the arguments and the result of `forward`."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: object, *grad_outputs: Any) -> Any:
        """Gradients of the inputs (None where there is none) from those of the outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with "
            "backward mode AD."
        )

    # the same under another name
    vjp = backward

    @staticmethod
    def jvp(ctx: object, *grad_inputs: object) -> Any:
        """Tangents of the outputs from those of the inputs, for forward mode."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )


class Function(_SingleLevelFunction):
    """The base class of operations with a gradient of one's own.

    A subclass defines the static methods ``forward(ctx, *args)`` and ``backward(ctx, *grads)`` and
    is called by ``apply``. ``ctx.save_for_backward`` keeps tensors; ``ctx.mark_dirty``,
    ``mark_non_differentiable``, ``set_materialize_grads`` and ``needs_input_grad`` are PyTorch's.
    ``setup_context(ctx, inputs, output)`` may take the context's part of ``forward``, ``jvp`` gives
    forward mode and ``vmap`` batches.

    Args:
        *args, **kwargs: none is used: instances are not made

    Raises:
        RuntimeError: ``backward`` gives another number of gradients than ``forward`` took
            arguments.

    Example:
        >>> class Double(facula.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return 2 * x
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return 2 * grad
        >>> x = facula.ones(2, requires_grad=True)
        >>> Double.apply(x).sum().backward()
        >>> x.grad
        tensor([2., 2.])
    """

    generate_vmap_rule = False

    def __init__(self, *args: object, **kwargs: object) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all "
            "static, so you should "
            "invoke them on the class itself. Instantiating an autograd function will raise an "
            "error in a future "
            "version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        fail(
            RuntimeError,
            "Function",
            (
                "Legacy autograd function with non-static forward method is deprecated. "
                "Please use new-style autograd function with static forward method."
            ),
            hint="mark forward and backward with @staticmethod and call MyFunction.apply(...)",
        )

    @staticmethod
    def vmap(info: object, in_dims: object, *args: object) -> Any:
        """How the function acts on batches: gives outputs and their batch dimensions."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap static method "
            "or set "
            "generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: object, **kwargs: object) -> Any:
        """Run the function on ``args``."""
        separate = cls.setup_context is not _SingleLevelFunction.setup_context
        if separate:
            args = bind_default_args(cls.forward, *args, **kwargs)
            kwargs = {}
        stack = core.interpreters()
        if stack:
            # the innermost function transform decides how to run it
            return stack[-1].process(cls.apply, args, kwargs)
        if core.is_profiling():
            with recorded_range(cls.__name__, FUNCTION):
                return cls._run(args, kwargs, separate)[0]
        return cls._run(args, kwargs, separate)[0]

    @classmethod
    def apply_with_tangents(cls, args: tuple, kwargs: dict, tangents: list) -> tuple[Any, Any]:
        """The results and, by the user's `jvp`, their tangents; None in `tangents` is zero."""
        separate = cls.setup_context is not _SingleLevelFunction.setup_context
        if core.interpreters():
            # other transforms are at work: they run the function, and a second call makes a context
            result = cls.apply(*args, **kwargs)
            ctx = cls._backward_cls()
            if separate:
                cls.setup_context(ctx, args, cls.forward(*args))
            else:
                cls.forward(ctx, *args, **kwargs)
        else:
            result, ctx = cls._run(args, kwargs, separate)
        given = tangents
        if ctx.materialize_grads:
            given = [
                _zeros((a.shape, a.dtype, a.device))
                if t is None and isinstance(a, Tensor) and _differentiable(a)
                else t
                for a, t in zip(args, tangents, strict=True)
            ]
        return result, ctx.apply_jvp(*given)

    @classmethod
    def _run(cls, args: tuple, kwargs: dict, separate: bool) -> tuple[Any, Any]:
        """The results, and the context of the call."""
        ctx = cls._backward_cls()
        needs = tuple([isinstance(a, Tensor) and a.requires_grad for a in args])
        ctx.needs_input_grad = needs
        recording = core.set_grad_enabled(False)
        try:
            if separate:
                output = cls.forward(*args)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args, **kwargs)
            single = not isinstance(output, tuple)
            results = [output] if single else list(output)
            record = recording and True in needs
            targets, dirty = _prepare_outputs(ctx, args, results, record)
        finally:
            core.set_grad_enabled(recording)
        if record:
            _record(ctx, args, results, targets, dirty)
        return (results[0] if single else tuple(results)), ctx


def _prepare_outputs(
    ctx: BackwardCFunction, args: tuple, results: list, record: bool
) -> tuple[tuple, tuple]:
    """Replace inputs that are returned as they are; gives what to attach to the node, and which
    were written to.
    """
    inputs = {id(a): a for a in args if isinstance(a, Tensor)}
    dirty_ids = {id(t) for t in ctx.dirty_tensors}
    fixed_ids = {id(t) for t in ctx.non_differentiable}
    returned = {id(r) for r in results}
    if dirty_ids - returned:
        fail(
            RuntimeError,
            ctx.name(),
            "every tensor given to mark_dirty among the outputs",
            got="Some elements marked as dirty during the forward method were not returned as "
            "output. The inputs that are "
            "modified inplace must all be outputs of the Function.",
            hint="return the tensor that was written to as well",
        )
    targets: list[Any] = []
    dirty: list[bool] = []
    for i, result in enumerate(results):
        written = id(result) in dirty_ids
        if not isinstance(result, Tensor):
            targets.append(None)
        elif written:
            _check_dirty(ctx, result, inputs, record)
            targets.append(None if id(result) in fixed_ids else result)
        else:
            fixed = id(result) in fixed_ids or not _differentiable(result)
            if id(result) in inputs:
                result = results[i] = result.detach() if fixed else result.view_as(result)
            targets.append(None if fixed else result)
        dirty.append(written)
    return tuple(targets), tuple(dirty)


def _differentiable(tensor: core.Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def _check_dirty(ctx: BackwardCFunction, tensor: core.Tensor, inputs: dict, record: bool) -> None:
    if id(tensor) not in inputs:
        fail(
            RuntimeError,
            ctx.name(),
            "inputs only in mark_dirty",
            got="a tensor that is no input of forward",
            hint="outputs need no mark: mark_dirty() is for inputs",
        )
    if record and tensor.is_leaf and tensor.requires_grad:
        fail(
            RuntimeError,
            ctx.name(),
            "no in-place change of a leaf",
            got="a leaf Variable that requires grad is being used in an in-place operation",
            hint="clone() it first, or change it under no_grad()",
        )


def _record(
    ctx: BackwardCFunction, args: tuple, results: list, targets: tuple, dirty: tuple
) -> None:
    """Make ``ctx`` the node of the outputs, and keep what was asked for."""
    positions = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
    ctx._n_inputs = len(args)
    ctx._tensor_positions = tuple(positions)
    ctx._input_metas = tuple([(args[i].shape, args[i].dtype, args[i].device) for i in positions])
    ctx._output_metas = tuple(
        [(r.shape, r.dtype, r.device) if isinstance(r, Tensor) else None for r in results]
    )
    core.record_function(ctx, tuple([args[i] for i in positions]), targets, dirty)
    if ctx.to_save:
        outputs = {id(r): i for i, r in enumerate(results) if isinstance(r, Tensor)}
        ctx._saved = tuple([_save(ctx, t, outputs, targets) for t in ctx.to_save])
        ctx._had_saved = True
        ctx.to_save = ()
    ctx.dirty_tensors = ctx.non_differentiable = ()


def _save(ctx: object, tensor: core.Tensor, outputs: dict, targets: tuple) -> Any:
    if tensor is None:
        return None
    if not isinstance(tensor, Tensor):
        fail(
            TypeError,
            "save_for_backward",
            "tensors or None",
            got=f"{type(tensor).__name__} (save_for_backward can only save variables, but argument "
            "is of another type)",
            hint="keep other values as attributes of ctx",
        )
    number = outputs.get(id(tensor))
    if number is None or targets[number] is None:
        return core.SavedVariable(tensor)
    return core.SavedVariable(tensor, True, number)


def bind_default_args(function: Callable, *args: object, **kwargs: object) -> tuple:
    """The positional arguments of a call with defaults filled in."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


class _DelayedError(core.Node):
    """A node that raises when a gradient reaches it."""

    def name(self) -> str:
        """The node's name."""
        return "DelayedError"

    def apply(self, *grads: object) -> tuple:
        """Raises."""
        return fail(
            RuntimeError,
            "once_differentiable",
            "one differentiation only",
            got="trying to differentiate twice a function that was marked with "
            "@once_differentiable",
            hint="leave @once_differentiable out, and write backward with differentiable "
            "operations",
        )


def once_differentiable(fn: Callable) -> Callable:
    """Mark a `backward` as not differentiable itself: differentiating twice then raises."""

    @wraps(fn)
    def wrapper(ctx: object, *args: object) -> Any:
        recording = core.set_grad_enabled(False)
        try:
            outputs = fn(ctx, *args)
        finally:
            core.set_grad_enabled(recording)
        if not recording:
            return outputs
        sources = tuple([a for a in args if isinstance(a, Tensor) and a.requires_grad])
        if not sources:
            return outputs
        values = list(outputs) if isinstance(outputs, tuple) else [outputs]
        fresh = [v.detach() if isinstance(v, Tensor) else v for v in values]
        attached = tuple(
            [v if isinstance(v, Tensor) and _differentiable(v) else None for v in fresh]
        )
        core.record_function(_DelayedError(), sources, attached, ())
        return tuple(fresh) if isinstance(outputs, tuple) else fresh[0]

    return wrapper


class InplaceFunction(Function):
    """A `Function` with an ``inplace`` flag; kept for old programs.

    Args:
        inplace: the flag

    Example:
        >>> issubclass(facula.autograd.function.InplaceFunction, facula.autograd.Function)
        True
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def _flatten(value: object, tensors: list) -> Any:
    """A nesting with its tensors taken out into ``tensors``; gives the structure."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return _Slot(len(tensors) - 1)
    if isinstance(value, (list, tuple)):
        return type(value)(_flatten(v, tensors) for v in value)
    if isinstance(value, dict):
        return type(value)((k, _flatten(v, tensors)) for k, v in value.items())
    return value


def _unflatten(structure: object, tensors: Any) -> Any:
    if isinstance(structure, _Slot):
        return tensors[structure.index]
    if isinstance(structure, (list, tuple)):
        return type(structure)(_unflatten(v, tensors) for v in structure)
    if isinstance(structure, dict):
        return type(structure)((k, _unflatten(v, tensors)) for k, v in structure.items())
    return structure


class _Slot:
    """Stands for a tensor in a nesting."""

    def __init__(self, index: int) -> None:
        self.index = index


class NestedIOFunction(Function):
    """A `Function` whose inputs and outputs are nestings of lists, tuples and dictionaries.

    A subclass defines the static methods ``forward_extended(ctx, *nested)`` and
    ``backward_extended(ctx, *nested)``.

    Example:
        >>> issubclass(facula.autograd.function.NestedIOFunction, facula.autograd.Function)
        True
    """

    @classmethod
    def apply(cls, *args: object, **kwargs: object) -> Any:
        """Run the function on nested ``args``."""
        tensors: list[Any] = []
        structure = _flatten(args, tensors)
        shapes: list[Any] = []
        flat = super().apply(structure, shapes, *tensors)
        return _unflatten(shapes[0], flat)

    @staticmethod
    def forward(ctx: Any, structure: Any, shapes: list, *tensors: Any) -> Any:
        """Flatten what ``forward_extended`` gives."""
        cls = type(ctx)._forward_cls
        nested = cls.forward_extended(ctx, *_unflatten(structure, tensors))
        outputs: list[Any] = []
        shapes.append(_flatten(nested, outputs))
        ctx.output_structure = shapes[0]
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Flatten what ``backward_extended`` gives."""
        cls = type(ctx)._forward_cls
        nested = cls.backward_extended(ctx, *_as_tuple(_unflatten(ctx.output_structure, grads)))
        flat: list[Any] = []
        _flatten_all(nested, flat)
        return (None, None, *flat)

    @staticmethod
    def forward_extended(ctx: object, *inputs: object) -> Any:
        """Compute nested outputs."""
        raise NotImplementedError

    @staticmethod
    def backward_extended(ctx: object, *grads: object) -> Any:
        """Nested gradients of the inputs."""
        raise NotImplementedError


def _nested_map(
    condition: Callable[[Any], bool], fn: Callable[[Any], Any], condition_msg: str | None = None
) -> Callable[[Any], Any]:
    """A function that maps what satisfies a condition, in nested tuples, lists and dictionaries."""

    def mapped(value: object) -> Any:
        if condition(value):
            return fn(value)
        if value is None:
            return None
        if isinstance(value, (list, tuple)):
            items = [mapped(v) for v in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if isinstance(value, dict):
            return {key: mapped(v) for key, v in value.items()}
        return fail(
            ValueError,
            "nested_map",
            "tuples, lists and dictionaries of what is mapped were required"
            + (f" ({condition_msg})" if condition_msg else ""),
            type(value).__name__,
            hint="pass the other arguments apart",
        )

    return mapped


def _as_tuple(value: object) -> tuple:
    return value if isinstance(value, tuple) else (value,)


def _flatten_all(value: object, out: list) -> None:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for v in value:
            _flatten_all(v, out)
    else:
        out.append(value)
