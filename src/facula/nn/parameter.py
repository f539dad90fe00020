"""Tensors that a module registers by being assigned: `Parameter`, `Buffer`, and their forms without
a shape yet.

Takes a tensor.  Gives a tensor of the same storage that `Module.__setattr__` recognises.
Keeps true: a `Parameter` is a leaf; `isinstance(x, Parameter)` also holds for tensor subclasses
that carry `_is_param`, and `isinstance(x, Buffer)` for any tensor that carries `_is_buffer`.
"""

from __future__ import annotations

import copyreg
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.namespaces.overrides import as_operator

_TensorMeta: type = type(core.Tensor)


class _ParameterMeta(_TensorMeta):
    """Lets tensor subclasses that were wrapped by `Parameter` count as parameters."""

    def __instancecheck__(self, instance: object) -> bool:
        if self is Parameter and isinstance(instance, core.Tensor):
            if getattr(instance, "_is_param", False):
                return True
        return super().__instancecheck__(instance)


class Parameter(core.Tensor, metaclass=_ParameterMeta):
    """A tensor that becomes a parameter of the module it is assigned to.

    `Module.parameters` finds it, `Module.to` moves it and ``state_dict`` holds it.

    Args:
        data: its value, whose memory it shares; None for an empty tensor
        requires_grad: whether gradients are accumulated into ``grad``

    Example:
        >>> layer = facula.nn.Module()
        >>> layer.scale = facula.nn.Parameter(facula.ones(2))
        >>> [name for name, _ in layer.named_parameters()]
        ['scale']
    """

    __torch_function__ = core._disabled_torch_function_impl

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if data is None:
            data = facula.empty(0)
        if type(data) is core.Tensor or type(data) is Parameter:
            return core.Tensor._make_subclass(cls, data, requires_grad)
        tensor = data.detach().requires_grad_(requires_grad)
        if type(tensor) is not type(data):
            fail(
                RuntimeError,
                "Parameter",
                "detach() of a custom tensor gives the same type",
                got=f"{type(tensor).__name__} from {type(data).__name__}",
                hint="implement detach() in the subclass",
            )
        tensor._is_param = True
        return tensor

    def __deepcopy__(self, memo: dict) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        copied = type(self)(
            self.data.clone(memory_format=facula.preserve_format), self.requires_grad
        )
        memo[id(self)] = copied
        return copied

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: object) -> Any:
        # the attribute dictionary goes along only where there is something in it
        state = _public_state(self)
        hooks: OrderedDict = OrderedDict()
        if not state:
            return rebuild_parameter, (self.data, self.requires_grad, hooks)
        return rebuild_parameter_with_state, (self.data, self.requires_grad, hooks, state)


def _public_state(tensor: object) -> dict:
    state = dict(getattr(tensor, "__dict__", None) or {})
    for slot in copyreg._slotnames(type(tensor)):  # type: ignore[attr-defined]
        if hasattr(tensor, slot):
            state[slot] = getattr(tensor, slot)
    return state


def rebuild_parameter(data: object, requires_grad: bool, backward_hooks: object) -> Parameter:
    """Make a parameter from a pickle's parts."""
    return Parameter(data, requires_grad)


def rebuild_parameter_with_state(
    data: object, requires_grad: bool, backward_hooks: object, state: dict
) -> Parameter:
    """Make a parameter with attributes from a pickle's parts."""
    parameter = Parameter(data, requires_grad)
    for name, value in state.items():
        setattr(parameter, name, value)
    return parameter


class _BufferMeta(_TensorMeta):
    """Any tensor that `Buffer` marked counts as a buffer."""

    def __instancecheck__(self, instance: core.Tensor | None) -> bool:
        if self is Buffer:
            return isinstance(instance, core.Tensor) and getattr(instance, "_is_buffer", False)
        return super().__instancecheck__(instance)


class Buffer(core.Tensor, metaclass=_BufferMeta):
    """A tensor that becomes a buffer of the module it is assigned to: state that is not learned.

    Args:
        data: its value; None for an empty tensor
        persistent: whether ``state_dict`` holds it

    Example:
        >>> layer = facula.nn.Module()
        >>> layer.count = facula.nn.Buffer(facula.zeros(1))
        >>> layer.state_dict()
        OrderedDict([('count', tensor([0.]))])
    """

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        if data is None:
            data = facula.empty(0)
        tensor = data.detach().requires_grad_(data.requires_grad)
        tensor.persistent = persistent
        tensor._is_buffer = True
        return tensor


#: operators by which modules are moved and copied: they serve tensors without elements too
_OF_TENSORS_WITHOUT_SHAPE = frozenset(
    "to copy_ half float double bfloat16 cpu cuda char short int long type".split()
)


class UninitializedTensorMixin:
    """A tensor whose shape comes with the first call of its lazy module."""

    data: Any
    requires_grad: Any
    cls_to_become: Any

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Raises: functions need elements, but for those by which modules move and copy tensors."""
        called, _ = as_operator(func, args)
        if func.__name__ in _OF_TENSORS_WITHOUT_SHAPE or not isinstance(
            called, (core.Op, core.InplaceOp)
        ):
            return core.run_without_overrides(func, args, kwargs or {})
        fail(
            ValueError,
            func.__name__,
            "an initialized tensor was required",
            f"Attempted to use an uninitialized parameter in {func.__name__}()",
            hint="call the module once, which materializes its parameters, before their tensors are used",
        )

    def materialize(
        self,
        shape: Sequence[int],
        device: core.device | str | int | None = None,
        dtype: core.dtype | None = None,
    ) -> None:
        """Give the tensor its ``shape`` (contents undefined), and its class that of an ordinary
        one.
        """
        data = self.data
        self.data = facula.empty(
            shape,
            device=data.device if device is None else device,
            dtype=data.dtype if dtype is None else dtype,
        )
        whole: Any = self
        core.become(whole, self.cls_to_become)

    @property
    def shape(self) -> Any:
        """Raises: there is no shape yet."""
        return fail(
            RuntimeError,
            type(self).__name__,
            "a shape, which the first call of the module sets",
            got="an uninitialized tensor (Can't access the shape of an uninitialized parameter or buffer)",
            hint="run a dry run of the module first",
        )

    def share_memory_(self) -> Any:
        """Raises: there is no memory yet."""
        return fail(
            RuntimeError,
            f"{type(self).__name__}.share_memory_",
            "an initialized tensor",
            got="an uninitialized one (Can't share memory on an uninitialized parameter or buffer)",
            hint="call forward once before sharing the module among processes",
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: object) -> Any:
        return self.__class__, (self.requires_grad,)


def is_lazy(tensor: core.Tensor) -> bool:
    """Whether ``tensor`` is a parameter or buffer without a shape yet."""
    return isinstance(tensor, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc]
    """A parameter without a shape yet, as lazy modules have them.

    ``materialize(shape)`` makes it an ordinary one, with undefined elements; asking for shape or
    elements before is an error.

    Args:
        requires_grad: whether gradients are accumulated
        device, dtype: of the tensor that it becomes

    Raises:
        RuntimeError: ``shape`` was asked for before `materialize`.

    Example:
        >>> value = facula.nn.UninitializedParameter()
        >>> value.materialize((2, 3))
        >>> value.shape, type(value).__name__
        (facula.Size([2, 3]), 'Parameter')
    """

    cls_to_become = Parameter

    def __new__(
        cls,
        requires_grad: bool = True,
        device: core.device | str | int | None = None,
        dtype: core.dtype | None = None,
    ) -> Any:
        data = facula.empty(0, device=device, dtype=dtype)
        return core.Tensor._make_subclass(cls, data, requires_grad)

    def __deepcopy__(self, memo: dict) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        copied = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        memo[id(self)] = copied
        return copied


class _MaterializedBuffer(core.Tensor):
    """What an `UninitializedBuffer` turns into; behaves as a plain tensor."""

    __torch_function__ = core._disabled_torch_function_impl


class UninitializedBuffer(UninitializedTensorMixin, core.Tensor):
    """A buffer without a shape yet, as lazy modules have them.

    ``materialize(shape)`` makes it an ordinary one, with undefined elements; asking for shape or
    elements before is an error.

    Args:
        requires_grad: whether gradients are accumulated
        device, dtype: of the tensor that it becomes
        persistent: whether ``state_dict`` holds it

    Raises:
        RuntimeError: ``shape`` was asked for before `materialize`.

    Example:
        >>> value = facula.nn.UninitializedBuffer()
        >>> value.materialize((2, 3))
        >>> value.shape, type(value).__name__
        (facula.Size([2, 3]), '_MaterializedBuffer')
    """

    cls_to_become = _MaterializedBuffer

    def __new__(
        cls,
        requires_grad: bool = False,
        device: core.device | str | int | None = None,
        dtype: core.dtype | None = None,
        persistent: bool = True,
    ) -> Any:
        data = facula.empty(0, device=device, dtype=dtype)
        tensor = core.Tensor._make_subclass(cls, data, requires_grad)
        tensor.persistent = persistent
        tensor._is_buffer = True
        return tensor
