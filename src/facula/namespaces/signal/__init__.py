"""Signal processing: windows.

Re-exports; nothing else.
"""

from . import windows

__all__ = ["windows"]
