"""What was registered for an operator beside its kernels, under the name of PyTorch's module.

Takes qualified names. Gives views of the operator table. Keeps true: it holds nothing of its own.
"""

from __future__ import annotations

from typing import Any

from facula.ops.table.registry import TABLE

__all__ = ["FakeImplHolder", "Kernel", "SimpleLibraryRegistry", "SimpleOperatorEntry", "singleton"]


class Kernel:
    """A function, and where it stands."""

    def __init__(self, func: Any) -> None:
        self.func = func

    @property
    def source(self) -> str:
        """The file and the line."""
        code = getattr(self.func, "__code__", None)
        return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(self.func)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.func(*args, **kwargs)


class FakeImplHolder:
    """The function of an operator for tensors without data."""

    def __init__(self, qualname: str) -> None:
        self.qualname = qualname

    @property
    def kernel(self) -> Kernel | None:
        """The function; None where none was registered."""
        kernels = getattr(getattr(TABLE.get(self.qualname), "definition", None), "kernels", {})
        found = kernels.get("meta")
        return None if found is None else Kernel(found)


class SimpleOperatorEntry:
    """What was registered for one operator."""

    def __init__(self, qualname: str) -> None:
        self.qualname = qualname
        self.fake_impl = FakeImplHolder(qualname)


class SimpleLibraryRegistry:
    """The entries of all operators."""

    def find(self, qualname: str) -> SimpleOperatorEntry:
        """The entry of an operator, as ``namespace::name``."""
        return SimpleOperatorEntry(qualname)


#: the one table
singleton = SimpleLibraryRegistry()
