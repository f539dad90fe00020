"""Faults of the compiler and of backends: raised, or, where `suppress_errors` is on, counted and warned of.

Takes: an exception that left a stage of the compiler. Gives: `fault`: the exception to raise;
`suppressed`: whether the program goes on without what failed.
Keeps true: without `suppress_errors` every fault is raised, with the stage and the user's line; with it
every fault is an event, a count in `COUNTERS["suppressed_errors"]` and a warning.
"""

from __future__ import annotations

import warnings
from typing import Any

from facula.capture import config
from facula.capture.errors import (
    InternalTorchDynamoError,
    SuppressedFaultWarning,
    TorchDynamoException,
    UncapturedHigherOrderOpError,
)
from facula.capture.events import COUNTERS, Event, happened
from facula.core import logs
from facula.core.stages import Place, place_of

__all__ = ["fault", "suppressed"]


def fault(error: Exception, line: Any = None) -> InternalTorchDynamoError:
    """What to raise for an exception of the compiler's own code; one of the program's is raised as it is."""
    if isinstance(error, UncapturedHigherOrderOpError):
        raise error
    place = place_of(error) or Place("capture")
    return InternalTorchDynamoError.of(error, place.stage, line or place.line)


def suppressed(error: TorchDynamoException, function: str, goes_on: str) -> bool:
    """Whether the settings let the program go on without what failed; then that is told.

    Args:
        error: the fault, as it would be raised.
        function: where in the program it was met.
        goes_on: what runs instead.
    """
    if not config.suppress_errors:
        return False
    inner = getattr(error, "inner_exception", None) or error
    cause = f"{type(inner).__name__}: {str(inner).partition(chr(10))[0]}"
    stage, line = getattr(error, "stage", "capture"), getattr(error, "line", None)
    COUNTERS["suppressed_errors"][f"{stage}: {cause}"] += 1
    event = Event("suppressed error", "internal", function, line, f"{stage}: {cause}; {goes_on}")
    happened(event._replace(rewrite="suppress_errors = False raises it with its traceback"))
    logs.get_logger("dynamo").debug("a fault of the compiler", exc_info=error)
    text = f"[compile] a fault in {function} is suppressed ({stage}): {cause}; {goes_on}"
    warnings.warn(text, SuppressedFaultWarning, stacklevel=2)
    return True
