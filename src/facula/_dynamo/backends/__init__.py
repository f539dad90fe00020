"""Backends, under the names that PyTorch programs use."""

from facula._dynamo.backends import registry
