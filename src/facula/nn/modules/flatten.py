"""Names under which PyTorch has these layers; they stand in `shape`."""

from facula.nn.modules.shape import Flatten, Unflatten

__all__ = ["Flatten", "Unflatten"]
