"""Schemas of functions, under the name of PyTorch's module."""

from facula import core
from facula.torch_api.library import infer_schema
from facula.torch_api.library.schemas import tuple_to_list

__all__ = ["SUPPORTED_RETURN_TYPES", "infer_schema", "tuple_to_list"]

#: annotations of single results, as a schema says them
SUPPORTED_RETURN_TYPES = {
    core.Tensor: "Tensor",
    list[core.Tensor]: "Tensor[]",
    int: "SymInt",
    float: "float",
    bool: "bool",
    int | float | bool: "Scalar",
}
