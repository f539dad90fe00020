"""The module in which PyTorch has Muon; it stands in `other`."""

from facula.optim.other import Muon, muon

__all__ = ["Muon", "muon"]
