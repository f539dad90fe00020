"""Modules of an exported program changed for others.

Takes: an exported program and modules by path. Gives: `_swap_modules`.
Keeps true: a module gets the arguments, nested as they were, that the one in its place got.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from facula import nn
from facula.core.errors import fail
from facula.export.exported_program import ExportedProgram
from facula.export.unflatten import UnflattenedModule, unflatten

__all__: list[str] = []


def _swap_modules(
    ep: ExportedProgram, modules_to_swap: Mapping[str, nn.Module]
) -> UnflattenedModule:
    """An exported program as a module, with others in the place of some of its modules.

    Args:
        ep: the program, exported with `preserve_module_call_signature` of these modules
        modules_to_swap: path -> module

    Raises:
        RuntimeError: what a module of a path was called with was not kept.
    """
    kept = {e.fqn.partition("@")[0] for e in ep.module_call_graph if e.signature is not None}
    tree = unflatten(ep)
    inner = dict(tree.named_modules())
    for path, module in modules_to_swap.items():
        if path not in kept or not path:
            fail(RuntimeError, "swap", "modules whose signature was kept were required", repr(path),
                 hint="export(..., preserve_module_call_signature=(path,))")  # fmt: skip
        again = re.compile(re.escape(path) + r"(@\d+)?")
        for name in filter(again.fullmatch, inner):
            tree.set_submodule(name, module)
    tree.train(ep.training)
    return tree
