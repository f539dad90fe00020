"""Schedules of one setting of a data sparsifier.

Re-exports `BaseDataScheduler`.
"""

from .base_data_scheduler import BaseDataScheduler

__all__ = ["BaseDataScheduler"]
