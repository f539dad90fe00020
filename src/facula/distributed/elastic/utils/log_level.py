"""How much agents tell, where nobody says."""

from __future__ import annotations

__all__ = ["get_log_level"]


def get_log_level() -> str:
    """The level of agents' loggers where LOGLEVEL is not set."""
    return "WARNING"
