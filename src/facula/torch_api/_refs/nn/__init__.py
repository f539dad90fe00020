"""Reference implementations below `nn`: see `functional`."""

from . import functional

__all__ = ["functional"]
