"""Signal processing: windows.

Re-exports; nothing else.
"""

from facula.signal import windows

__all__ = ["windows"]
