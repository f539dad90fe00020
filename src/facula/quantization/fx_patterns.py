"""What nodes of a graph are to quantization.

Takes: nodes of a traced model. Gives: the word of what they call, and the kind of it: `weighted` layers,
`arithmetic`, `own`
(functions whose results have parameters of their own), `shared` (results with the input's parameters). Keeps true: what
has no kind stays in float.
"""

from __future__ import annotations

from typing import Any

import facula.nn as nn
from facula.quantization import eager
from facula.quantization.calls import FIXED, FIXED_MODULES, modules_of, named
from facula.quantization.modules import intrinsic as nni
from facula.quantization.modules import qat as nnqat
from facula.quantization.modules import quantized as nnq

WEIGHTED = (
    nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d,
    nn.ConvTranspose3d, nni.LinearReLU, nni.ConvReLU1d, nni.ConvReLU2d, nni.ConvReLU3d,
    nni.LinearLeakyReLU, nni.LinearTanh, nnqat._Weighted,
)  # fmt: skip
#: functions and methods by their words
ARITHMETIC = named("fx", "arithmetic")
OWN = named("fx", "own")
#: two of the methods of tensors have no definitions
SHARED = named("fx", "shared") | {"getitem", "contiguous"}
#: modules that have an integer form with parameters of its own: those of such functions, and some that functions lack
OWN_MODULES = (
    *modules_of(OWN), nn.BatchNorm2d, nn.BatchNorm3d, nni.BNReLU2d, nni.BNReLU3d, nn.PReLU, nn.Sigmoid,
)  # fmt: skip
SHARED_MODULES = (*modules_of(SHARED), nn.Identity, nn.Upsample, nn.ChannelShuffle)


def word(node: Any, modules: dict[str, Any]) -> str:
    """The name of the function or method that a node calls; of a module, that of its class."""
    if node.op == "call_module":
        return type(modules[node.target]).__name__
    if node.op == "call_method":
        return str(node.target).rstrip("_") if node.target != "__getitem__" else "getitem"
    name = getattr(node.target, "__name__", str(node.target)).rpartition("::")[2]
    return {"iadd": "add", "imul": "mul", "concat": "cat"}.get(name, name.rstrip("_"))


def kind(node: Any, modules: dict[str, Any]) -> str:
    """What a node is to quantization; "" where it stays in float."""
    if node.op == "call_module":
        return _kind_of_module(modules[node.target])
    if node.op not in ("call_function", "call_method"):
        return ""
    name = word(node, modules)
    if name in ARITHMETIC:
        return "arithmetic" if _takes_tensors(node, name) else ""
    if name in OWN:
        return "own"
    if name in FIXED:
        return "fixed"
    return "shared" if name in SHARED else ""


def _kind_of_module(module: nn.Module) -> str:
    own = type(module)
    if isinstance(module, nnqat._Weighted) or own in WEIGHTED:
        return "weighted"
    if own in OWN_MODULES:
        return "own"
    if own in FIXED_MODULES:
        return "fixed"
    return "shared" if own in SHARED_MODULES else ""


def _takes_tensors(node: Any, name: str) -> bool:
    if name == "cat":
        return True
    return len(node.args) > 1 and all(hasattr(a, "op") for a in node.args[:2])


def is_relu(node: Any, modules: dict[str, Any]) -> bool:
    """Whether a node is relu, in any of its forms."""
    if node.op == "call_module":
        return type(modules[node.target]) is nn.ReLU
    return node.op in ("call_function", "call_method") and word(node, modules) == "relu"


#: what graphs give classes of integers, and eager mode computes with its own operators
_MORE_TARGETS: dict[Any, Any] = {nn.Sigmoid: nnq.Sigmoid, nn.Softmax: nnq.Softmax}


def target_of(module: nn.Module) -> Any:
    """The class of integers for a module."""
    kind = type(module)
    return eager.DEFAULT_STATIC_QUANT_MODULE_MAPPINGS.get(kind, _MORE_TARGETS.get(kind))
