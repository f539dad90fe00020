"""Where events go, by name.

Takes: a name. Gives: a handler of Python's logging.
Keeps true: an unknown name lets events go.
"""

from __future__ import annotations

import logging
import sys

__all__ = ["get_logging_handler"]

#: by the name that `--event-log-handler` takes
_HANDLERS: dict[str, logging.Handler] = {"null": logging.NullHandler()}


def get_logging_handler(destination: str = "null") -> logging.Handler:
    """The handler of a name: `null`, `console`, or one that a program registered.

    Args:
        destination: the name; an unknown one is `null`

    Example:
        >>> from facula.distributed.elastic.events import get_logging_handler
        >>> type(get_logging_handler()).__name__
        'NullHandler'
    """
    if destination == "console":
        return logging.StreamHandler(sys.stderr)
    return _HANDLERS.get(destination, _HANDLERS["null"])
