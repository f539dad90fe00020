"""The block that PyTorch's `mkl.verbose` and `mkldnn.verbose` are.

Takes a level. Gives a context manager. Keeps true: an unknown level is an error.
"""

from __future__ import annotations

from facula.core.errors import fail


class Verbosity:
    """Holds a level of verbosity for a block."""

    levels = (0, 1, 2)

    def __init__(self, enable: int | None = None, level: int | None = None) -> None:
        self.level = enable if enable is not None else level
        if self.level is not None and int(self.level) not in self.levels:
            fail(
                ValueError,
                "verbose",
                f"a level in {self.levels} was required",
                self.level,
                hint="0 is silent",
            )

    def __enter__(self) -> Verbosity:
        return self

    def __exit__(self, *exception: object) -> None:
        pass
