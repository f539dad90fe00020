"""`torch._export.converter`: scripted and traced modules as exported programs.

Takes: a module of `jit`, and example arguments. Gives: `TS2EPConverter`.
Keeps true: the program computes what the module does for the arguments; its parameters have their names.
"""

from __future__ import annotations

from typing import Any

from facula import nn
from facula.export.api import export
from facula.export.exported_program import ExportedProgram

__all__ = ["TS2EPConverter"]


class TS2EPConverter:
    """Makes an exported program of a scripted or traced module.

    Args:
        ts_model: the module, or a scripted function
        sample_args, sample_kwargs: example arguments

    Example:
        >>> scripted = facula.jit.trace(facula.nn.Linear(2, 1), facula.ones(1, 2))
        >>> from facula._export.converter import TS2EPConverter
        >>> program = TS2EPConverter(scripted, (facula.ones(1, 2),)).convert()
        >>> program.module()(facula.ones(1, 2)).shape
        facula.Size([1, 1])
    """

    def __init__(
        self,
        ts_model: Any,
        sample_args: tuple[Any, ...],
        sample_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.ts_model = ts_model
        self.sample_args, self.sample_kwargs = sample_args, sample_kwargs

    def convert(self) -> ExportedProgram:
        """The exported program."""
        return export(_Calls(self.ts_model), self.sample_args, self.sample_kwargs)


class _Calls(nn.Module):
    """A module around a scripted one, whose parameters and buffers it has as its own."""

    def __init__(self, scripted: Any) -> None:
        super().__init__()
        object.__setattr__(self, "_scripted", scripted)
        if isinstance(scripted, nn.Module):
            self._parameters.update(scripted._parameters)
            self._buffers.update(scripted._buffers)
            self._modules.update(scripted._modules)
            self.training = scripted.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the scripted one gives."""
        return self._scripted(*args, **kwargs)
