"""Instance normalization.

Takes ``[N, C, ...]`` or ``[C, ...]``.  Gives it normalised over the positions of every channel of
every instance.
Keeps true: an input without a batch gives an output without one; running statistics are optional
and off by default.
"""

from __future__ import annotations

import warnings
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.nn import functional as F
from facula.nn.modules.batchnorm import _LazyNormBase, _NormBase

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]


class _InstanceNorm(_NormBase):
    _no_batch_dim = 0

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: core.device | str | int | None = None,
        dtype: core.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _get_no_batch_dim(self) -> int:
        return self._no_batch_dim

    def _check_input_dim(self, input: core.Tensor) -> None:
        unbatched = self._get_no_batch_dim()
        if input.dim() not in (unbatched, unbatched + 1):
            fail(
                ValueError,
                type(self).__name__,
                f"expected {unbatched}D or {unbatched + 1}D input (got {input.dim()}D input)",
                hint="unsqueeze(0) adds a dimension in front",
            )

    def _apply_instance_norm(self, input: core.Tensor) -> Any:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
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
        # version 1 kept running statistics whether or not they were asked for
        if version is None and not self.track_running_stats:
            stale = [
                prefix + n for n in ("running_mean", "running_var") if prefix + n in state_dict
            ]
            if stale:
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {' and '.join(map(repr, stale))} for "
                    f"{type(self).__name__} with track_running_stats=False. If state_dict is a "
                    "checkpoint saved "
                    "before 0.4.0, this may be expected: set track_running_stats=True or delete "
                    "the keys."
                )
                for key in stale:
                    state_dict.pop(key)
        super()._load_from_state_dict(
            state_dict,
            prefix,
            local_metadata,
            strict,
            missing_keys,
            unexpected_keys,
            error_msgs,
        )

    def forward(self, input: core.Tensor) -> Any:
        """The same shape."""
        self._check_input_dim(input)
        channels = input.dim() - self._get_no_batch_dim()
        if input.size(channels) != self.num_features:
            message = (
                f"as many channels as features were required: expected input's size at dim={channels} "
                f"to match num_features ({self.num_features}), but got: {input.size(channels)}"
            )
            if self.affine:
                fail(
                    ValueError,
                    type(self).__name__,
                    message,
                    hint="num_features is the number of channels",
                )
            warnings.warn(f"{message}; it is not used as affine=False", stacklevel=2)
        if input.dim() == self._get_no_batch_dim():
            return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)
        return self._apply_instance_norm(input)


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each instance over its positions. [Ulyanov et al. 2016]

    ``(x - mean) / sqrt(var + eps)``, in training and evaluation alike, without parameters unless
    asked for.

    Args:
        num_features: the number of channels C
        eps: added to the variance
        momentum: the weight of the newest batch in running statistics
        affine: whether ``weight`` and ``bias``, ``[C]``, are learned
        track_running_stats: whether running statistics are kept, and used in evaluation
        device, dtype: of parameters and statistics
        bias: whether there is a bias where ``affine`` asks for parameters

    Shape:
        ``[N, C, L]`` or ``[C, L]``, and the output has the same.

    Example:
        >>> norm = facula.nn.InstanceNorm1d(2)
        >>> norm(facula.randn(3, 2, 5)).shape
        facula.Size([3, 2, 5])
    """

    _no_batch_dim = 2


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each instance over its positions. [Ulyanov et al. 2016]

    ``(x - mean) / sqrt(var + eps)``, in training and evaluation alike, without parameters unless
    asked for.

    Args:
        num_features: the number of channels C
        eps: added to the variance
        momentum: the weight of the newest batch in running statistics
        affine: whether ``weight`` and ``bias``, ``[C]``, are learned
        track_running_stats: whether running statistics are kept, and used in evaluation
        device, dtype: of parameters and statistics
        bias: whether there is a bias where ``affine`` asks for parameters

    Shape:
        ``[N, C, H, W]`` or ``[C, H, W]``, and the output has the same.

    Example:
        >>> norm = facula.nn.InstanceNorm2d(2)
        >>> norm(facula.randn(3, 2, 4, 4)).shape
        facula.Size([3, 2, 4, 4])
    """

    _no_batch_dim = 3


class InstanceNorm3d(_InstanceNorm):
    """Normalises each channel of each instance over its positions. [Ulyanov et al. 2016]

    ``(x - mean) / sqrt(var + eps)``, in training and evaluation alike, without parameters unless
    asked for.

    Args:
        num_features: the number of channels C
        eps: added to the variance
        momentum: the weight of the newest batch in running statistics
        affine: whether ``weight`` and ``bias``, ``[C]``, are learned
        track_running_stats: whether running statistics are kept, and used in evaluation
        device, dtype: of parameters and statistics
        bias: whether there is a bias where ``affine`` asks for parameters

    Shape:
        ``[N, C, D, H, W]`` or ``[C, D, H, W]``, and the output has the same.

    Example:
        >>> norm = facula.nn.InstanceNorm3d(2)
        >>> norm(facula.randn(3, 2, 4, 4, 4)).shape
        facula.Size([3, 2, 4, 4, 4])
    """

    _no_batch_dim = 4


class _LazyInstanceNorm(_LazyNormBase, _InstanceNorm):
    def initialize_parameters(self, input: core.Tensor) -> None:
        """Make weights and statistics for ``input``, whose channels lie before the positions."""
        if self.has_uninitialized_params():
            batched = input.dim() != self._get_no_batch_dim()
            super().initialize_parameters(input if batched else input.unsqueeze(0))


class LazyInstanceNorm1d(_LazyInstanceNorm):
    """`InstanceNorm1d` that reads ``num_features`` off its first input, and becomes one then.

    Args:
        eps, momentum, affine, track_running_stats, device, dtype, bias: as of `InstanceNorm1d`, the
            same defaults as of `BatchNorm1d`

    Example:
        >>> norm = facula.nn.LazyInstanceNorm1d()
        >>> norm(facula.ones(3, 2, 5)).shape
        facula.Size([3, 2, 5])
    """

    cls_to_become = InstanceNorm1d
    _no_batch_dim = 2


class LazyInstanceNorm2d(_LazyInstanceNorm):
    """`InstanceNorm2d` that reads ``num_features`` off its first input, and becomes one then.

    Args:
        eps, momentum, affine, track_running_stats, device, dtype, bias: as of `InstanceNorm2d`, the
            same defaults as of `BatchNorm2d`

    Example:
        >>> norm = facula.nn.LazyInstanceNorm2d()
        >>> norm(facula.ones(3, 2, 4, 4)).shape
        facula.Size([3, 2, 4, 4])
    """

    cls_to_become = InstanceNorm2d
    _no_batch_dim = 3


class LazyInstanceNorm3d(_LazyInstanceNorm):
    """`InstanceNorm3d` that reads ``num_features`` off its first input, and becomes one then.

    Args:
        eps, momentum, affine, track_running_stats, device, dtype, bias: as of `InstanceNorm3d`, the
            same defaults as of `BatchNorm3d`

    Example:
        >>> norm = facula.nn.LazyInstanceNorm3d()
        >>> norm(facula.ones(3, 2, 4, 4, 4)).shape
        facula.Size([3, 2, 4, 4, 4])
    """

    cls_to_become = InstanceNorm3d
    _no_batch_dim = 4
