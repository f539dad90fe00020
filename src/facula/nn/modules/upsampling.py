"""Names under which PyTorch has these layers; they stand in `shape`."""

from facula.nn.modules.shape import Upsample, UpsamplingBilinear2d, UpsamplingNearest2d

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]
