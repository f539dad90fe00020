"""What a backend needs of layers, beside their calls.

Takes: a graph module. Gives: `node.attrs_for_lowering` of calls of known layers.
Keeps true: only what the table names is read; a layer of another version than the table knows is an error.
"""

from __future__ import annotations

from typing import Any

from facula import nn
from facula.core.errors import fail
from facula.fx import names
from facula.fx.graph_module import GraphModule

__all__ = ["default_matching", "extract_attrs_for_lowering", "lift_lowering_attrs_to_nodes"]


def default_matching(name: str, target_version: int) -> str:
    """The name of an attribute in a version of a layer: always its own.

    Args:
        name: the attribute.
        target_version: the version.

    >>> from facula.fx.passes.param_fetch import default_matching
    >>> default_matching("weight", 1)
    'weight'
    """
    return name


_CONVOLUTION = "weight bias kernel_size stride padding dilation groups padding_mode".split()
_NORM = ["weight", "bias", "running_mean", "running_var", "eps"]
#: of a class: its version, the attributes, and what names them in another version
module_fetch_book: dict[type, tuple[int, list[str], Any]] = {
    nn.Linear: (1, ["weight", "bias"], default_matching),
    nn.Conv2d: (1, _CONVOLUTION, default_matching),
    nn.BatchNorm2d: (2, _NORM, default_matching),
    nn.AdaptiveAvgPool2d: (1, [], default_matching),
    nn.MaxPool2d: (
        1,
        "kernel_size stride padding dilation return_indices ceil_mode".split(),
        default_matching,
    ),
    nn.ReLU: (1, ["inplace"], default_matching),
}


def extract_attrs_for_lowering(mod: nn.Module) -> dict[str, Any]:
    """The name of a layer's class, and its attributes that a backend needs.

    Args:
        mod: a layer of a class in `module_fetch_book`.

    >>> from facula.fx.passes.param_fetch import extract_attrs_for_lowering
    >>> extract_attrs_for_lowering(facula.nn.ReLU())
    {'name': 'facula.nn.modules.activation.ReLU', 'inplace': False}
    """
    found: dict[str, Any] = {
        "name": f"{names.public_module(type(mod).__module__)}.{type(mod).__name__}"
    }
    if type(mod) not in module_fetch_book:
        return found
    version, attributes, matching = module_fetch_book[type(mod)]
    if version < mod._version:
        fail(
            RuntimeError,
            "extract_attrs_for_lowering",
            f"{type(mod).__name__} of version {version}",
            mod._version,
            hint="put the attributes of this version into module_fetch_book",
        )
    found.update({name: getattr(mod, matching(name, mod._version)) for name in attributes})
    return found


def lift_lowering_attrs_to_nodes(fx_module: GraphModule) -> None:
    """Puts what a backend needs of layers on the nodes that call them, inner graphs included.

    Args:
        fx_module: the module.

    >>> from facula.fx.passes.param_fetch import lift_lowering_attrs_to_nodes
    >>> traced = facula.fx.symbolic_trace(facula.nn.Sequential(facula.nn.Linear(2, 2)))
    >>> lift_lowering_attrs_to_nodes(traced)
    >>> sorted(list(traced.graph.nodes)[1].attrs_for_lowering)
    ['bias', 'name', 'weight']
    """
    modules = dict(fx_module.named_modules())
    for node in fx_module.graph.nodes:
        if node.op != "call_module":
            continue
        called = modules[str(node.target)]
        if isinstance(called, GraphModule):
            lift_lowering_attrs_to_nodes(called)
        else:
            node.attrs_for_lowering = extract_attrs_for_lowering(called)
