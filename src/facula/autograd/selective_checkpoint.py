"""Selective checkpointing: which operators' results are kept, and which are computed again.

Takes a list of operators, or a policy.  Gives the two contexts that `checkpoint` enters around its
first and its second run.
Keeps true: the second run gets what the first kept, operator by operator and call by call.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail

__all__ = ["CheckpointPolicy", "SelectiveCheckpointContext", "create_selective_checkpoint_contexts"]

#: what to do where the second computation is another one than the first
ALIKE = (
    "the function must compute the same on both runs: look for state that it changes, or "
    "that depends on time"
)

#: what no policy is asked about: it computes nothing, and the checkpoint itself calls it on the second run
_UNASKED = "aten::detach"


class CheckpointPolicy(enum.Enum):
    """What becomes of an operator's result in a selective checkpoint.

    ``MUST_SAVE`` and ``PREFER_SAVE`` keep it, ``MUST_RECOMPUTE`` and ``PREFER_RECOMPUTE`` do not; a
    compiler may depart from what is only preferred.

    Example:
        >>> facula.utils.checkpoint.CheckpointPolicy.MUST_SAVE.name
        'MUST_SAVE'
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


class SelectiveCheckpointContext:
    """What a policy function is told about a call.

    Args:
        is_recompute: whether it is the second run
        op_output: the result, where it is known

    Example:
        >>> facula.utils.checkpoint.SelectiveCheckpointContext(is_recompute=False).is_recompute
        False
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


class _PolicyMode:
    """A dispatch mode that keeps the results of some operators, or gives back what was kept."""

    def __init__(self, policy: Callable, storage: dict, replay: bool, allow_mutation: bool) -> None:
        self.policy = policy
        self.storage = storage
        self.replay = replay
        self.allow_mutation = allow_mutation

    def __enter__(self) -> _PolicyMode:
        core.push_dispatch_mode(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        core.pop_dispatch_mode()

    def _kept(
        self, func: Callable[..., Any], args: tuple, kwargs: dict, out: object = None
    ) -> bool:
        context = SelectiveCheckpointContext(is_recompute=self.replay, op_output=out)
        decision = self.policy(context, func, *args, **kwargs)
        if isinstance(decision, bool):
            decision = CheckpointPolicy.MUST_SAVE if decision else CheckpointPolicy.PREFER_RECOMPUTE
        return decision in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.name() == _UNASKED:
            return func(*args, **kwargs)
        if not self.replay:
            out = func(*args, **kwargs)
            if self._kept(func, args, kwargs, out):
                self.storage[func].append(_Kept(out))
            return out
        if not self._kept(func, args, kwargs):
            return func(*args, **kwargs)
        queue = self.storage.get(func)
        if not queue:
            fail(
                RuntimeError,
                "checkpoint",
                f"a kept result of {func} was required",
                got="none; the second computation calls it more often than the first",
                hint=ALIKE,
            )
        return queue.pop(0).get(self.allow_mutation)


class _Kept:
    """A kept result with the versions it had."""

    def __init__(self, value: Any) -> None:
        many = isinstance(value, (tuple, list))
        parts = list(value) if many else [value]
        self.kind = type(value) if many else None
        self.parts = [p.detach() if isinstance(p, core.Tensor) else p for p in parts]
        self.versions = [p._version if isinstance(p, core.Tensor) else None for p in self.parts]

    def get(self, allow_mutation: bool) -> Any:
        """The result; raises where it was changed since."""
        for part, version in zip(self.parts, self.versions, strict=True):
            if version is not None and part._version != version and not allow_mutation:
                fail(
                    RuntimeError,
                    "checkpoint",
                    "Tensor cached during selective activation checkpoint has been mutated",
                    hint="allow_cache_entry_mutation=True permits it; x.clone() keeps the first value",
                )
        return self.parts[0] if self.kind is None else self.kind(self.parts)


def create_selective_checkpoint_contexts(
    policy_fn_or_list: object, allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """Contexts for ``context_fn`` of `checkpoint` that keep the results of some operators.

    Args:
        policy_fn_or_list: a list of operators; or ``f(context, operator, *args, **kwargs)`` that
            gives a `CheckpointPolicy`
        allow_cache_entry_mutation: whether what was kept may have been changed in place

    Example:
        >>> import functools
        >>> contexts = facula.utils.checkpoint.create_selective_checkpoint_contexts
        >>> kept = functools.partial(contexts, [facula.ops.aten.mm.default])
        >>> x = facula.eye(2).requires_grad_()
        >>> settings = {"use_reentrant": False, "context_fn": kept}
        >>> y = facula.utils.checkpoint.checkpoint(lambda x: (x @ x).exp(), x, **settings)
        >>> y.sum().backward()
        >>> x.grad
        tensor([[5.4366, 2.0000],
                [2.0000, 5.4366]])
    """
    if isinstance(policy_fn_or_list, list):
        chosen = set(policy_fn_or_list)

        def policy(
            context: object, op: object, *args: object, **kwargs: object
        ) -> CheckpointPolicy:
            keep = op in chosen
            return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        fail(
            TypeError,
            "create_selective_checkpoint_contexts",
            "policy_fn_or_list must be either a function or a list of ops.",
            hint="a list such as [facula.ops.aten.mm.default] names what is kept",
        )
    storage: dict[Any, list] = defaultdict(list)
    return (
        _PolicyMode(policy, storage, False, allow_cache_entry_mutation),
        _PolicyMode(policy, storage, True, allow_cache_entry_mutation),
    )
