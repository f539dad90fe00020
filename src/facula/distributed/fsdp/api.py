"""Settings of `FullyShardedDataParallel`, under PyTorch's names.

Takes and gives plain values. Keeps true: what the cpu has no use for is taken and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

__all__ = [
    "BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig",
    "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision", "OptimStateDictConfig",
    "OptimStateKeyType", "ShardedOptimStateDictConfig", "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig",
    "StateDictSettings", "StateDictType",
]  # fmt: skip


class ShardingStrategy(Enum):
    """What is cut: parameters, gradients and states (FULL), all but whole parameters between forward and
    backward (SHARD_GRAD_OP), nothing (NO_SHARD), or either within groups of which there are copies (HYBRID)."""

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When the unit that comes next in the backward pass is gathered: before this one computes, or after."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


@dataclass
class MixedPrecision:
    """Dtypes of what is computed with, of the exchange of gradients, and of buffers."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type] = ()


@dataclass
class CPUOffload:
    """Whether pieces lie in the processor's memory, where those of the cpu lie anyway."""

    offload_params: bool = False


class OptimStateKeyType(Enum):
    """What the states of an optimizer are kept under: the names of parameters, or their numbers."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


class StateDictType(Enum):
    """Whole tensors, flat pieces as they are, or pieces of each parameter as distributed tensors."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


@dataclass
class StateDictConfig:
    """What a state is to be."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Whole tensors, on each rank or on the first."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Flat pieces."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Distributed tensors."""

    _use_dtensor: bool = True


@dataclass
class OptimStateDictConfig:
    """What a state of an optimizer is to be."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Whole tensors, on each rank or on the first."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Flat pieces."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Distributed tensors."""

    _use_dtensor: bool = True


@dataclass
class StateDictSettings:
    """The kind of states, and what they are to be."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
