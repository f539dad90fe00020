"""Lists of tensors by device and dtype, as optimizers and clipping take them.

Takes: lists of tensors of one length. Gives: groups of entries whose first tensors are alike.
Keeps true: the order within a group is that of the lists; an entry that is None stays with its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail

_Groups = dict[tuple[core.device, core.dtype], tuple[list[list[Any]], list[int]]]


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Devices that have one launch for a list of tensors."""
    return ["cpu", "cuda", "xpu"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Devices that have one launch for an optimizer's step."""
    return ["cpu", "cuda", "mps", "xpu"]


def _device_has_foreach_support(device: core.device) -> bool:
    """Whether a device has one launch for a list of tensors."""
    return device.type in _get_foreach_kernels_supported_devices()


def _has_foreach_support(tensors: Sequence[core.Tensor | None], device: core.device) -> bool:
    """Whether all tensors (None aside) may go through one launch."""
    return _device_has_foreach_support(device) and all(
        tensor is None or type(tensor) is core.Tensor for tensor in tensors
    )


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[core.Tensor | None]], with_indices: bool = False
) -> _Groups:
    """Rows of the lists by device and dtype of the first list: ``{key: (lists, numbers of the rows)}``."""
    lengths = {len(given) for given in tensorlistlist}
    if len(lengths) > 1:
        fail(RuntimeError, "_group_tensors_by_device_and_dtype", "lists of one length were required",
             sorted(lengths), hint="None stands for a tensor that is missing")  # fmt: skip
    groups: _Groups = {}
    for number, row in enumerate(zip(*tensorlistlist, strict=True)):
        first = row[0]
        if first is None:
            fail(RuntimeError, "_group_tensors_by_device_and_dtype", "tensors in the first list were required", "None",
                 hint="the first list says where a row belongs")  # fmt: skip
        lists, numbers = groups.setdefault(
            (first.device, first.dtype), ([[] for _ in tensorlistlist], [])
        )
        for kept, tensor in zip(lists, row, strict=True):
            kept.append(tensor)
        if with_indices:
            numbers.append(number)
    return groups
