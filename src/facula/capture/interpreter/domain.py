"""What the parts of `Symbolic` share: each part uses operations that others define.

Takes and gives nothing. Keeps true: a part is never used alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from facula.capture.values.kinds import Value


class Part:
    """A part of `Symbolic`."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """An operation or a field of another part."""

        def __setattr__(self, name: str, value: Value) -> None:
            """A field of `Symbolic`."""
