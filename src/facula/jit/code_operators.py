"""How nodes of operators are written in PyTorch's files.

Takes a node and the texts of its inputs. Gives the call.
Keeps true: defaults at the end are left out and keyword-only arguments are named, so that PyTorch's schema
takes the call; an operator of the library that is another one in PyTorch is written as that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.jit.builder import constant_of
from facula.jit.ir import Node
from facula.ops.table.registry import PLACES, TABLE
from facula.ops.table.schema import REQUIRED

__all__ = ["operator_text"]

Arguments = dict[str, str]
#: operators that Python has a name for
_PYTHON = {"aten::Int": "int", "aten::Float": "float", "aten::Bool": "bool", "aten::str": "str"}

#: operators that PyTorch has by another name, with the same arguments
_RENAMED = {"prim::is_leaf": "aten::is_leaf", "aten::nll_loss": "aten::nll_loss_nd"}


def operator_text(node: Node, given: list[str]) -> str:
    """The call of an operator."""
    if node.kind_ in _PYTHON and len(given) == 1:
        return f"{_PYTHON[node.kind_]}({given[0]})"
    space, _, name = _RENAMED.get(node.kind_, node.kind_).partition("::")
    head = f"torch.{name}" if space == "aten" else f"ops.{space}.{name}"
    signature = node.signature
    if signature is None:
        return f"{head}({', '.join(given)})"
    # a node that a pass made may leave defaults at its end out
    values = dict(zip((p.name for p in signature.parameters), given, strict=False))
    if not isinstance(signature.source, str) and space == "aten":
        spelled = _spelled(node, signature, values)
        if spelled is not None:
            return spelled
    return f"{head}({', '.join(_arguments(node, signature, values))})"


def _arguments(node: Node, signature: Any, values: Arguments) -> list[str]:
    """Positional arguments without defaults at the end, then named ones."""
    positional: list[tuple[str, bool]] = []
    named: list[str] = []
    for p, value in zip(signature.parameters, node.inputs_, strict=False):
        # PyTorch's norms have no default for the flag of cuDNN
        is_default = (
            p.default is not REQUIRED and _is(value, p.default) and p.name != "cudnn_enabled"
        )
        text = values[p.name]
        if text == "None" and p.length and p.type.kind == "Optional" and p.type.item.kind == "List":
            text = f"annotate({p.type.item.annotation_str}, [])" if p.name == "stride" else text
        if p.keyword_only:
            if not is_default:
                named.append(f"{p.name}={text}")
        else:
            positional.append((text, is_default))
    while positional and positional[-1][1]:
        positional.pop()
    return [text for text, _ in positional] + named


def _is(value: Any, default: Any) -> bool:
    known, constant = constant_of(value)
    if isinstance(default, list) and value.node.kind_ == "prim::ListConstruct":
        items = [constant_of(v) for v in value.node.inputs_]
        return all(k for k, _ in items) and [c for _, c in items] == default
    return known and type(constant) is type(default) and constant == default


def _spelled(node: Node, signature: Any, values: Arguments) -> str | None:
    """The spelling of an operator of the library whose name or arguments differ in PyTorch."""
    definition = signature.source.definition
    public = definition.public_name
    written = isinstance(signature.source, core.InplaceOp)
    if written:
        return None
    rule = _RULES.get(public) if definition.public_module.endswith("functional") else None
    if rule is not None:
        return rule(node, values)
    same = core.operator_of(PLACES[""].get(public)) or TABLE.get(public)
    names = [p.name for p in signature.parameters]
    if "inplace" in names:
        known, inplace = constant_of(node.inputs_[names.index("inplace")])
        if not known:
            return fail(RuntimeError, "jit.save", "a constant `inplace` was required", public,
                        hint="write the function out")  # fmt: skip
        rest = [values[n] for n in names if n != "inplace"]
        return f"torch.{public}{'_' if inplace else ''}({', '.join(rest)})"
    if "return_indices" in names:
        at = names.index("return_indices")
        with_indices = constant_of(node.inputs_[at])[1] is True
        kept = [n for n in names if n != "return_indices"]
        if names[at + 1 :] == ["ceil_mode"]:
            kept = [*names[:at], "ceil_mode"]
        texts = [_stride(n, values, names) for n in kept]
        return f"torch.{public}{'_with_indices' if with_indices else ''}({', '.join(texts)})"
    if any(n.startswith("_") for n in names):  # the library's own arguments
        return f"torch.{public}({', '.join(values[n] for n in names if not n.startswith('_'))})"
    other = same is not signature.source or definition.name != public
    if definition.name.startswith("_functional_") or other:
        space = definition.public_module.rpartition(".")[2]
        public = f"{space}_{public}" if space in ("linalg", "fft", "special") else public
        return f"torch.{public}({', '.join(_arguments(node, signature, values))})"
    return None


def _stride(name: str, values: Arguments, names: list[str]) -> str:
    """A stride that was left out is an empty list in PyTorch."""
    return (
        "annotate(List[int], [])" if name == "stride" and values[name] == "None" else values[name]
    )


# ------------------------------------------------------------------ functions of nn.functional

_NUMBERS = {'"none"': "0", '"mean"': "1", '"sum"': "2"}


def _loss(aten: str, order: str) -> Callable[[Node, Arguments], str]:
    def rule(node: Node, values: Arguments) -> str:
        texts = [_NUMBERS.get(values[n], values[n]) for n in order.split()]
        return f"torch.{aten}({', '.join(texts)})"

    return rule


def _norm(aten: str, flag: str) -> Callable[[Node, Arguments], str]:
    """A normalisation by running statistics: PyTorch's has parameters first, and a flag of cuDNN."""
    order = f"input weight bias running_mean running_var {flag} momentum eps".split()
    return lambda node, v: f"torch.{aten}({', '.join(v[n] for n in order)}, True)"


def _embedding(node: Node, v: Arguments) -> str:
    padding = "-1" if v["padding_idx"] == "None" else v["padding_idx"]
    rest = f"{padding}, {v['scale_grad_by_freq']}, {v['sparse']}"
    return f"torch.embedding({v['weight']}, {v['input']}, {rest})"


def _adaptive_max_pool(node: Node, v: Arguments) -> str:
    """PyTorch's operator always gives the positions, too."""
    name = node.signature.source.definition.public_name.removesuffix("_with_indices")
    text = f"torch.{name}({v['input']}, {v['output_size']})"
    return text if len(node.outputs_) == 2 else f"({text})[0]"


def _channels_dropped(node: Node, v: Arguments) -> str:
    """`dropout2d`: PyTorch's operator reads three dimensions as [N, C, L], too."""
    written = "_" if v.get("inplace") == "True" else ""
    return f"torch.feature_dropout{written}({v['input']}, {v['p']}, {v['training']})"


_RULES: dict[str, Callable[[Node, Arguments], str]] = {
    "dropout2d": _channels_dropped,
    **{
        f"adaptive_max_pool{n}d{which}": _adaptive_max_pool
        for n in (1, 2, 3)
        for which in ("", "_with_indices")
    },
    "batch_norm": _norm("batch_norm", "training"),
    "instance_norm": _norm("instance_norm", "use_input_stats"),
    "embedding": _embedding,
    "mse_loss": _loss("mse_loss", "input target reduction"),
    "l1_loss": _loss("l1_loss", "input target reduction"),
    "smooth_l1_loss": _loss("smooth_l1_loss", "input target reduction beta"),
    "cross_entropy": _loss(
        "cross_entropy_loss", "input target weight reduction ignore_index label_smoothing"
    ),
}
