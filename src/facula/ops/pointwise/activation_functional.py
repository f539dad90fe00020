"""Activation functions in the form of `nn.functional`: with ``inplace=``, and those made of other operators.

Takes: tensors.
Gives: `nn.functional.relu`, `relu6`, `elu`, `selu`, `celu`, `silu`, `mish`, `hardswish`, `hardsigmoid`, `hardtanh`,
`leaky_relu`, `threshold`, `rrelu`, `prelu`, `glu`, and the in-place spellings such as `nn.functional.relu_`.
Keeps true: ``inplace=True`` writes to the argument and returns it.
"""

from __future__ import annotations

import math
from typing import Any

from facula import core
from facula.ops.random.draws import draw
from facula.ops.table.pointwise_rules import one_node
from facula.ops.table.registry import F, composite


def _run(name: str, inplace: bool, self: core.Tensor, *attributes: Any) -> Any:
    operator = getattr(F, name)
    return (operator.inplace if inplace else operator)(self, *attributes)


def _plain(name: str) -> core.Op:
    def body(self, inplace):
        return _run(name, inplace, self)

    body.__doc__ = getattr(F, name).definition.body.__doc__
    return composite(
        f"_functional_{name}(Tensor self, bool inplace=False) -> Tensor",
        names=(f"nn.functional.{name}",),
        out=False,
    )(body)


for _name in ("relu", "relu6", "selu", "silu", "mish", "hardswish", "hardsigmoid"):
    globals()[f"_functional_{_name}"] = _plain(_name)


def _with_number(name: str, attribute: str, default: float) -> core.Op:
    def body(self, number, inplace):
        return _run(name, inplace, self, number)

    body.__doc__ = getattr(F, name).definition.body.__doc__
    return composite(
        f"_functional_{name}(Tensor self, Number {attribute}={default}, bool inplace=False) -> Tensor",
        names=(f"nn.functional.{name}",),
        out=False,
    )(body)


_functional_elu = _with_number("elu", "alpha", 1.0)
_functional_celu = _with_number("celu", "alpha", 1.0)
_functional_leaky_relu = _with_number("leaky_relu", "negative_slope", 0.01)


@composite(
    "_functional_hardtanh(Tensor self, Number min_val=-1.0, Number max_val=1.0, bool inplace=False) -> Tensor",
    names=("nn.functional.hardtanh",),
    out=False,
)
def _functional_hardtanh(self, min_val, max_val, inplace):
    """``min(max(self, min_val), max_val)``."""
    if min_val > max_val:
        core.errors.fail(
            ValueError, "hardtanh", "min_val <= max_val", got=f"{min_val} and {max_val}"
        )
    return _run("hardtanh", inplace, self, min_val, max_val)


@composite(
    "_functional_threshold(Tensor self, Number threshold, Number value, bool inplace=False) -> Tensor",
    names=("nn.functional.threshold",),
    out=False,
)
def _functional_threshold(self, threshold, value, inplace):
    """`self` above the threshold, `value` elsewhere."""
    return _run("threshold", inplace, self, threshold, value)


_SIGNATURES = {
    "relu": "",
    "selu": "",
    "elu": ", Number alpha=1.0",
    "celu": ", Number alpha=1.0",
    "leaky_relu": ", Number negative_slope=0.01",
    "hardtanh": ", Number min_val=-1.0, Number max_val=1.0",
    "threshold": ", Number threshold, Number value",
}


def _spelled_inplace(name: str, signature: str) -> core.Op:
    def body(self, *numbers):
        return getattr(F, name).inplace(self, *numbers)

    body.__doc__ = f"In-place form of `{name}`."
    return composite(
        f"_functional_{name}_(Tensor self{signature}) -> Tensor",
        names=(f"nn.functional.{name}_",),
        out=False,
    )(body)


for _name, _signature in _SIGNATURES.items():
    globals()[f"_functional_{_name}_"] = _spelled_inplace(_name, _signature)


def _random_slopes(
    self: Any, lower: float, upper: float, training: bool, generator: core.Generator | None
) -> Any:
    """The slope below zero: random in training, the mean of the bounds otherwise."""
    for name, bound in (("lower", lower), ("upper", upper)):
        if not math.isfinite(bound):
            required = (
                f"finite bounds were required: rrelu: {name} bound must be finite, got {bound}"
            )
            core.errors.fail(RuntimeError, "rrelu", required, hint="1/8 and 1/3 are the defaults")
    if lower > upper:
        core.errors.fail(
            RuntimeError,
            "rrelu",
            "Lower bound should be less than or equal to the upper bound",
            got=f"{lower} and {upper}",
            hint="1/8 and 1/3 are the defaults",
        )
    if not training:
        return (lower + upper) / 2
    return draw(F.empty_like(self), "uniform", lower, upper, generator)


@composite(
    "rrelu(Tensor self, float lower=0.125, float upper=0.3333333333333333, bool training=False, "
    "bool inplace=False, generator? generator=None) -> Tensor",
    names=("rrelu", "nn.functional.rrelu"),
    home="nn.functional.rrelu",
    out=False,
)
def rrelu(self, lower, upper, training, inplace, generator):
    """`leaky_relu` with a slope drawn from ``[lower, upper)`` per element in training [Xu et al. 2015]."""
    if training and core.by_element(generator) and lower <= upper:
        drawn = F._rrelu_drawn(self, lower, upper, generator)
        return self.copy_(drawn) if inplace else drawn
    slope = _random_slopes(self, lower, upper, training, generator)
    if not training:
        return _run("leaky_relu", inplace, self, slope)
    return self.mul_(F.where(self > 0, 1.0, slope)) if inplace else F._prelu(self, slope)


@composite(
    "rrelu_(Tensor self, float lower=0.125, float upper=0.3333333333333333, bool training=False, "
    "generator? generator=None) -> Tensor",
    names=("rrelu_", "nn.functional.rrelu_"),
    out=False,
)
def rrelu_(self, lower, upper, training, generator):
    """In-place form of `rrelu`."""
    return F.rrelu(self, lower, upper, training, True, generator=generator)


@composite(
    "prelu(Tensor self, Tensor weight) -> Tensor",
    names=("prelu", "Tensor.prelu", "nn.functional.prelu"),
    out=False,
    autocast="lower",
    node="PreluKernelBackward0",
)
def prelu(self, weight):
    """`self` above zero, ``weight * self`` below; one weight, or one a channel (dimension 1) [He et al. 2015]."""
    if weight.dim() > 1:
        core.errors.fail(
            RuntimeError,
            "prelu",
            "a weight of 0 or 1 dimensions",
            got=f"{weight.dim()}",
            hint="weight.flatten() has one dimension",
        )
    core.errors.one_dtype(
        "prelu", self, weight, "prelu: Type promoting not supported. Got {0} and {1}"
    )
    if weight.numel() != 1:
        if not self.dim():
            core.errors.fail(
                RuntimeError,
                "prelu",
                "Not allow zero-dim input tensor. One weight was required for it",
                got=f"{weight.numel()} weights",
                hint="x.reshape(1) has a dimension",
            )
        channels = self.size(1) if self.dim() > 1 else 1
        if weight.numel() != channels:
            core.errors.fail(
                RuntimeError,
                "prelu",
                f"one weight or {channels} (Mismatch of parameter numbers and input channel size)",
                got=weight.numel(),
                hint="one weight serves all channels",
            )
        weight = weight.reshape([1, -1] + [1] * (self.dim() - 2) if self.dim() > 1 else [-1])
    elif self.dim() == 0:
        weight = weight.reshape(())
    return F._prelu(self, weight)


@composite(
    "glu(Tensor self, int dim=-1) -> Tensor", names=("nn.functional.glu",), node="GluBackward0"
)
def glu(self, dim):
    """Gated linear unit ``a * sigmoid(b)`` of the halves of `self` along `dim` [Dauphin et al. 2016]."""
    if self.dim() == 0:
        core.errors.fail(
            RuntimeError,
            "glu",
            "a tensor with dimensions",
            got="glu does not support 0-dimensional tensors",
        )
    size = self.size(dim)
    if size % 2:
        core.errors.fail(
            RuntimeError,
            "glu",
            "an even size of the halved dimension",
            got=f"Halving dimension must be even, but size is {size}",
        )
    if one_node(self):
        return F._glu(self, dim)
    return self.narrow(dim, 0, size // 2) * F.sigmoid(self.narrow(dim, size // 2, size // 2))
