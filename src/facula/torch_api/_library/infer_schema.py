"""Schemas of functions, under the name of PyTorch's module."""

from facula.torch_api.library import infer_schema

__all__ = ["infer_schema"]
