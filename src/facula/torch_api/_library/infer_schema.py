"""Schemas of functions, under the name of PyTorch's module."""

from facula.torch_api.library import infer_schema
from facula.torch_api.library.schemas import tuple_to_list

__all__ = ["infer_schema", "tuple_to_list"]
