"""What quantizers say of a graph: which values become integers, of which dtype, by whose parameters.

Takes: nothing. Gives: specifications of values, `QuantizationAnnotation` (what a node's `meta` holds under
`quantization_annotation`) and `Quantizer`, which programs derive from. Keeps true: a specification is a constant.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Union

from facula.core.errors import fail
from facula.fx import Node
from facula.quantization.observer import _PLAIN
from facula.quantization.tensor import RANGES

__all__ = [
    "DerivedQuantizationSpec",
    "EdgeOrNode",
    "FixedQParamsQuantizationSpec",
    "QuantizationAnnotation",
    "QuantizationSpec",
    "QuantizationSpecBase",
    "Quantizer",
    "SharedQuantizationSpec",
]

#: a value where it is taken (producer, consumer), or a value where it is made
EdgeOrNode = Union[tuple[Node, Node], Node]  # noqa: UP007 - PyTorch's programs look at it


class QuantizationSpecBase(ABC):  # noqa: B024 - PyTorch's name for what specifications have in common
    """A value's specification."""


def _check_range(spec: Any) -> None:
    low, high = spec.quant_min, spec.quant_max
    if low is not None and high is not None and low >= high:
        fail(
            ValueError,
            type(spec).__name__,
            "quant_min must be less than quant_max",
            f"{low} and {high}",
            hint="0 to 255, or -128 to 127",
        )
    known = RANGES[spec.dtype][1:] if spec.dtype in RANGES else _PLAIN.get(spec.dtype)
    if known and ((low is not None and low < known[0]) or (high is not None and high > known[1])):
        fail(
            ValueError,
            type(spec).__name__,
            f"a range of integers inside of that of {spec.dtype} was required",
            f"{low} to {high}",
            hint=f"{known[0]} to {known[1]}",
        )


@dataclass(eq=True, frozen=True)
class QuantizationSpec(QuantizationSpecBase):
    """Parameters by an observer (or fake quantization), which `observer_or_fake_quant_ctr` makes."""

    dtype: Any
    observer_or_fake_quant_ctr: Any
    quant_min: int | None = None
    quant_max: int | None = None
    qscheme: Any = None
    ch_axis: int | None = None
    is_dynamic: bool = False

    def __post_init__(self) -> None:
        _check_range(self)
        if self.ch_axis is not None and self.ch_axis < 0:
            fail(
                ValueError,
                "QuantizationSpec",
                "Ch_axis is < 0: a dimension was required",
                self.ch_axis,
                hint="0 for the weight of a linear layer or a convolution",
            )


@dataclass(eq=True, frozen=True)
class FixedQParamsQuantizationSpec(QuantizationSpecBase):
    """Parameters that are known: those of a sigmoid, for example."""

    dtype: Any
    scale: float
    zero_point: int
    quant_min: int | None = None
    quant_max: int | None = None
    qscheme: Any = None
    is_dynamic: bool = False

    def __post_init__(self) -> None:
        _check_range(self)


@dataclass(eq=True, frozen=True)
class SharedQuantizationSpec(QuantizationSpecBase):
    """The parameters of another value."""

    edge_or_node: Any


@dataclass(eq=True, frozen=True)
class DerivedQuantizationSpec(QuantizationSpecBase):
    """Parameters that `derive_qparams_fn` makes of the observers of other values."""

    derived_from: list[Any]
    derive_qparams_fn: Callable[[list[Any]], tuple[Any, Any]]
    dtype: Any
    quant_min: int | None = None
    quant_max: int | None = None
    qscheme: Any = None
    ch_axis: int | None = None
    is_dynamic: bool = False

    def __post_init__(self) -> None:
        _check_range(self)


@dataclass
class QuantizationAnnotation:
    """What a quantizer says of a node: of its inputs, by the node that makes them, and of its result."""

    input_qspec_map: dict[Any, Any] = field(default_factory=dict)
    output_qspec: Any = None
    allow_implicit_sharing: bool = True
    _annotated: bool = False


class Quantizer(ABC):
    """Says which values of a graph become integers, by annotations of its nodes."""

    def transform_for_annotation(self, model: object) -> Any:
        """Change the graph before it is annotated."""
        return model

    @abstractmethod
    def annotate(self, model: object) -> Any:
        """Put a `QuantizationAnnotation` into the `meta` of nodes."""

    @abstractmethod
    def validate(self, model: object) -> None:
        """Raise where the annotated graph is none that the backend runs."""

    def prepare_obs_or_fq_callback(  # noqa: B027 - nothing to do is what most quantizers want
        self, model: object, edge_or_node_to_obs_or_fq: object
    ) -> None:
        """Change observers before they are put in."""
