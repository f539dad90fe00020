"""Reference implementations below `nn`: see `functional`."""

from facula._refs.nn import functional

__all__ = ["functional"]
