"""Calling a module with other tensors in place of its own.

Takes a module, tensors by dotted name, and the arguments of a call.  Gives the call's result.
Keeps true: the module's own tensors are back afterwards, whatever happened; what the call stored
under the given names (running statistics, say) goes to the given dictionary.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from facula import core
from facula.core.errors import fail

if TYPE_CHECKING:
    from facula.nn.modules.module import Module


__all__ = ["functional_call"]

#: what stood under a name that the module does not have
_ABSENT = object()


def _tied_groups(module: Module) -> list[set[str]]:
    """Sets of names that stand for one and the same tensor."""
    groups: dict[int, set[str]] = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        stem = prefix + "." if prefix else ""
        for entries in (part._parameters, part._buffers):
            for name, tensor in entries.items():
                if tensor is not None:
                    groups.setdefault(id(tensor), set()).add(stem + name)
    return [names for names in groups.values() if len(names) > 1]


def _untie(module: Module, given: dict[str, Any]) -> dict[str, Any]:
    """``given`` with every name that is tied to a given one."""
    full = dict(given)
    for names in _tied_groups(module):
        values = [given[name] for name in sorted(names) if name in given]
        if any(v is not values[0] for v in values):
            fail(
                ValueError,
                "functional_call",
                f"one value for the tied tensors {sorted(names)}",
                got="several",
                hint="give one of the names only, or pass tie_weights=False",
            )
        for name in names if values else ():
            full.setdefault(name, values[0])
    return full


def _place(module: Module, name: str, cache: dict[str, Any]) -> tuple[dict, str] | None:
    """The dictionary that holds a dotted name, and the key in it."""
    path, _, leaf = name.rpartition(".")
    if path not in cache:
        try:
            cache[path] = module.get_submodule(path)
        except AttributeError:
            cache[path] = None
    owner = cache[path]
    if owner is None:
        return None
    for entries in (owner._parameters, owner._buffers):
        if leaf in entries:
            return entries, leaf
    return (
        owner._buffers,
        leaf,
    )  # a name that the module does not have: a buffer as long as the call lasts


def _check_names(
    module: Module, full: dict[str, Any], places: dict[str, Any], strict: bool
) -> None:
    """Raise for names that have no place, for values that are no tensors, and where all are asked for and some lack."""
    unexpected = [
        name
        for name, place in places.items()
        if place is None or (strict and place[1] not in place[0])
    ]
    everything = {
        *dict(module.named_parameters(remove_duplicate=False)),
        *dict(module.named_buffers(remove_duplicate=False)),
    }
    missing = sorted(everything - full.keys()) if strict else []
    if unexpected or missing:
        found = [("Unexpected", sorted(unexpected)), ("Missing", missing)]
        lists = [f"{word} key(s): {', '.join(map(repr, names))}." for word, names in found if names]
        fail(
            RuntimeError if strict else AttributeError,
            "functional_call",
            "a value for every parameter and buffer"
            if strict
            else "names of the module's parameters and buffers",
            got=f"Error(s) in reparametrizing for {type(module).__name__}: {' '.join(lists)}",
            hint="module.named_parameters() and module.named_buffers() list the names",
        )
    for value in full.values():
        if value is not None and not isinstance(value, core.Tensor):
            fail(
                TypeError,
                "functional_call",
                "tensors for the names",
                got=f"{value!r} is not an instance of facula.Tensor",
                hint="facula.as_tensor(value) makes one",
            )


@contextlib.contextmanager
def _swapped(
    module: Module, given: dict[str, Any], tie_weights: bool, strict: bool
) -> Iterator[None]:
    full = _untie(module, given) if tie_weights else dict(given)
    cache: dict[str, Any] = {"": module}
    places = {name: _place(module, name, cache) for name in full}
    _check_names(module, full, places, strict)
    saved = {}
    try:
        for name, value in full.items():
            entries, leaf = places[name]  # type: ignore[misc]
            saved[name] = entries.get(leaf, _ABSENT)
            entries[leaf] = value
        yield
    finally:
        # in reverse: a module with several names has one place, which was entered for each of them
        for name, old in reversed(saved.items()):
            entries, leaf = places[name]  # type: ignore[misc]
            if name in given and entries.get(leaf) is not given[name]:
                given[name] = entries[leaf]  # replaced by the call: the caller's dictionary gets it
            if old is _ABSENT:
                del entries[leaf]
            else:
                entries[leaf] = old


@contextlib.contextmanager
def _reparametrize_module(
    module: Module,
    parameters_and_buffers: dict[str, Any],
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> Iterator[None]:
    """A block in which a module has other tensors in place of its own."""
    with _swapped(module, parameters_and_buffers, tie_weights, strict):
        yield


def call_with(
    module: Module,
    tensors: dict[str, Any],
    args: object,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call ``module`` with ``tensors`` in place of its own."""
    if kwargs is None:
        kwargs = {}
    elif not isinstance(kwargs, dict):
        fail(
            TypeError,
            "functional_call",
            "kwargs to be a dict",
            got=type(kwargs).__name__,
            hint="for example kwargs={'mask': mask}",
        )
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _swapped(module, tensors, tie_weights, strict):
        return module(*args, **kwargs)


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Any],
    args: object = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls a module with other tensors in place of its own (older name of `func.functional_call`; it
    warns).

    Args:
        module: what is called
        parameters_and_buffers: tensors by dotted name
        args: positional arguments, a tuple or one value
        kwargs: keyword arguments
        tie_weights: whether a tensor that the module has under several names is replaced under all
            of them
        strict: whether every parameter and buffer must be given

    Example:
        >>> import warnings
        >>> layer, tensors = facula.nn.Linear(1, 1, bias=False), {"weight": facula.tensor([[2.0]])}
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", FutureWarning)
        ...     facula.nn.utils.stateless.functional_call(layer, tensors, facula.tensor([3.0]))
        tensor([6.])
    """
    warnings.warn(
        "nn.utils.stateless.functional_call is deprecated: use func.functional_call",
        FutureWarning,
        stacklevel=2,
    )
    return call_with(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
