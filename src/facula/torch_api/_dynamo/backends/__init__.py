"""Backends, under the names that PyTorch programs use."""

from . import registry
