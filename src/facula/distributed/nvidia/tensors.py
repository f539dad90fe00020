"""facula's tensors of the device `cuda` as pieces of device memory.

Takes: a tensor of the device. Gives: `piece_of_tensor`.
Keeps true: nothing is copied; what is done to a piece is done behind the stream on which this thread's work goes.
"""

from __future__ import annotations

from facula import core
from facula.core.errors import fail
from facula.distributed.nvidia.communicator import Piece

__all__ = ["piece_of_tensor"]

#: the driver's name of the stream that has no handle
_DEFAULT_STREAM = 1


def piece_of_tensor(tensor: core.Tensor, op: str = "nccl") -> Piece:
    """The elements of a tensor of the device `cuda`.

    Raises:
        ValueError: they do not follow each other.
    """
    if not tensor.is_contiguous():
        fail(ValueError, op, "elements that follow each other were required (Tensors must be contiguous)",
             f"strides {tuple(tensor.stride())} of shape {tuple(tensor.shape)}",
             hint="tensor.contiguous() copies it")  # fmt: skip
    block, offset = core.foreign_buffer(tensor)
    return Piece(
        int(block.pointer + offset), tensor.numel(), tensor.dtype.name, tensor.element_size(),
        block.machine.stream or _DEFAULT_STREAM, tuple(tensor.shape), tensor,
    )  # fmt: skip
