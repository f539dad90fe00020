"""The core: tensors, dispatch, the tape and its engine, memory, threads, random numbers, errors.

Takes: nothing of facula. Gives: the names below, of which `PUBLIC` are everybody's.
Keeps true: it is importable without NumPy and in milliseconds.
"""

from facula.core import errors
from facula.core._core import *  # noqa: F403
from facula.core._core import _disabled_torch_function_impl, bool_
from facula.core.limits import finfo, iinfo

bool = bool_

__all__ = [name for name in globals() if not name.startswith("_")]

#: what users see as `facula.name`; the other names are the package's own
PUBLIC = frozenset(
    (
        "Generator OutOfMemoryError Size Tensor UntypedStorage as_tensor bfloat16 bool "
        "can_cast channels_last channels_last_3d complex128 complex32 complex64 "
        "contiguous_format default_generator device dtype finfo float16 float32 float64 "
        "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz from_dlpack from_numpy frombuffer get_default_dtype "
        "get_num_threads iinfo int16 int32 int64 int8 is_anomaly_check_nan_enabled "
        "is_anomaly_enabled is_grad_enabled is_inference_mode_enabled jagged layout "
        "manual_seed memory_format preserve_format promote_types qint32 qint8 quint2x4 quint4x2 quint8 "
        "set_default_dtype "
        "set_num_threads sparse_bsc sparse_bsr sparse_coo sparse_csc sparse_csr strided "
        "tensor to_dlpack uint16 uint32 uint64 uint8"
    ).split()
) | frozenset(NARROW)  # noqa: F405
