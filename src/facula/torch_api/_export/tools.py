"""`facula._export.tools`: which parts of a module can be exported.

Takes: a module and example arguments. Gives: `report_exportability`.
Keeps true: a part is asked about only where what holds it cannot be exported, so that the report names causes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core, nn
from facula.export import export

__all__ = ["report_exportability"]


def _calls(
    mod: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    """The arguments of each submodule's first call, by its path."""
    seen: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}

    def noting(path: str) -> Callable[..., None]:
        def note(_: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            seen.setdefault(path, (given, named))

        return note

    handles = [
        part.register_forward_pre_hook(noting(path), with_kwargs=True)
        for path, part in mod.named_modules()
        if path
    ]
    recording = core.set_grad_enabled(False)
    try:
        mod(*args, **kwargs)
    finally:
        core.set_grad_enabled(recording)
        for handle in handles:
            handle.remove()
    return seen


def report_exportability(
    mod: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    strict: bool = True,
    pre_dispatch: bool = False,
) -> dict[str, Exception | None]:
    """Tells which submodules can be exported, and why others cannot.

    Args:
        mod: the module.
        args, kwargs: example arguments; the module runs on them once, which gives those of its submodules.
        strict: whether bytecode is captured first, as for `export.export`.
        pre_dispatch: taken for PyTorch's sake: programs hold operators as they are called.

    Returns:
        from the paths of modules (`""` is the whole) to the error, or None where there is none. The parts of a module
        that can be exported are left out, and so are those that were not called.

    Example:
        >>> from facula._export.tools import report_exportability
        >>> report_exportability(facula.nn.Linear(2, 2), (facula.ones(1, 2),))
        {'': None}
    """
    given = {"": (args, kwargs or {})}
    report: dict[str, Exception | None] = {}
    ask = [""]
    while ask:
        path = ask.pop()
        part = mod.get_submodule(path)
        try:
            export(part, *given[path], strict=strict)
            report[path] = None
            continue
        except Exception as error:  # whatever it is, it is what is asked for
            report[path] = error
        if not path:
            given.update(_calls(mod, args, kwargs or {}))
        inner = [f"{path}.{name}".lstrip(".") for name, _ in part.named_children()]
        # a list of layers is not called itself
        ask += _called(mod, inner, given)
    return report


def _called(mod: nn.Module, paths: list[str], given: dict[str, Any]) -> list[str]:
    """The paths that were called, those of lists replaced by what they hold."""
    found: list[str] = []
    for path in paths:
        if path in given:
            found.append(path)
        else:
            inner = [f"{path}.{name}" for name, _ in mod.get_submodule(path).named_children()]
            found += _called(mod, inner, given)
    return found
