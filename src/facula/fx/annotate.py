"""Types that a traced program says of its values.

Takes: a value and a type. Gives: the value, whose node has the type.
Keeps true: outside of a trace nothing happens.
"""

from __future__ import annotations

from typing import Any

from facula.core.errors import fail
from facula.fx.proxy import Proxy

__all__ = ["annotate"]


def annotate(val: Any, type: type) -> Any:
    """Says of a value in a traced program that it has a type.

    Args:
        val: the value.
        type: what is written behind its name in the code of the graph.

    >>> from facula.fx.annotate import annotate
    >>> traced = facula.fx.symbolic_trace(lambda x: annotate(x.sum(), facula.Tensor) + 1)
    >>> list(traced.graph.nodes)[1].type
    <class 'facula.Tensor'>
    """
    if not isinstance(val, Proxy):
        return val
    if val.node.type:
        fail(
            RuntimeError,
            "annotate",
            "a value without a type",
            f"{val.node} of type {val.node.type}",
            hint="say it once",
        )
    val.node.type = type
    return val
