"""Helpers of the tests of `compile`: a backend that keeps graphs, and comparison of any results."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import facula


class Graphs(list):
    """A backend that runs captured graphs as they are, and keeps them."""

    def __call__(self, graph_module: Any, inputs: Any) -> Any:
        self.append((graph_module, list(inputs)))
        return graph_module.forward

    __name__ = "graphs"


def equal(a: Any, b: Any) -> bool:
    """Whether two results are the same, tensors by their elements."""
    if isinstance(a, facula.Tensor):
        same = isinstance(b, facula.Tensor) and a.shape == b.shape and a.dtype == b.dtype
        return same and facula.allclose(a.double(), b.double(), equal_nan=True)
    if isinstance(a, (list, tuple, collections.deque)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[k], b[k]) for k in a)
    if dataclasses.is_dataclass(a):
        return type(a) is type(b) and equal(vars(a), vars(b))
    return type(a) is type(b) and a == b
