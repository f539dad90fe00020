"""Channels of inputs and weights brought to one range before they become integers: PyTorch's `fx._equalize`.

Takes: an observed graph, and which of its layers are equalized. Gives: observers of channels in front of layers;
after the model ran on examples, inputs that are multiplied by a scale for each channel and weights that are divided
by it. Keeps true: the float model computes what it computed; a scale is folded into the layer before where nothing
else takes that layer's result; a layer that shares its input's observer, or that is called in several places, is left
as it is. [Nagel et al. 2019]
"""

from __future__ import annotations

import warnings
from collections import namedtuple
from typing import Any

import facula
import facula.nn as nn
from facula import core
from facula.core.errors import fail
from facula.fx import Node
from facula.nn import functional
from facula.quantization import fake_quantize as fq
from facula.quantization import observer as ob
from facula.quantization.graph import configurations
from facula.quantization.graph.matching import same_call
from facula.quantization.graph.observing import free_name
from facula.quantization.modules import intrinsic as nni
from facula.quantization.modules import qat
from facula.quantization.qconfig_mapping import QConfigMapping
from facula.quantization.tensor import (
    per_channel_affine,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
)

__all__ = ["EqualizationQConfig", "calculate_equalization_scale", "default_equalization_qconfig"]

_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_CALLS = (functional.linear, functional.conv1d, functional.conv2d, functional.conv3d)
_WITH_RELU = (nni.LinearReLU, nni.ConvReLU1d, nni.ConvReLU2d, nni.ConvReLU3d)


class _ChannelObserver(nn.Module):
    """Keeps the least and the greatest number of each input channel."""

    def __init__(self, dtype: Any, qscheme: Any) -> None:
        super().__init__()
        self.dtype, self.qscheme = dtype, qscheme
        self.equalization_scale: Any = core.tensor(1)

    @classmethod
    def with_args(cls, **keywords: object) -> Any:
        """The class with some of its arguments."""
        return ob.ObserverBase.with_args.__func__(cls, **keywords)  # type: ignore[attr-defined]

    def set_equalization_scale(self, equalization_scale: Any) -> None:
        """Take the scales of channels; a single 1 changes nothing."""
        self.equalization_scale = equalization_scale


def _look(observer: Any, x: core.Tensor, axis: int) -> None:
    if not 2 <= x.dim() <= 5:
        fail(ValueError, "equalization", "inputs and weights of 2 to 5 dimensions were required", x.dim(),
             hint="leave the layer out of the configuration for equalization")  # fmt: skip
    observer.ch_axis = axis % x.dim()
    observer(x)


class _InputEqualizationObserver(_ChannelObserver):
    """Keeps the ranges of an input's channels.

    Args:
        dtype: the dtype that the input gets
        qscheme: how its integers stand for numbers
        quant_min: the least integer
        quant_max: the greatest integer
        factory_kwargs: nothing that counts here

    Example:
        >>> from facula.quantization.graph.equalizing import _InputEqualizationObserver
        >>> seen = _InputEqualizationObserver()
        >>> _ = seen(facula.tensor([[1.0, -2.0], [3.0, 4.0]]))
        >>> seen.get_input_minmax()
        (tensor([ 1., -2.]), tensor([3., 4.]))
    """

    def __init__(
        self, dtype: Any = core.quint8, qscheme: object = per_tensor_affine, quant_min: int | None = None,
        quant_max: int | None = None, factory_kwargs: object = None,
    ) -> None:  # fmt: skip
        super().__init__(dtype, qscheme)
        if qscheme not in (per_tensor_affine, per_tensor_symmetric):
            fail(TypeError, "_InputEqualizationObserver", "a scheme of one scale was required: Input qscheme must be "
                 "per-tensor", qscheme, hint="torch.per_tensor_affine")  # fmt: skip
        self.input_obs = ob.PerChannelMinMaxObserver(
            1, dtype, per_channel_affine, False, quant_min, quant_max
        )
        #: where the channels are; the last dimension of what linear layers take
        self.channel_axis = 1
        self.equalization_shape: list[int] = []

    def forward(self, x_orig: core.Tensor) -> Any:
        """The argument, which is looked at.

        Args:
            x_orig: a batch of inputs

        Errors:
            ValueError: it has less than two or more than five dimensions
        """
        _look(self.input_obs, x_orig, self.channel_axis)
        self.equalization_shape = [1] * x_orig.dim()
        self.equalization_shape[self.channel_axis] = x_orig.shape[self.channel_axis]
        return x_orig

    def get_input_minmax(self) -> tuple[Any, Any]:
        """The least and the greatest number of each channel."""
        return self.input_obs.min_val, self.input_obs.max_val

    def set_equalization_scale(self, equalization_scale: Any) -> None:
        """Take the scales of channels, in the shape that multiplies inputs."""
        if equalization_scale.numel() > 1 and self.equalization_shape:
            equalization_scale = equalization_scale.reshape(self.equalization_shape)
        self.equalization_scale = equalization_scale

    def calculate_scaled_minmax(self) -> tuple[Any, Any]:
        """The range of inputs that were multiplied by the scales; None where they are not."""
        scale = self.equalization_scale
        if scale.numel() == 1 and scale.item() == 1:
            warnings.warn("equalization: the input is not scaled", stacklevel=2)
            return None, None
        low, high = self.get_input_minmax()
        scale = scale.reshape(-1)
        return (low * scale).amin(), (high * scale).amax()


class _WeightEqualizationObserver(_ChannelObserver):
    """Keeps the ranges of a weight's input channels.

    Args:
        dtype: the dtype that the weight gets
        qscheme: how its integers stand for numbers
        quant_min: the least integer
        quant_max: the greatest integer
        factory_kwargs: nothing that counts here

    Example:
        >>> from facula.quantization.graph.equalizing import _WeightEqualizationObserver
        >>> seen = _WeightEqualizationObserver()
        >>> _ = seen(facula.tensor([[1.0, -2.0], [3.0, 4.0]]))
        >>> seen.get_weight_col_minmax()
        (tensor([ 1., -2.]), tensor([3., 4.]))
    """

    def __init__(
        self, dtype: Any = core.qint8, qscheme: object = per_tensor_affine, quant_min: int | None = None,
        quant_max: int | None = None, factory_kwargs: object = None,
    ) -> None:  # fmt: skip
        super().__init__(dtype, qscheme)
        self.ch_axis = 1
        scheme = per_channel_symmetric if qscheme in _SYMMETRIC else per_channel_affine
        self.weight_col_obs = ob.PerChannelMinMaxObserver(
            1, dtype, scheme, False, quant_min, quant_max
        )

    def forward(self, w_orig: core.Tensor) -> Any:
        """The argument, which is looked at.

        Args:
            w_orig: the weight

        Errors:
            ValueError: it has less than two or more than five dimensions
        """
        _look(self.weight_col_obs, w_orig, 1)
        return w_orig

    def get_weight_col_minmax(self) -> tuple[Any, Any]:
        """The least and the greatest number of each input channel."""
        return self.weight_col_obs.min_val, self.weight_col_obs.max_val


_SYMMETRIC = (per_tensor_symmetric, per_channel_symmetric)


class EqualizationQConfig(
    namedtuple(
        "EqualizationQConfig", ("input_activation", "weight"), defaults=(nn.Identity, nn.Identity)
    )
):
    """What observes the channels of inputs and of weights: classes, or what `with_args` gives."""

    __slots__ = ()

    def __new__(cls, input_activation: object = nn.Identity, weight: object = nn.Identity) -> Any:
        """Refuse observers that are made already: each layer has its own."""
        for given in (input_activation, weight):
            if isinstance(given, nn.Module):
                fail(ValueError, "EqualizationQConfig", "classes of observers were required: EqualizationQConfig "
                     "received observer instance, please pass observer class instead", type(given).__name__,
                     hint="the class, or its with_args(...)")  # fmt: skip
        return super().__new__(cls, input_activation, weight)


input_equalization_observer = _InputEqualizationObserver.with_args(
    dtype=core.quint8, qscheme=per_tensor_symmetric
)
weight_equalization_observer = _WeightEqualizationObserver.with_args(
    dtype=core.qint8, qscheme=per_channel_symmetric
)
default_equalization_qconfig = EqualizationQConfig(
    input_equalization_observer, weight_equalization_observer
)


def is_equalization_observer(observer: object) -> bool:
    """Whether a module observes channels."""
    return isinstance(observer, _ChannelObserver)


def calculate_equalization_scale(
    input_obs: _InputEqualizationObserver, weight_obs: _WeightEqualizationObserver
) -> Any:
    """The scale of each channel with which input and weight get one range.

    Args:
        input_obs: what has seen the inputs
        weight_obs: what has seen the weight

    Returns:
        the scales; a single 1 where input and weight have other numbers of channels, as groups have

    Example:
        >>> from facula.quantization.graph import equalizing
        >>> x, w = equalizing._InputEqualizationObserver(), equalizing._WeightEqualizationObserver()
        >>> _ = x(facula.tensor([[0.0, 0.0], [1.0, 4.0]])), w(facula.tensor([[0.0, 0.0], [9.0, 4.0]]))
        >>> equalizing.calculate_equalization_scale(x, w)
        tensor([3., 1.])
    """
    (low, high), (least, most) = input_obs.get_input_minmax(), weight_obs.get_weight_col_minmax()
    if low.shape != least.shape or not low.numel():
        warnings.warn(
            "equalization: input and weight have other channels, or none were seen", stacklevel=2
        )
        return core.tensor(1)
    scale = facula.sqrt((most - least) / (high - low))
    return facula.where(facula.isfinite(scale) & (scale != 0), scale, facula.ones_like(scale))


# ------------------------------------------------------------------ observers in a graph


def _module(model: Any, node: Any) -> Any:
    is_call = isinstance(node, Node) and node.op == "call_module"
    return model.get_submodule(str(node.target)) if is_call else None


def node_supports_equalization(node: Node, model: object) -> bool:
    """Whether a node calls a linear layer or a convolution, fused with relu or not."""
    if node.op == "call_function":
        return any(same_call(node.target, call) for call in _CALLS)
    module = _module(model, node)
    if module is None or isinstance(module, qat._Weighted):
        return False
    return isinstance(module, _WITH_RELU) or type(module) in _LAYERS


def _config_of(mapping: QConfigMapping, node: Node, model: object, scopes: Any) -> Any:
    inside, kind = scopes.get(node.name, ("", None))
    whole = mapping.global_qconfig
    module = _module(model, node)
    if module is not None:
        return configurations._of_module(
            mapping, str(node.target), configurations._kinds(module), whole
        )
    own = configurations._of_type(mapping, node.target, whole)
    return configurations._of_module(mapping, inside, (kind,), own)


def _observer_of(model: object, value: object) -> bool:
    module = _module(model, value)
    return module is not None and fq.is_activation_post_process(module)


def _place(model: Any, value: Any, observer: object) -> None:
    """Put an observer of channels in front of another observer."""
    name = free_name(model, f"{value.args[0].name}_equalization_process_")
    model.add_module(name, observer)
    with model.graph.inserting_before(value):
        made = model.graph.call_module(name, (value.args[0],))
    value.args = (made, *value.args[1:])


def observe(model: Any, mapping: QConfigMapping, scopes: object) -> dict[str, Any]:
    """Put observers of channels in front of the layers that a mapping names; what each node is equalized with."""
    found: dict[str, Any] = {}
    calls = [node.target for node in model.graph.nodes if node.op == "call_module"]
    for node in list(model.graph.nodes):
        if node.op not in ("call_module", "call_function") or not node_supports_equalization(
            node, model
        ):
            continue
        config = _config_of(mapping, node, model, scopes)
        seen: Any = node.args[0] if node.args else None
        if config is None or not _observer_of(model, seen) or calls.count(node.target) > 1:
            continue
        if len(seen.users) > 1:
            warnings.warn(
                f"equalization: {node} is left as it is, since others take its input too",
                stacklevel=2,
            )
            continue
        found[node.name] = config
        observer = config.input_activation()
        if is_equalization_observer(observer):
            observer.channel_axis = -1 if _is_linear(model, node) else 1
            _place(model, seen, observer)
        weight = node.args[1] if node.op == "call_function" and len(node.args) > 1 else None
        if _observer_of(model, weight):
            _place(model, weight, config.weight())
    model.graph.lint()
    model.recompile()
    return found


def _is_linear(model: object, node: Node) -> bool:
    module = _module(model, node)
    if module is None:
        return same_call(node.target, functional.linear)
    return isinstance(module, (nn.Linear, nni.LinearReLU))


# ------------------------------------------------------------------ scales


class _Equalizing:
    """A model that was observed, whose channels are brought to one range."""

    def __init__(self, model: Any, configs: dict[str, Any]) -> None:
        self.model, self.graph, self.configs = model, model.graph, configs
        self.scales: dict[Node, Any] = {}

    def run(self) -> None:
        """Scale inputs and weights, and take the observers of channels away."""
        places = [
            n
            for n in self.graph.nodes
            if isinstance(_module(self.model, n), _InputEqualizationObserver)
        ]
        for node in places:
            self.scales[node] = self._scale(node)
        for node in places:
            self._equalize(node)
        for node in list(self.graph.nodes):
            if is_equalization_observer(_module(self.model, node)):
                node.replace_all_uses_with(node.args[0])
                self.graph.erase_node(node)
                delattr(self.model, str(node.target))
        self.graph.lint()
        self.model.recompile()

    def _layer(self, node: Node) -> Node:
        """The layer behind an observer of channels and the observer of its input."""
        return next(iter(next(iter(node.users)).users))

    def _scale(self, node: Node) -> Any:
        seen, layer = _module(self.model, node), self._layer(node)
        if layer.op == "call_module":
            observer = self.configs[layer.name].weight()
            if not is_equalization_observer(observer):
                return core.tensor(1)
            observer(_with_weight(_module(self.model, layer)).weight.detach())
        else:
            observer = self._of_weight(layer)
            if observer is None:
                return core.tensor(1)
        scale = calculate_equalization_scale(seen, observer)
        seen.set_equalization_scale(scale)
        return scale

    def _of_weight(self, layer: Node) -> Any:
        """The observer of a function's weight, which has looked at it now."""
        weight: Any = layer.args[1]
        inner: Any = weight.args[0] if weight.args else None
        observer = _module(self.model, inner)
        if not isinstance(observer, _WeightEqualizationObserver) or inner.args[0].op != "get_attr":
            return None
        observer(self._read(inner.args[0]).detach())
        return observer

    def _read(self, node: Any) -> Any:
        value = self.model
        for part in str(node.target).split("."):
            value = getattr(value, part)
        return value

    def _equalize(self, node: Node) -> None:
        scale = self.scales[node]
        if scale.numel() == 1:
            return
        before: Any = node.args[0]
        if not self._folds(before):
            name = free_name(self.model, f"{before.name}_equalization_scale")
            self.model.register_buffer(name, _module(self.model, node).equalization_scale)
            with self.graph.inserting_before(node):
                read = self.graph.create_node("get_attr", name, name=name)
                node.args = (self.graph.call_function(facula.mul, (before, read)),)
        self._range(node)
        layer = self._layer(node)
        following = self._next(layer)
        if layer.op == "call_module":
            held = _with_weight(_module(self.model, layer))
            held.weight = nn.Parameter(_scaled(held.weight, scale, following))
            if held.bias is not None and following is not None:
                held.bias = nn.Parameter(held.bias.detach() * following)
        else:
            self._function(layer, scale, following)

    def _range(self, node: Node) -> None:
        """Let the input's observer have seen scaled inputs."""
        observer = _module(self.model, next(iter(node.users)))
        low, high = _module(self.model, node).calculate_scaled_minmax()
        inner = getattr(observer, "activation_post_process", observer)
        if not hasattr(inner, "min_val"):
            return
        if hasattr(inner, "histogram"):
            inner.__init__(
                **{k: getattr(inner, k) for k in ("bins", "dtype", "qscheme", "reduce_range")}
            )
            inner(facula.stack([low, high]))
            return
        inner.min_val.resize_(low.shape).copy_(low)
        inner.max_val.resize_(high.shape).copy_(high)

    def _source(self, value: object) -> Any:
        """The layer that gives a value, behind a relu; None where another one takes it, too."""
        node = value
        while isinstance(node, Node) and len(node.users) == 1:
            if node.op in ("call_function", "call_module") and node_supports_equalization(
                node, self.model
            ):
                return node
            is_relu = type(_module(self.model, node)) is nn.ReLU or (
                node.op == "call_function"
                and any(same_call(node.target, f) for f in (functional.relu, facula.relu))
            )
            if not is_relu:
                return None
            node = node.args[0]
        return None

    def _folds(self, before: object) -> bool:
        """Whether the layer before takes the scale into its weight."""
        source = self._source(before)
        if source is None:
            return False
        return any(self._layer(node) is source and s.numel() > 1 for node, s in self.scales.items())

    def _next(self, layer: Node) -> Any:
        """The scale of what takes a layer's result, where the layer takes it into its weight; None for none."""
        for node, scale in self.scales.items():
            if scale.numel() > 1 and self._source(_unscaled(node)) is layer:
                return scale
        return None

    def _function(self, layer: Node, scale: object, following: Any) -> None:
        """Give a function scaled constants of its own."""
        weight: Any = layer.args[1]
        read = weight.args[0].args[0]
        self._replace(read, weight.args[0], _scaled(self._read(read), scale, following))
        observer = _module(self.model, weight)
        getattr(observer, "activation_post_process", observer).reset_min_max_vals()
        bias: Any = layer.args[2] if len(layer.args) > 2 else layer.kwargs.get("bias")
        if isinstance(bias, Node) and following is not None:
            constant = bias
            user = layer
            while constant.op != "get_attr":
                user, constant = constant, constant.args[0]
            self._replace(constant, user, self._read(constant).detach() * following)

    def _replace(self, read: Node, user: Node, value: object) -> None:
        name = free_name(self.model, f"{read.name}_equalized_")
        self.model.register_buffer(name, value)
        with self.graph.inserting_before(read):
            made = self.graph.create_node("get_attr", name, name=name)
        user.replace_input_with(read, made)
        if not read.users:
            self.graph.erase_node(read)


def _unscaled(node: Node) -> Any:
    """What an observer of channels looks at, without the scale in front of it."""
    before: Any = node.args[0]
    is_scale = before.op == "call_function" and before.target is facula.mul
    scaled = is_scale and str(getattr(before.args[1], "target", "")).find("_equalization_scale") > 0
    return None if scaled else before


def _with_weight(module: Any) -> Any:
    return module[0] if isinstance(module, nni._FusedModule) else module


def _scaled(weight: Any, scale: Any, following: Any) -> Any:
    """A weight divided by the scales of its inputs, and multiplied by those of its results."""
    rest = [1] * (weight.dim() - 2)
    made = weight.detach() / scale.reshape(1, -1, *rest)
    return made if following is None else made * following.reshape(-1, 1, *rest)


def equalize(model: object, configs: dict[str, Any]) -> None:
    """Bring the channels of an observed model, which is changed, to one range."""
    if configs:
        _Equalizing(model, configs).run()
