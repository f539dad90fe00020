"""Equalization of layers that follow each other, and correction of biases, before and after quantization.

Takes: float models with layers by name, quantized models with inputs. Gives: the same models with other weights:
channels of two layers with equal ranges, biases without the mean error of rounding. Keeps true: equalized models
compute what they computed, since what is taken from one layer is given to the next. [Nagel et al. 2019]
"""

from __future__ import annotations

import copy
from typing import Any

import facula.nn as nn
from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F
from facula.quantization import numeric_suite
from facula.quantization.create import dequantize
from facula.quantization.modules import intrinsic as nni
from facula.quantization.modules import quantized as nnq

__all__ = [
    "MeanShadowLogger",
    "bias_correction",
    "channel_range",
    "converged",
    "cross_layer_equalization",
    "equalize",
    "get_module",
    "get_param",
    "parent_child_names",
]

_supported_modules = {nn.Linear, nn.Conv2d}
_supported_modules_quantized = {nnq.Linear, nnq.Conv2d}
_supported_types = {nn.Conv2d, nn.Linear, nn.Conv1d, nni.ConvReLU2d, nni.LinearReLU, nni.ConvReLU1d}
_supported_intrinsic_types = {nni.ConvReLU2d, nni.LinearReLU, nni.ConvReLU1d}


def parent_child_names(name: str) -> tuple[str, str]:
    """The name of the module around one, and its own in that."""
    parent, _, own = name.rpartition(".")
    return parent, own


def get_module(model: nn.Module, name: str) -> nn.Module:
    """The module of a name."""
    return dict(model.named_modules())[name]


def get_param(module: Any, attr: str) -> Any:
    """Weight or bias of a layer, which a quantized one has as a method."""
    found = getattr(module, attr, None)
    return found() if callable(found) else found


# ------------------------------------------------------------------ equalization


def channel_range(input: core.Tensor, axis: int = 0) -> Any:
    """The difference of the largest and the least element of each channel.

    Args:
        input: the tensor
        axis: the dimension of the channels

    Example:
        >>> from facula.quantization.equalization import channel_range
        >>> channel_range(facula.tensor([[1.0, 4.0], [2.0, 2.5]]))
        tensor([3.0000, 0.5000])
    """
    rows = input.detach().movedim(axis, 0).reshape(input.shape[axis], -1)
    return rows.amax(1) - rows.amin(1)


def cross_layer_equalization(
    module1: nn.Module, module2: nn.Module, output_axis: int = 0, input_axis: int = 1
) -> None:
    """Gives the results of one layer and the inputs of the next equal ranges, channel by channel.

    Args:
        module1: the first layer
        module2: the one that takes its results
        output_axis: the dimension of the results' channels in the first weight
        input_axis: that of the inputs' channels in the second

    Raises:
        ValueError: the layers are no linear layers or convolutions, or their channels differ in number.

    Example:
        >>> from facula.quantization.equalization import channel_range, cross_layer_equalization
        >>> first, second = facula.nn.Linear(2, 3), facula.nn.Linear(3, 2)
        >>> cross_layer_equalization(first, second)
        >>> facula.allclose(channel_range(first.weight), channel_range(second.weight, 1))
        True
    """
    one, two = (_layer(m) for m in (module1, module2))
    if one.weight.shape[output_axis] != two.weight.shape[input_axis]:
        fail(ValueError, "equalize", "as many results of the first layer as inputs of the second were required",
             f"{one.weight.shape[output_axis]} and {two.weight.shape[input_axis]}",
             hint="name layers that follow each other")  # fmt: skip
    first, second = channel_range(one.weight, output_axis), channel_range(two.weight, input_axis)
    scale = (second / first).sqrt()
    # a channel that is constant on either side stays as it is
    scale = F.where(scale.isfinite() & (scale != 0), scale, F.ones_like(scale))
    one.weight = nn.Parameter(one.weight.detach() * _along(scale, one.weight, output_axis))
    two.weight = nn.Parameter(two.weight.detach() / _along(scale, two.weight, input_axis))
    if one.bias is not None:
        one.bias = nn.Parameter(one.bias.detach() * scale)


def _layer(module: nn.Module) -> Any:
    if type(module) not in _supported_types:
        fail(ValueError, "equalize", "module type not supported: a linear layer or convolution, or one that is fused "
             "with relu, was required", type(module).__name__, hint="leave it out of the pairs")  # fmt: skip
    return module[0] if type(module) in _supported_intrinsic_types else module  # type: ignore[index]


def _along(scale: Any, weight: core.Tensor, axis: int) -> Any:
    shape = [1] * weight.dim()
    shape[axis] = -1
    return scale.reshape(shape)


def converged(
    curr_modules: dict[str, Any], prev_modules: dict[str, Any], threshold: float = 1e-4
) -> bool:
    """Whether weights have changed by less than a threshold, all together.

    Args:
        curr_modules: modules by name
        prev_modules: those before
        threshold: the norm that the changes have to stay below

    Raises:
        ValueError: the names differ.

    Example:
        >>> from facula.quantization.equalization import converged
        >>> layer = facula.nn.Linear(2, 2)
        >>> converged({"a": layer}, {"a": layer})
        True
    """
    if curr_modules.keys() != prev_modules.keys():
        fail(ValueError, "converged", "modules of the same names were required",
             f"{sorted(curr_modules)} and {sorted(prev_modules)}", hint="compare two states of one model")  # fmt: skip
    total = sum(
        float((_layer(curr_modules[n]).weight - _layer(m).weight).detach().norm())
        for n, m in prev_modules.items()
    )
    return total < threshold


def equalize(
    model: nn.Module,
    paired_modules_list: list[list[str]],
    threshold: float = 1e-4,
    inplace: bool = True,
) -> nn.Module:
    """Equalizes pairs of layers until the weights no longer change.

    Args:
        model: the model
        paired_modules_list: the names of two layers each, the second of which takes the first one's results
        threshold: the norm of changes at which it ends
        inplace: whether the model itself is changed

    Example:
        >>> from facula.quantization.equalization import equalize
        >>> model = facula.nn.Sequential(facula.nn.Linear(2, 3), facula.nn.Linear(3, 2))
        >>> x = facula.randn(4, 2)
        >>> before = model(x)
        >>> facula.allclose(equalize(model, [["0", "1"]])(x), before, atol=1e-5)
        True
    """
    if not inplace:
        model = copy.deepcopy(model)
    names = {name for pair in paired_modules_list for name in pair}
    while True:
        modules = {name: get_module(model, name) for name in names}
        before = copy.deepcopy(modules)
        for first, second in paired_modules_list:
            cross_layer_equalization(modules[first], modules[second])
        if converged(modules, before, threshold):
            return model


# ------------------------------------------------------------------ biases


class MeanShadowLogger(numeric_suite.Logger):
    """Keeps the means of results of a quantized layer and of the float one in its shadow.

    Example:
        >>> from facula.quantization.equalization import MeanShadowLogger
        >>> MeanShadowLogger().stats
        {'float': None, 'quantized': None}
    """

    def __init__(self) -> None:
        super().__init__()
        self.clear()

    def clear(self) -> None:
        """Forget all results."""
        self.stats: dict[str, Any] = {"float": None, "quantized": None}
        self.count = 0

    def forward(self, x: Any, y: Any) -> None:  # type: ignore[override]
        """Take both into the means."""
        self.count += 1
        for name, value in (("quantized", x), ("float", y)):
            value = dequantize(value.detach()) if value.is_quantized else value.detach()
            mean = self.stats[name]
            self.stats[name] = value if mean is None else mean + (value - mean) / self.count


def bias_correction(
    float_model: nn.Module, quantized_model: nn.Module, img_data: Any, target_modules: Any = None,
    neval_batches: int | None = None,
) -> None:  # fmt: skip
    """Takes the mean error of each quantized layer off its bias, the first layers first.

    The quantized model has `numeric_suite.Shadow` around its layers afterwards.

    Args:
        float_model: the float model
        quantized_model: its quantized form, which is changed
        img_data: batches, whose first item is the input
        target_modules: the quantized classes; None for linear layers and 2-d convolutions
        neval_batches: how many batches are looked at; None for all

    Example:
        >>> from facula import ao, nn
        >>> from facula.quantization.equalization import bias_correction
        >>> model = ao.quantization.QuantWrapper(nn.Sequential(nn.Linear(2, 2)))
        >>> model.qconfig = ao.quantization.default_qconfig
        >>> seen = ao.quantization.prepare(model)
        >>> data = [(facula.randn(8, 2), None)]
        >>> _ = seen(data[0][0])
        >>> bias_correction(model, ao.quantization.convert(seen), data)
    """
    targets = set(_supported_modules_quantized if target_modules is None else target_modules)
    numeric_suite.prepare_model_with_stubs(
        float_model, quantized_model, _supported_modules, MeanShadowLogger
    )
    names = [name for name, module in quantized_model.named_modules() if type(module) in targets]
    for name in names:
        layer: Any = get_module(quantized_model, name)
        bias = get_param(layer, "bias")
        if bias is None:
            continue
        for count, data in enumerate(img_data):
            if count == neval_batches:
                break
            quantized_model(data[0])
        kept = numeric_suite.get_logger_dict(quantized_model)[
            f"{parent_child_names(name)[0]}.stats"
        ]
        error = kept["quantized"] - kept["float"]
        others = [d for d in range(error.dim()) if d != 1]
        layer.set_weight_bias(get_param(layer, "weight"), bias.detach() - error.mean(others))
        for module in quantized_model.modules():
            if isinstance(module, MeanShadowLogger):
                module.clear()
