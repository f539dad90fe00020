"""The functions of `nn`: operators of the table whose place is `nn.functional`, and the composites
over modules' arguments, and products of scaled matrices.

Re-exports; nothing else.
"""

from typing import Any as _Any

from facula.core.errors import no_attribute as _no_attribute
from facula.nn import _reduction as _Reduction  # noqa: F401  (programs ask it for numbers of reductions)
from facula.nn import functional_composites as _composites
from facula.nn import functional_scaled as _scaled
from facula.ops.table.registry import PLACES as _PLACES

globals().update(_PLACES["nn.functional"])
globals().update(
    {
        n: v
        for n, v in vars(_composites).items()
        if getattr(v, "__module__", "") == _composites.__name__
    }
)
globals().update({n: getattr(_scaled, n) for n in _scaled.__all__})
__all__ = sorted({*_PLACES["nn.functional"], *(n for n in globals() if not n.startswith("_"))})


def __getattr__(name: str) -> _Any:
    """What copies of PyTorch's layers take besides functions, such as `_in_projection_packed`."""
    if not name.startswith("__"):
        # lazily: few programs ask for any
        from facula.nn import functional_helpers

        if hasattr(functional_helpers, name):
            return getattr(functional_helpers, name)
    raise _no_attribute(__name__, name)
