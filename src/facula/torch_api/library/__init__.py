"""Operators from outside the package.

Takes definitions in either of two forms: facula's own, one decorator and everything derived from it
(`pointwise`, `operator`, `composite`, `view`; `docs/adding_an_operator.md`), or PyTorch's, functions
registered one by one (`custom_op`, `define`, `impl`, `register_fake`, `register_autograd`, `Library`).
Gives operators that are reached as `facula.ops.<namespace>.<name>` and, where asked, elsewhere.
Keeps true: both forms enter the one operator table.
"""

from .attach import composite, operator, pointwise, view
from .check import opcheck
from .context import get_ctx
from .registration import (
    CustomOpDef,
    Library,
    custom_op,
    define,
    impl,
    impl_abstract,
    register_autocast,
    register_autograd,
    register_fake,
    register_kernel,
    register_torch_dispatch,
    register_vmap,
)
from .registration import _scoped_library as _scoped_library
from .schemas import infer_schema

__all__ = [
    "CustomOpDef",
    "Library",
    "composite",
    "custom_op",
    "define",
    "get_ctx",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "operator",
    "pointwise",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
    "view",
]
