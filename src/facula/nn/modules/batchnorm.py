"""Batch normalization.

Takes ``[N, C, ...]``.  Gives it normalised per channel by the batch's statistics (training) or by
running ones.
Keeps true: running statistics are buffers, so is the number of batches (since format version 2);
``momentum=None`` makes the running statistics plain averages.
"""

from __future__ import annotations

from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.nn import functional as F
from facula.nn import init
from facula.nn.modules.lazy import LazyModuleMixin
from facula.nn.modules.module import Module
from facula.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "SyncBatchNorm",
]


class _NormBase(Module):
    """What batch and instance normalization share."""

    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]
    num_features: int
    eps: float
    momentum: float | None
    affine: bool
    track_running_stats: bool

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        where = {"device": device, "dtype": dtype}
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, present in (("weight", affine), ("bias", affine and bias)):
            value = Parameter(facula.empty(num_features, **where)) if present else None
            self.register_parameter(name, value)
        running = track_running_stats
        self.register_buffer(
            "running_mean", facula.zeros(num_features, **where) if running else None
        )
        self.register_buffer("running_var", facula.ones(num_features, **where) if running else None)
        count = facula.tensor(0, dtype=core.int64, device=device) if running else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget the running statistics."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Forget the running statistics; weight 1, bias 0."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: core.Tensor) -> None:
        raise NotImplementedError

    def extra_repr(self) -> str:
        """The parameters."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict,
        strict: bool,
        missing_keys: list,
        unexpected_keys: list,
        error_msgs: list,
    ) -> None:
        version = local_metadata.get("version", None)
        if (version is None or version < 2) and self.track_running_stats:
            key = prefix + "num_batches_tracked"
            if key not in state_dict:  # version 1 did not count batches
                own = self.num_batches_tracked
                keep = own is not None and own.device.type != "meta"
                state_dict[key] = own if keep else facula.tensor(0, dtype=core.int64)
        super()._load_from_state_dict(
            state_dict,
            prefix,
            local_metadata,
            strict,
            missing_keys,
            unexpected_keys,
            error_msgs,
        )


class _BatchNorm(_NormBase):
    def _average_factor(self) -> float:
        """Count a training batch and give the weight of its statistics in the running ones."""
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = 1.0 / float(self.num_batches_tracked)
        return factor

    def _uses_batch_statistics(self) -> bool:
        return self.training or (self.running_mean is None and self.running_var is None)

    def forward(self, input: core.Tensor) -> Any:
        """The same shape."""
        self._check_input_dim(input)
        factor = self._average_factor()
        tracked = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if tracked else None,
            self.running_var if tracked else None,
            self.weight,
            self.bias,
            self._uses_batch_statistics(),
            factor,
            self.eps,
        )


class _LazyNormBase(LazyModuleMixin, _NormBase):
    weight: Any
    bias: Any

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        where = {"device": device, "dtype": dtype}
        # affine and the statistics come afterwards, without a size
        super().__init__(0, eps, momentum, False, False, **where)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(**where)
            if bias:
                self.bias = UninitializedParameter(**where)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**where)
            self.running_var = UninitializedBuffer(**where)
            self.num_batches_tracked = facula.tensor(0, dtype=core.int64, device=device)

    def reset_parameters(self) -> None:
        """Reset once there is something to reset."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: core.Tensor) -> None:
        """Make weights and statistics for ``input``."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        for name in ("weight", "bias", "running_mean", "running_var"):
            tensor = getattr(self, name)
            if tensor is not None:
                tensor.materialize((self.num_features,))
        self.reset_parameters()


def _require_dims(input: core.Tensor, *allowed: int) -> None:
    if input.dim() not in allowed:
        names = " or ".join(f"{n}D" for n in allowed)
        fail(
            ValueError,
            "BatchNorm",
            f"expected {names} input (got {input.dim()}D input)",
            hint="unsqueeze(0) adds a batch of one",
        )


class _Checks1d:
    def _check_input_dim(self, input: core.Tensor) -> None:
        _require_dims(input, 2, 3)


class _Checks2d:
    def _check_input_dim(self, input: core.Tensor) -> None:
        _require_dims(input, 4)


class _Checks3d:
    def _check_input_dim(self, input: core.Tensor) -> None:
        _require_dims(input, 5)


class BatchNorm1d(_Checks1d, _BatchNorm):
    """Batch normalization: ``(x - mean) / sqrt(var + eps) * weight + bias`` for each channel. [Ioffe &
    Szegedy 2015]

    In training mean and (biased) variance are those of the batch, and running ones are kept:
    ``running = (1 - momentum) running + momentum batch``, the variance there unbiased. In
    evaluation the running ones serve.

    Args:
        num_features: the number of channels C
        eps: added to the variance
        momentum: the weight of the newest batch in running statistics; None for the plain average
            of all
        affine: whether ``weight`` (starts at 1) and ``bias`` (at 0), ``[C]``, are learned
        track_running_stats: whether running statistics are kept; False takes the batch's in
            evaluation, too
        device, dtype: of parameters and statistics
        bias: whether there is a bias where ``affine`` asks for parameters

    Shape:
        ``[N, C]`` or ``[N, C, L]``, and the output has the same.

    Raises:
        ValueError: at the call, where the number of dimensions is another, or one value a channel
            is given in training.

    Example:
        >>> norm = facula.nn.BatchNorm1d(2)
        >>> norm(facula.randn(3, 2)).shape, norm.num_batches_tracked
        (facula.Size([3, 2]), tensor(1))
        >>> norm.eval()
        BatchNorm1d(2, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """


class BatchNorm2d(_Checks2d, _BatchNorm):
    """Batch normalization: ``(x - mean) / sqrt(var + eps) * weight + bias`` for each channel. [Ioffe &
    Szegedy 2015]

    In training mean and (biased) variance are those of the batch, and running ones are kept:
    ``running = (1 - momentum) running + momentum batch``, the variance there unbiased. In
    evaluation the running ones serve.

    Args:
        num_features: the number of channels C
        eps: added to the variance
        momentum: the weight of the newest batch in running statistics; None for the plain average
            of all
        affine: whether ``weight`` (starts at 1) and ``bias`` (at 0), ``[C]``, are learned
        track_running_stats: whether running statistics are kept; False takes the batch's in
            evaluation, too
        device, dtype: of parameters and statistics
        bias: whether there is a bias where ``affine`` asks for parameters

    Shape:
        ``[N, C, H, W]``, and the output has the same.

    Raises:
        ValueError: at the call, where the number of dimensions is another, or one value a channel
            is given in training.

    Example:
        >>> norm = facula.nn.BatchNorm2d(2)
        >>> norm(facula.randn(3, 2, 4, 4)).shape, norm.num_batches_tracked
        (facula.Size([3, 2, 4, 4]), tensor(1))
        >>> norm.eval()
        BatchNorm2d(2, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """


class BatchNorm3d(_Checks3d, _BatchNorm):
    """Batch normalization: ``(x - mean) / sqrt(var + eps) * weight + bias`` for each channel. [Ioffe &
    Szegedy 2015]

    In training mean and (biased) variance are those of the batch, and running ones are kept:
    ``running = (1 - momentum) running + momentum batch``, the variance there unbiased. In
    evaluation the running ones serve.

    Args:
        num_features: the number of channels C
        eps: added to the variance
        momentum: the weight of the newest batch in running statistics; None for the plain average
            of all
        affine: whether ``weight`` (starts at 1) and ``bias`` (at 0), ``[C]``, are learned
        track_running_stats: whether running statistics are kept; False takes the batch's in
            evaluation, too
        device, dtype: of parameters and statistics
        bias: whether there is a bias where ``affine`` asks for parameters

    Shape:
        ``[N, C, D, H, W]``, and the output has the same.

    Raises:
        ValueError: at the call, where the number of dimensions is another, or one value a channel
            is given in training.

    Example:
        >>> norm = facula.nn.BatchNorm3d(2)
        >>> norm(facula.randn(3, 2, 4, 4, 4)).shape, norm.num_batches_tracked
        (facula.Size([3, 2, 4, 4, 4]), tensor(1))
        >>> norm.eval()
        BatchNorm3d(2, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """


class LazyBatchNorm1d(_Checks1d, _LazyNormBase, _BatchNorm):
    """`BatchNorm1d` that reads ``num_features`` off dimension 1 of its first input, and becomes one
    then.

    Args:
        eps, momentum, affine, track_running_stats, device, dtype, bias: as of `BatchNorm1d`

    Example:
        >>> norm = facula.nn.LazyBatchNorm1d()
        >>> norm(facula.ones(3, 2)).shape
        facula.Size([3, 2])
        >>> norm
        BatchNorm1d(2, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_Checks2d, _LazyNormBase, _BatchNorm):
    """`BatchNorm2d` that reads ``num_features`` off dimension 1 of its first input, and becomes one
    then.

    Args:
        eps, momentum, affine, track_running_stats, device, dtype, bias: as of `BatchNorm2d`

    Example:
        >>> norm = facula.nn.LazyBatchNorm2d()
        >>> norm(facula.ones(3, 2, 4, 4)).shape
        facula.Size([3, 2, 4, 4])
        >>> norm
        BatchNorm2d(2, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_Checks3d, _LazyNormBase, _BatchNorm):
    """`BatchNorm3d` that reads ``num_features`` off dimension 1 of its first input, and becomes one
    then.

    Args:
        eps, momentum, affine, track_running_stats, device, dtype, bias: as of `BatchNorm3d`

    Example:
        >>> norm = facula.nn.LazyBatchNorm3d()
        >>> norm(facula.ones(3, 2, 4, 4, 4)).shape
        facula.Size([3, 2, 4, 4, 4])
        >>> norm
        BatchNorm3d(2, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    cls_to_become = BatchNorm3d


class SyncBatchNorm(_BatchNorm):
    """Batch normalization over the batches of all processes of a group.

    Where no group of several processes takes part it is ordinary batch normalization.

    Args:
        num_features: the number of channels C
        eps: added to the variance
        momentum: the weight of the newest batch in running statistics; None for the plain average
        affine: whether ``weight`` and ``bias`` are learned
        track_running_stats: whether running statistics are kept
        process_group: the group; None for all processes
        device, dtype: of parameters and statistics
        bias: whether there is a bias where ``affine`` asks for parameters

    Shape:
        ``[N, C, *]``, and the output has the same. `convert_sync_batchnorm(model)` puts this layer
        in the place of all batch normalizations of a model.

    Example:
        >>> model = facula.nn.Sequential(facula.nn.Conv2d(3, 4, 1), facula.nn.BatchNorm2d(4))
        >>> facula.nn.SyncBatchNorm.convert_sync_batchnorm(model)[1]
        SyncBatchNorm(4, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: core.device | str | int | None = None,
        dtype: core.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: core.Tensor) -> None:
        if input.dim() < 2:
            fail(
                ValueError,
                "SyncBatchNorm",
                f"expected at least 2D input (got {input.dim()}D input)",
                hint="dimension 0 is the batch, dimension 1 the channels",
            )

    def _world_size(self) -> int:
        distributed = facula.distributed
        if not (distributed.is_available() and distributed.is_initialized()):
            return 1
        return distributed.get_world_size(self.process_group)

    def _synchronized(self, input: core.Tensor, factor: float) -> Any:
        """Normalise by statistics that are sums over all processes; the sums carry gradients."""
        reduce_dims = [0, *range(2, input.dim())]
        count = float(input.numel() // input.size(1))
        local = facula.cat(
            [input.sum(reduce_dims), (input * input).sum(reduce_dims), input.new_full((1,), count)]
        )
        total = facula.distributed.nn.functional.all_reduce(local, group=self.process_group)
        channels = input.size(1)
        size = total[-1]
        mean = total[:channels] / size
        var = total[channels:-1] / size - mean * mean
        if self.track_running_stats and self.running_mean is not None:
            unbiased = var.detach() * (size.detach() / (size.detach() - 1))
            self.running_mean.lerp_(mean.detach(), factor)
            self.running_var.lerp_(unbiased, factor)
        shape = [1, channels, *[1] * (input.dim() - 2)]
        out = (input - mean.view(shape)) * facula.rsqrt(var.view(shape) + self.eps)
        if self.weight is not None:
            out = out * self.weight.view(shape)
        return out if self.bias is None else out + self.bias.view(shape)

    def forward(self, input: core.Tensor) -> Any:
        """The same shape."""
        if not self._uses_batch_statistics() or not self.training or self._world_size() == 1:
            return super().forward(input)
        self._check_input_dim(input)
        return self._synchronized(input, self._average_factor())

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """``module`` with every batch normalization in it replaced by this class."""
        result = module
        if isinstance(module, _BatchNorm):
            result = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
            )
            if module.affine:
                result.weight = module.weight
                result.bias = module.bias
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(result, name, getattr(module, name))
            result.training = module.training
            if hasattr(module, "qconfig"):
                result.qconfig = module.qconfig
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result
