"""Names under which PyTorch has these layers; they stand in `shape`."""

from facula.nn.modules.shape import ChannelShuffle

__all__ = ["ChannelShuffle"]
