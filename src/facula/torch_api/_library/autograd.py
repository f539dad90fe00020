"""Functions of lists of tensors with gradients of their own.

Takes: subclasses of `autograd.Function`. Gives: `supports_tensorlist`.
Keeps true: an argument or a result that is a list of tensors is one in `forward` and `backward`, and each of its
tensors has a history; what asks for a gradient is told list by list.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.autograd.function import Function
from facula.core.errors import fail
from facula.fx import _pytree as pytree

__all__ = ["supports_tensorlist"]


def _is_tensor(x: object) -> bool:
    return isinstance(x, core.Tensor)


class _Context:
    """What `forward` and `backward` are given: the context, with needs told in the form of the arguments."""

    def __init__(self, ctx: Any) -> None:
        object.__setattr__(self, "_ctx", ctx)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._ctx, name)
        if name != "needs_input_grad":
            return found
        return pytree.tree_unflatten(list(found[2:]), self._ctx._given)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._ctx, name, value)


def _refused(name: str) -> Any:
    def refuse(*args: object) -> Any:
        return fail(
            NotImplementedError,
            f"Function.{name}",
            f"a call of apply was required: a function of lists has no Function.{name} directly",
            hint="Class.apply(...) runs it, and backward() its gradient",
        )

    return staticmethod(refuse)


def supports_tensorlist(cls: Any) -> Any:
    """A decorator: arguments and results of the function may be lists of tensors.

    Args:
        cls: a subclass of `autograd.Function`, of the older form, in which `forward` takes the context

    Example:
        >>> from facula._library.autograd import supports_tensorlist
        >>> @supports_tensorlist
        ... class Total(facula.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, xs):
        ...         ctx.count = len(xs)
        ...         return facula.stack(xs).sum()
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return [grad] * ctx.count
        >>> xs = [facula.ones(2, requires_grad=True), facula.ones(2, requires_grad=True)]
        >>> Total.apply(xs).backward()
        >>> xs[1].grad
        tensor([1., 1.])
    """
    own_forward, own_backward = cls.forward, cls.backward

    def forward(ctx: Any, spec: Any, box: list[Any], *flat: Any) -> Any:
        ctx._given = spec
        found = own_forward(_Context(ctx), *pytree.tree_unflatten(list(flat), spec))
        leaves, ctx._found = pytree.tree_flatten(found)
        box.append(ctx._found)
        return tuple(leaves)

    def backward(ctx: Any, *grads: Any) -> Any:
        found = own_backward(
            _Context(ctx), *_as_arguments(pytree.tree_unflatten(list(grads), ctx._found))
        )
        found = found if isinstance(found, tuple) else (found,)
        return (None, None, *_spread(cls.__name__, found, ctx._given))

    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    inner: Any = type(cls.__name__, (Function,), methods)

    def apply(*args: Any) -> Any:
        flat, spec = pytree.tree_flatten(args)
        box: list[Any] = []
        found = inner.apply(spec, box, *flat)
        return pytree.tree_unflatten(list(found), box[0])

    cls.apply = staticmethod(apply)
    cls.forward, cls.backward = _refused("forward"), _refused("backward")
    return cls


def _as_arguments(grads: Any) -> tuple[Any, ...]:
    """Gradients of several results are several arguments; those of one list are one."""
    return grads if isinstance(grads, tuple) else (grads,)


def _spread(name: str, found: tuple[Any, ...], given: Any) -> list[Any]:
    """One gradient for each leaf of the arguments."""
    kinds = given.children_specs
    if len(found) != len(kinds):
        fail(
            RuntimeError,
            name,
            f"{len(kinds)} gradients were required of backward",
            len(found),
            hint="None for arguments without a gradient, a list for a list",
        )
    flat: list[Any] = []
    for grad, kind in zip(found, kinds, strict=True):
        single = isinstance(kind, pytree.LeafSpec)
        count = 1 if single else kind.num_leaves
        parts = [grad] if single else [None] * count if grad is None else list(grad)
        if len(parts) != count:
            fail(
                RuntimeError,
                name,
                f"a list of {count} gradients was required for a list of {count} tensors",
                len(parts),
                hint="None for tensors without a gradient",
            )
        flat += parts
    return flat
