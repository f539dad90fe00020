"""Layers for training with fake quantization: the weight passes through its levels in every step.

Takes: float layers with a `qconfig`. Gives: layers of the same parameters whose forward uses
``weight_fake_quant(weight)``.
Keeps true: with fake quantization off they compute what the float layers compute; a convolution with a norm folds the
norm's running statistics into the weight before it is quantized, and takes the factor off again before the norm; where
that must not divide by the norm's weight (a channel's may be 0), it convolves a second time instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula.nn as nn
import facula.nn.functional as functional
from facula import core
from facula.autograd.grad_mode import no_grad
from facula.core.errors import fail
from facula.nn.utils.parametrize import is_parametrized, transfer_parametrizations_and_params
from facula.quantization.modules import intrinsic as nni
from facula.quantization.tensor import per_channel_affine_float_qparams


def _checked(kind: type, qconfig: object) -> Any:
    if not qconfig:
        fail(
            AssertionError,
            kind.__name__,
            "qconfig must be provided for QAT module",
            qconfig,
            hint="module.qconfig = get_default_qat_qconfig()",
        )
    return qconfig


def _share(target: Any, source: Any) -> None:
    """Take over the parameters of a float layer, the objects themselves."""
    if is_parametrized(source, "weight"):
        transfer_parametrizations_and_params(source, target, "weight")
    else:
        target.weight = source.weight
    target.bias = source.bias
    target.train(source.training)


class _Weighted:
    """What layers with a fake-quantized weight have in common."""

    _relu = False
    _FLOAT_MODULE: Any
    _FLOAT_RELU_MODULE: Any = None
    weight: Any
    bias: Any
    qconfig: Any

    def _watch(self, qconfig: object) -> None:
        self.qconfig = _checked(type(self), qconfig)
        self.weight_fake_quant = self.qconfig.weight()

    def _out(self, y: core.Tensor) -> Any:
        return functional.relu(y) if self._relu else y

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The layer in the place of a float layer (or of a fused one), with its parameters."""
        fused = isinstance(mod, nni._FusedModule)
        layer = mod[0] if fused else mod
        if not isinstance(layer, cls._FLOAT_MODULE):
            fail(
                AssertionError,
                f"{cls.__name__}.from_float",
                f"a module of type {cls._FLOAT_MODULE.__name__} was required",
                type(layer).__name__,
                hint="from_float takes the float layer that the class stands for",
            )
        made = cls._make(layer, mod.qconfig)  # type: ignore[attr-defined]
        _share(made, layer)
        return made


class Linear(_Weighted, nn.Linear):
    """A linear layer whose weight passes through its levels."""

    _FLOAT_MODULE = nn.Linear

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        qconfig: Any = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        nn.Linear.__init__(self, in_features, out_features, bias, device=device, dtype=dtype)
        self._watch(qconfig)

    @classmethod
    def _make(cls, layer: Linear, qconfig: object) -> Any:
        return cls(layer.in_features, layer.out_features, layer.bias is not None, qconfig=qconfig)

    def forward(self, input: Any) -> Any:
        """The product."""
        return self._out(functional.linear(input, self.weight_fake_quant(self.weight), self.bias))

    def to_float(self) -> Any:
        """The float layer with the same parameters."""
        made: Any = nn.Linear(self.in_features, self.out_features, self.bias is not None)
        _share(made, self)
        return nni.LinearReLU(made, nn.ReLU()) if self._relu else made


class _Convolution(_Weighted):
    """The same of convolutions."""

    def __init__(self, *args: Any, qconfig: Any = None, **kwargs: Any) -> None:
        self._FLOAT_MODULE.__init__(self, *args, **kwargs)
        self._watch(qconfig)

    @classmethod
    def _make(cls, layer: Conv2d, qconfig: object) -> Any:
        return cls(*_geometry(layer), qconfig=qconfig)

    def forward(self, input: Any) -> Any:
        """The convolution."""
        me: Any = self
        return self._out(me._conv_forward(input, me.weight_fake_quant(me.weight), me.bias))

    def to_float(self) -> Any:
        """The float layer with the same parameters."""
        made = self._FLOAT_MODULE(*_geometry(self))
        _share(made, self)
        dims = len(made.kernel_size)
        return getattr(nni, f"ConvReLU{dims}d")(made, nn.ReLU()) if self._relu else made


def _geometry(layer: Any) -> tuple[Any, ...]:
    return (
        layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding,
        layer.dilation, layer.groups, layer.bias is not None, layer.padding_mode,
    )  # fmt: skip


class Conv1d(_Convolution, nn.Conv1d):
    """A convolution whose weight passes through its levels."""

    _FLOAT_MODULE = nn.Conv1d


class Conv2d(_Convolution, nn.Conv2d):
    """A convolution whose weight passes through its levels."""

    _FLOAT_MODULE = nn.Conv2d


class Conv3d(_Convolution, nn.Conv3d):
    """A convolution whose weight passes through its levels."""

    _FLOAT_MODULE = nn.Conv3d


def _check_table(word: str, fake: nn.Module) -> None:
    """AssertionError unless each row of a table has a scale and a zero point that is a float."""
    if fake.qscheme is not per_channel_affine_float_qparams:
        fail(
            AssertionError,
            f"nn.qat.{word.replace(' ', '')}",
            f"{word} weights requires a qscheme of {per_channel_affine_float_qparams}",
            fake.qscheme,
            hint="default_embedding_qat_qconfig has it",
        )


def _check_float(kind: Any, mod: nn.Module) -> None:
    """AssertionError unless a module is of the float class for a class, and has a configuration."""
    wanted = kind._FLOAT_MODULE
    if type(mod) is not wanted:
        fail(
            AssertionError,
            f"nn.qat.{kind.__name__}.from_float",
            f"nnqat.{kind.__name__}.from_float only works for {wanted.__name__}",
            type(mod).__name__,
            hint="prepare_qat() calls it for the layers that it takes",
        )
    if getattr(mod, "qconfig", None) is None:
        defined = hasattr(mod, "qconfig")
        fail(
            AssertionError,
            f"nn.qat.{kind.__name__}.from_float",
            f"Input float module must have {'a valid qconfig' if defined else 'qconfig defined'}",
            "None" if defined else "none",
            hint="module.qconfig = default_embedding_qat_qconfig",
        )


class Embedding(nn.Embedding):
    """A table that passes through its levels."""

    _FLOAT_MODULE = nn.Embedding

    def __init__(self, *args: Any, qconfig: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.qconfig = _checked(type(self), qconfig)
        self.weight_fake_quant = qconfig.weight()
        _check_table("Embedding", self.weight_fake_quant)

    def forward(self, input: Any) -> Any:
        """The rows."""
        return functional.embedding(input, self.weight_fake_quant(self.weight), self.padding_idx)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The layer in the place of a float layer, with its table."""
        _check_float(cls, mod)
        made = cls(mod.num_embeddings, mod.embedding_dim, mod.padding_idx, qconfig=mod.qconfig)
        made.weight = mod.weight
        return made


class EmbeddingBag(nn.EmbeddingBag):
    """Sums or means of rows of a table that passes through its levels."""

    _FLOAT_MODULE = nn.EmbeddingBag

    def __init__(self, *args: Any, qconfig: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.qconfig = _checked(type(self), qconfig)
        self.weight_fake_quant = qconfig.weight()
        _check_table("Embedding Bag", self.weight_fake_quant)

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        """The sums or means."""
        return functional.embedding_bag(
            input, self.weight_fake_quant(self.weight), offsets, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.mode, self.sparse, per_sample_weights,
            self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The layer in the place of a float layer, with its table."""
        _check_float(cls, mod)
        made = cls(
            mod.num_embeddings, mod.embedding_dim, mod.max_norm, mod.norm_type,
            mod.scale_grad_by_freq, mod.mode, mod.sparse,
            include_last_offset=mod.include_last_offset, padding_idx=mod.padding_idx,
            qconfig=mod.qconfig,
        )  # fmt: skip
        made.weight = mod.weight
        return made


class LinearReLU(Linear):
    """The same with relu."""

    _relu = True


class ConvReLU1d(Conv1d):
    """The same with relu."""

    _relu = True


class ConvReLU2d(Conv2d):
    """The same with relu."""

    _relu = True


class ConvReLU3d(Conv3d):
    """The same with relu."""

    _relu = True


class _Normalized(_Weighted):
    """A layer with a norm behind it, quantized with the norm's running factor in its weight."""

    _norm: Any
    #: whether two convolutions replace the division by the norm's weight, which may be 0
    _enable_slow_path_for_better_numerical_stability = False

    def _begin(self, made: type, eps: float, momentum: float | None, freeze_bn: bool) -> None:
        """A norm of its own, for layers that are made from nothing."""
        me: Any = self
        me._with_norm(made(me.weight.shape[0], eps, momentum))
        if freeze_bn:
            me.freeze_bn_stats()

    def _with_norm(self, norm: nn.Module) -> None:
        me: Any = self
        me.bn = norm
        me.freeze_bn = False

    def update_bn_stats(self) -> Any:
        """Let running statistics follow the batches."""
        me: Any = self
        me.freeze_bn = False
        me.bn.training = True
        return self

    def freeze_bn_stats(self) -> Any:
        """Keep running statistics."""
        me: Any = self
        me.freeze_bn = True
        me.bn.training = False
        return self

    def train(self, mode: bool = True) -> Any:
        """As of other modules; frozen statistics stay frozen."""
        me: Any = self
        me.training = mode
        if not getattr(me, "freeze_bn", False):
            for child in me.children():
                child.train(mode)
        return self

    def forward(self, input: Any) -> Any:
        """The layer, normalized."""
        me: Any = self
        if me._enable_slow_path_for_better_numerical_stability:
            return self._out(self._convolved_twice(input))
        norm = me.bn
        factor, weight = self._with_factor()
        y = self._run(input, weight) / factor.reshape(self._places())
        return self._out(norm(self._biased(y)))

    def _places(self) -> list[int]:
        """The shape of one number a channel, beside outputs."""
        me: Any = self
        return [1, -1] + [1] * (me.weight.dim() - 2)

    def _biased(self, y: core.Tensor) -> Any:
        me: Any = self
        return y if me.bias is None else y + me.bias.reshape(self._places())

    def _with_factor(self) -> tuple[Any, Any]:
        """The norm's factor, and the quantized weight that has it."""
        me: Any = self
        factor = me.bn.weight / (me.bn.running_var + me.bn.eps).sqrt()
        across = factor.reshape([-1] + [1] * (me.weight.dim() - 1))
        return factor, me.weight_fake_quant(me.weight * across)

    def _convolved_twice(self, input: core.Tensor) -> Any:
        """The same without a division by the norm's weight: statistics come from the weight as it is."""
        me: Any = self
        norm, places = me.bn, self._places()
        mean, deviation = norm.running_mean, (norm.running_var + norm.eps).sqrt()
        if norm.training:
            plain = self._biased(self._run(input, me.weight))
            with no_grad():
                norm(plain)  # its running statistics follow
            axes = [0, *range(2, plain.dim())]
            mean = plain.mean(axes)
            variance = (plain - mean.reshape(places)).square().mean(axes)
            running = (norm.running_var + norm.eps).sqrt()
            deviation = (variance + norm.eps).sqrt()
            y = self._run(input, self._with_factor()[1]) * (running / deviation).reshape(places)
        else:
            y = self._run(input, self._with_factor()[1])
        shift = mean if me.bias is None else mean - me.bias
        return y + (norm.bias - norm.weight * shift / deviation).reshape(places)

    def _run(self, x: core.Tensor, weight: core.Tensor) -> Any:
        me: Any = self
        if me.weight.dim() == 2:
            return functional.linear(x, weight)
        return me._conv_forward(x, weight, None)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """In the place of a fused layer, with its parts."""
        layer, norm = mod[0], mod[1]
        made = cls._make(layer, mod.qconfig)  # type: ignore[attr-defined]
        made.weight, made.bias = layer.weight, layer.bias
        made._with_norm(norm)
        made.train(mod.training)
        return made

    def folded(self) -> Any:
        """The float layer with the norm in its parameters."""
        # lazily: it stands beside the passes of evaluation
        from facula.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

        me: Any = self
        layer = me._plain()
        _share(layer, me)
        fuse = fuse_linear_bn_eval if me.weight.dim() == 2 else fuse_conv_bn_eval
        return fuse(layer.eval(), me.bn.eval())


def _define_normalized(name: str, base: Any, float_kind: Callable[..., Any], relu: bool) -> Any:
    def _plain(self: Any) -> Any:
        if float_kind is nn.Linear:
            return nn.Linear(self.in_features, self.out_features, self.bias is not None)
        return float_kind(*_geometry(self))

    norm = nn.BatchNorm1d if float_kind is nn.Linear else getattr(nn, f"BatchNorm{name[-2]}d")
    first = 3 if float_kind is nn.Linear else 9  # arguments of the layer itself

    def __init__(
        self: Any, *args: Any, eps: float = 1e-5, momentum: float | None = 0.1,
        freeze_bn: bool = False, qconfig: Any = None, **keywords: Any,
    ) -> None:  # fmt: skip
        rest = dict(zip(("eps", "momentum", "freeze_bn", "qconfig"), args[first:], strict=False))
        args = args[:first]
        if float_kind is not nn.Linear and len(args) < 8:
            keywords["bias"] = bool(keywords.get("bias"))  # the norm has one
        base.__init__(self, *args, qconfig=rest.get("qconfig", qconfig), **keywords)
        given = (rest.get("eps", eps), rest.get("momentum", momentum))
        self._begin(norm, *given, rest.get("freeze_bn", freeze_bn))

    fields = {
        "__init__": __init__,
        "_relu": relu,
        "_plain": _plain,
        "__doc__": "A normalized layer whose weight passes through its levels.",
        "__module__": __name__,
    }
    return type(name, (_Normalized, base), fields)


ConvBn1d: Any = _define_normalized("ConvBn1d", Conv1d, nn.Conv1d, False)
ConvBn2d: Any = _define_normalized("ConvBn2d", Conv2d, nn.Conv2d, False)
ConvBn3d: Any = _define_normalized("ConvBn3d", Conv3d, nn.Conv3d, False)
ConvBnReLU1d: Any = _define_normalized("ConvBnReLU1d", Conv1d, nn.Conv1d, True)
ConvBnReLU2d: Any = _define_normalized("ConvBnReLU2d", Conv2d, nn.Conv2d, True)
ConvBnReLU3d: Any = _define_normalized("ConvBnReLU3d", Conv3d, nn.Conv3d, True)
LinearBn1d: Any = _define_normalized("LinearBn1d", Linear, nn.Linear, False)


def update_bn_stats(mod: object) -> None:
    """Let a module's running statistics follow the batches: for `model.apply`."""
    if isinstance(mod, _Normalized):
        mod.update_bn_stats()


def freeze_bn_stats(mod: object) -> None:
    """Keep a module's running statistics: for `model.apply`."""
    if isinstance(mod, _Normalized):
        mod.freeze_bn_stats()
