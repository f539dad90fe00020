"""How profiles write times and sizes.

Takes numbers of microseconds and bytes. Gives text with a unit. Keeps true: it depends on nothing.
"""

from __future__ import annotations


def format_time(time_us: float) -> str:
    """A time with its unit."""
    if time_us >= 1e6:
        return f"{time_us / 1e6:.3f}s"
    if time_us >= 1e3:
        return f"{time_us / 1e3:.3f}ms"
    return f"{time_us:.3f}us"


def format_memory(nbytes: float) -> str:
    """A number of bytes with its unit."""
    for power, unit in ((3, "GB"), (2, "MB"), (1, "KB")):
        if abs(nbytes) >= 1024**power:
            return f"{nbytes / 1024**power:.2f} {unit}"
    return f"{nbytes:.0f} B"
