"""Normalisation under PyTorch's low-level names, which also give the statistics.

Takes a batch, parameters and running statistics; gives the result, the mean and the inverse
deviation. Keeps true: the results are those of `norm` and `norm_channel`; running statistics are
updated in place in training.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.layers.norm import second, wide_of
from facula.ops.layers.norm_channel import check_channels
from facula.ops.table.registry import F, composite


def _kept(input: core.Tensor, known: core.Tensor) -> Any:
    """The dtype in which statistics are given; on the meta device it is that of accelerators, as in PyTorch."""
    return wide_of(input.dtype) if input.device.type == "meta" else known.dtype


def _batch(
    input: core.Tensor,
    weight: Any,
    bias: core.Tensor | None,
    means: Any,
    variances: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Any, Any, Any]:
    count = input.shape[1] if input.dim() > 1 else 0
    check_channels("native_batch_norm", input, count, weight=weight, bias=bias,
                   running_mean=means, running_var=variances)  # fmt: skip
    if (means is None) != (variances is None):
        required = "running_mean and running_var must either both be None or neither be None"
        hint = "pass both, or none of them"
        fail(ValueError, "native_batch_norm", required, "one of them", hint)
    if not training:
        if means is None or variances is None:
            fail(
                RuntimeError,
                "native_batch_norm",
                "running statistics were required without training",
                "None",
                hint="pass both, or training=True to use the batch's own",
            )
        # on the meta device as on accelerators, which fill statistics in evaluation too
        size = (count if input.device.type == "meta" else 0,)
        none = core.empty(size, dtype=_kept(input, means), device=input.device)
        return F.batch_norm_eval(input, means, variances, weight, bias, eps), none, none.clone()
    results = F.batch_norm_train(input, weight, bias, means, variances, momentum, eps)
    if results[3].numel() and input.numel():
        means.copy_(results[3])
        variances.copy_(results[4])
    kept = _kept(input, input if weight is None else weight)
    return results[0], results[1].to(kept), results[2].to(kept)


_PARAMETERS = "Tensor input, Tensor? weight, Tensor? bias"
_THREE = "(Tensor, Tensor, Tensor)"


@composite(
    f"native_batch_norm({_PARAMETERS}, Tensor? running_mean, Tensor? running_var, bool training, "
    "float momentum, "
    f"float eps) -> {_THREE}",
    names=("native_batch_norm",),
    nondifferentiable=(1, 2),
)
def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """Batch norm, with the batch's mean and inverse deviation (empty without training)."""
    return _batch(input, weight, bias, running_mean, running_var, training, momentum, eps)


@composite(
    f"_native_batch_norm_legit({_PARAMETERS}, any... rest) -> {_THREE}",
    names=("_native_batch_norm_legit",),
)
def _native_batch_norm_legit(input, weight, bias, rest):
    """`native_batch_norm` with running statistics (two more tensors), or without."""
    if len(rest) == 3:
        rest = (None, None, *rest)
    return _batch(input, weight, bias, *rest)


@composite(
    f"_batch_norm_with_update({_PARAMETERS}, Tensor running_mean, Tensor running_var, float "
    "momentum, float eps) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
    names=("_batch_norm_with_update",),
    out=False,
)
def _batch_norm_with_update(input, weight, bias, running_mean, running_var, momentum, eps):
    """Batch norm in training, and an empty tensor in the place of other libraries' notes."""
    results = _batch(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return (*results, core.empty((0,), dtype=core.uint8, device=input.device))


@composite(
    "native_group_norm_of_sizes(Tensor input, Tensor? weight, Tensor? bias, int N, int C, int "
    "HxW, int group, "
    f"float eps) -> {_THREE}",
    names=("native_group_norm",),
    out=False,
    nondifferentiable=(1, 2),
    stands_for="native_group_norm",
)
def native_group_norm_of_sizes(
    input,
    weight,
    bias,
    N,
    C,
    HxW,
    group,
    eps,  # noqa: N803
):
    """Group norm of `[N, C, *]` with `HxW` places, with the groups' means and inverse
    deviations.
    """
    if group < 1:
        required = "Expected num groups to be greater than 0"
        fail(RuntimeError, "native_group_norm", required, group, "1 makes it a layer norm")
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and tuple(parameter.shape) != (C,):
            required = (
                f"Expected {name} to be a vector of size equal to the number of channels ({C})"
            )
            hint = f"give {name} of shape [{C}]"
            fail(RuntimeError, "native_group_norm", required, list(parameter.shape), hint)
    if input.numel() != N * C * HxW or C % group:
        fail(
            RuntimeError,
            "native_group_norm",
            f"N * C * HxW elements in {group} groups",
            list(input.shape),
            hint="N, C and HxW are the input's sizes; C is a multiple of group",
        )
    out, mean, scale = F.native_group_norm(input.reshape((N, C, HxW)), group, weight, bias, eps)
    if core.interpreters() or (
        input.requires_grad and core.is_grad_enabled()
    ):  # PyTorch differentiates the statistics too
        rows = input.reshape((N, group, C // group * HxW))
        if input.itemsize == 2 and not core.interpreters():
            second()  # defines the operator
            statistics = F._group_statistics(rows.unsqueeze(2), mean, scale)
            mean, scale = (s.reshape((N, group)) for s in statistics)
        else:
            mean = rows.mean(-1)
            scale = (rows.var(-1, correction=0) + eps).rsqrt()
    kept = next((p for p in (weight, bias) if p is not None), input).dtype
    return out.reshape(input.shape), mean.to(kept), scale.to(kept)


@composite(
    "native_layer_norm_of_dtype(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? "
    f"bias, float eps) -> {_THREE}",
    names=("native_layer_norm",),
    out=False,
)
def native_layer_norm_of_dtype(input, normalized_shape, weight, bias, eps):
    """Layer norm, with the rows' means and inverse deviations in the parameters' or the input's dtype."""
    out, mean, scale = F.native_layer_norm(input, normalized_shape, weight, bias, eps)
    known = next((p for p in (weight, bias) if p is not None), input)
    kept = _kept(input, known)
    return out, mean.to(kept), scale.to(kept)
