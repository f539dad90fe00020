"""A part of a network that ends early, and gives what some of its children computed.

Takes: a module whose children are called one after the other, and `{child: name of its output}`.
Gives: a module with those children under their own names. Keeps true: children that nobody asks for are gone.
"""

from __future__ import annotations

from typing import Any

from facula import core, nn
from facula.core.errors import fail

__all__ = ["IntermediateLayerGetter"]


class IntermediateLayerGetter(nn.ModuleDict):
    """The children up to the last that is asked for; gives a dictionary of their outputs."""

    def __init__(self, model: nn.Module, return_layers: dict[str, str]) -> None:
        wanted = {str(child): str(name) for child, name in return_layers.items()}
        children = dict(model.named_children())
        missing = sorted(set(wanted) - set(children))
        if missing:
            hint = f"its children are {', '.join(children)}"
            required = (
                "children of the model were required (return_layers are not present in model)"
            )
            fail(ValueError, "IntermediateLayerGetter", required, missing, hint=hint)
        last = max(list(children).index(name) for name in wanted)
        super().__init__(dict(list(children.items())[: last + 1]))
        self.return_layers = wanted

    def forward(self, x: core.Tensor) -> dict[str, Any]:
        found = {}
        for name, module in self.items():
            x = module(x)
            if name in self.return_layers:
                found[self.return_layers[name]] = x
        return found
