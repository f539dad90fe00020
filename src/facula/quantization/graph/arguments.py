"""Arguments of functions, as their forms of integers take them.

Takes: nodes that call linear functions, convolutions, norms and activations. Gives: their arguments in the order of the
operators of integers. Keeps true: what a call leaves out has its default.
"""

from __future__ import annotations

from typing import Any

#: norms, and the names of their arguments behind the input
_NORMS: dict[str, tuple[str, ...]] = {
    "layer_norm": ("normalized_shape", "weight", "bias", "eps"),
    "group_norm": ("num_groups", "weight", "bias", "eps"),
    "instance_norm": (
        "running_mean", "running_var", "weight", "bias", "use_input_stats", "momentum", "eps",
    ),
}  # fmt: skip


def arguments(name: str, node: Any) -> list[Any]:
    """Input, weight, bias and what a packed convolution keeps, of a call."""
    names = ["input", "weight", "bias"]
    order: tuple[int, ...] = ()
    fill: dict[str, int] = {}
    if name.startswith("conv_transpose"):
        names += ["stride", "padding", "output_padding", "groups", "dilation"]
        order, fill = (
            (3, 4, 5, 7, 6),
            {"stride": 1, "padding": 0, "output_padding": 0, "groups": 1, "dilation": 1},
        )
    elif name.startswith("conv"):
        names += ["stride", "padding", "dilation", "groups"]
        order, fill = (3, 4, 5, 6), {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}
    values = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
    listed = [values.get(n, fill.get(n)) for n in names]
    return [*listed[:3], *(listed[i] for i in order)]


def spread(values: list[Any], dims: int) -> list[Any]:
    """Geometry as lists; the number of groups, which is last, as it is."""
    lists = [[v] * dims if isinstance(v, int) else list(v) for v in values[:-1]]
    return [*lists, values[-1]]


def own_arguments(low: Any, name: str, node: Any, given: Any, scale: Any, zero: Any) -> Any:
    """Arguments and keywords of a function's form of integers; None where it has none."""
    rest, named_ones = node.args[1:], dict(node.kwargs)
    if name == "matmul":
        other = low.integers(rest[0]) if rest else None
        return None if other is None else ((given, other, scale, zero), {})
    if name == "hardswish":
        return (given, scale, zero), {}
    if name == "dropout":
        return (given, scale, zero, *rest), named_ones
    named_ones.pop("inplace", None)
    if name == "elu":
        alpha = rest[0] if rest else named_ones.get("alpha", 1.0)
        return (given, scale, zero, alpha), {}
    if name == "leaky_relu":
        slope = rest[0] if rest else named_ones.get("negative_slope", 0.01)
        return (given, slope, False, scale, zero), {}
    names = _NORMS[name]
    values = dict(zip(names, rest, strict=False)) | named_ones
    weight, bias, eps = values.get("weight"), values.get("bias"), values.get("eps", 1e-5)
    if name == "instance_norm":
        return (given, weight, bias, eps, scale, zero), {}
    return (given, values[names[0]], weight, bias, eps, scale, zero), {}
