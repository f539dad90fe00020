"""`facula.utils.deterministic`: whether unset memory is filled in deterministic mode.

Takes: `fill_uninitialized_memory = mode`. Gives: the mode. Keeps true: under
`use_deterministic_algorithms(True)`, and only there, what `empty`, `empty_like`, `empty_strided`,
`empty_permuted` and a growing `resize_` leave unset holds NaN, the largest integer or True.
"""

from __future__ import annotations

import sys
from types import ModuleType

from facula.namespaces.switches import fill_unset_memory


class _Deterministic(ModuleType):
    """A module with a setting among its names."""

    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether unset memory is filled in deterministic mode."""
        return fill_unset_memory()

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        fill_unset_memory(mode)


sys.modules[__name__].__class__ = _Deterministic
