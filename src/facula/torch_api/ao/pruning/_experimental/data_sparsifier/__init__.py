"""Masks of tensors that belong to no model, and of tables.

Re-exports `BaseDataSparsifier` and `DataNormSparsifier`.
"""

from .base_data_sparsifier import BaseDataSparsifier
from .data_norm_sparsifier import DataNormSparsifier

__all__ = ["BaseDataSparsifier", "DataNormSparsifier"]
