"""The memory format of convolution weights in a tree of modules.

Takes a module and a memory format.  Gives the module with its convolutions' weights in that format.
Keeps true: values are unchanged; transposed convolutions count too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from facula.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d

if TYPE_CHECKING:
    from facula.nn.modules.module import Module


def _convert(module: Module, kinds: tuple, memory_format: object) -> Any:
    for part in module.modules():
        if isinstance(part, kinds):
            part.weight.data = part.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Module, memory_format: object) -> Any:
    """Puts the weights of all 2-d convolutions of a module into a memory format, in place.

    Args:
        module: the tree
        memory_format: ``facula.channels_last`` or ``facula.contiguous_format``

    Returns:
        the module.

    Example:
        >>> layer = facula.nn.Conv2d(2, 3, 2)
        >>> _ = facula.nn.utils.convert_conv2d_weight_memory_format(layer, facula.channels_last)
        >>> layer.weight.stride()
        (8, 1, 4, 2)
    """
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Module, memory_format: object) -> Any:
    """Puts the weights of all 3-d convolutions of a module into a memory format, in place.

    Args:
        module: the tree
        memory_format: ``facula.channels_last_3d`` or ``facula.contiguous_format``

    Returns:
        the module.

    Example:
        >>> layer = facula.nn.Conv3d(2, 3, 2)
        >>> _ = facula.nn.utils.convert_conv3d_weight_memory_format(layer, facula.channels_last_3d)
        >>> layer.weight.stride()
        (16, 1, 8, 4, 2)
    """
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
