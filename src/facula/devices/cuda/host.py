"""Operators that a CUDA device has no kernel for: they run on the processor, and everybody can see it.

Takes: an operator and its arguments. Gives: `Host`, which runs it, counts it, and says so once, or refuses.
Keeps true: results are on the device again; nothing is silent unless it was asked to be.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

from facula import core
from facula.core.errors import fail, message
from facula.core.nested import mapped

__all__ = ["Host", "HostFallbackWarning"]

MODES = ("warn", "allow", "error")


class HostFallbackWarning(UserWarning):
    """An operator runs on the processor, since the device has no kernel for it."""


class Host:
    """The processor in the place of a device.

    `mode` says what happens: `warn` (once for each operator), `allow` or `error`; `calls` counts calls by operator.
    """

    def __init__(self, name: str) -> None:
        self.name, self.mode = name, "warn"
        self.calls: Counter[str] = Counter()

    def set_mode(self, mode: str) -> None:
        """Choose what happens where there is no kernel.

        Raises:
            ValueError: it is no such word.
        """
        if mode not in MODES:
            required = f"one of {', '.join(MODES)} was required"
            hint = "'warn' says it once for each operator, 'allow' is silent, 'error' refuses"
            fail(ValueError, "cuda.set_host_fallback", required, repr(mode), hint)
        self.mode = mode

    def run(self, operator: Any, arguments: tuple[Any, ...], device: Any, reason: str) -> Any:
        """An operator's results, computed on the processor and put on the device."""
        name = operator.name
        if self.mode == "error":
            required = f"a kernel for the device '{self.name}' was required"
            hint = "facula.cuda.set_host_fallback('allow') lets the processor compute it"
            fail(NotImplementedError, name, required, f"none ({reason})", hint)
        if self.mode == "warn" and not self.calls[name]:
            text = message(
                name, f"a kernel for the device '{self.name}' was required",
                f"none ({reason}); the processor computes it",
                "facula.cuda.set_host_fallback('allow') is silent, 'error' refuses",
            )  # fmt: skip
            warnings.warn(text, HostFallbackWarning, stacklevel=2)
        self.calls[name] += 1
        here = mapped(arguments, lambda tensor: tensor.detach().cpu(), core.device("cpu"))
        positional, named = operator.definition.trim(here)
        return mapped(operator(*positional, **named), lambda tensor: tensor.detach().to(device))
