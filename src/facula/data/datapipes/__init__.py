"""Pipes: datasets that are made of one another, step by step.

Takes nothing. Gives the base classes and, in `iter` and `map`, the steps.
Keeps true: importing this package registers all steps as methods of the base classes.
"""

from facula.data.datapipes import iter, map
from facula.data.datapipes._decorator import (
    argument_validation,
    functional_datapipe,
    guaranteed_datapipes_determinism,
    non_deterministic,
    runtime_validation,
    runtime_validation_disabled,
)
from facula.data.datapipes.datapipe import (
    DataChunk,
    DFIterDataPipe,
    IterDataPipe,
    MapDataPipe,
)

__all__ = [
    "DFIterDataPipe",
    "DataChunk",
    "IterDataPipe",
    "MapDataPipe",
    "argument_validation",
    "functional_datapipe",
    "guaranteed_datapipes_determinism",
    "iter",
    "map",
    "non_deterministic",
    "runtime_validation",
    "runtime_validation_disabled",
]
