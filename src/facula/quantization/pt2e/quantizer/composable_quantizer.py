"""Quantizers in a row.

Takes: quantizers. Gives: one that annotates by each in turn. Keeps true: what one has annotated is its own.
"""

from __future__ import annotations

from typing import Any

from facula.core.errors import fail
from facula.quantization.pt2e.quantizer.quantizer import Quantizer

__all__ = ["ComposableQuantizer"]


class ComposableQuantizer(Quantizer):
    """Several quantizers, each of which annotates what those before it have left."""

    def __init__(self, quantizers: list[Quantizer]) -> None:
        super().__init__()
        self.quantizers = list(quantizers)
        self._graph_annotations: dict[Any, Any] = {}

    def _record(self, model: Any, quantizer: Quantizer) -> None:
        for node in model.graph.nodes:
            annotation = node.meta.get("quantization_annotation")
            if node in self._graph_annotations and self._graph_annotations[node] is not annotation:
                fail(
                    RuntimeError,
                    "ComposableQuantizer",
                    f"nodes that are annotated once were required: Quantizer {type(quantizer).__name__} "
                    "has changed annotations",
                    f"node {node.name}",
                    hint="a quantizer leaves nodes alone that have an annotation",
                )
            if annotation is not None:
                self._graph_annotations[node] = annotation

    def annotate(self, model: object) -> Any:
        """Annotate by each."""
        self._graph_annotations.clear()
        for quantizer in self.quantizers:
            quantizer.annotate(model)
            self._record(model, quantizer)
        return model

    def transform_for_annotation(self, model: object) -> Any:
        """The changes of each, one after the other."""
        for quantizer in self.quantizers:
            model = quantizer.transform_for_annotation(model)
        return model

    def validate(self, model: object) -> None:
        """The checks of each."""
        for quantizer in self.quantizers:
            quantizer.validate(model)
