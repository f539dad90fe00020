"""Names under which PyTorch has these layers; they stand in `shape`."""

from facula.nn.modules.shape import PixelShuffle, PixelUnshuffle

__all__ = ["PixelShuffle", "PixelUnshuffle"]
