"""Type aliases for annotations, as PyTorch names them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeAlias, Union

from facula.core import Size, Tensor, UntypedStorage, device, dtype, layout

__all__ = ["Device", "FileLike", "Number", "Storage", "Tensor", "device", "dtype", "layout"]

Number: TypeAlias = Union[int, float, bool]  # noqa: UP007
Device: TypeAlias = Union[device, str, int, None]  # noqa: UP007
FileLike: TypeAlias = Union[str, os.PathLike, Any]  # noqa: UP007
_TensorOrTensors: TypeAlias = Union[Tensor, Sequence[Tensor]]  # noqa: UP007
_TensorOrTensorsOrGradEdge: TypeAlias = Union[Tensor, Sequence[Tensor], Any]  # noqa: UP007
_int, _float, _bool, _complex = int, float, bool, complex
_dtype, _device, _layout = dtype, device, layout
_size: TypeAlias = Union[Size, list[int], tuple[int, ...]]  # noqa: UP007


Storage: TypeAlias = UntypedStorage
