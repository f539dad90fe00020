"""Numbers and second names of dtypes at the top level.

Takes: the core's dtypes. Gives: `CONSTANTS`, name -> value. Keeps true: an alias is the same object as the dtype.
"""

from __future__ import annotations

import math
from typing import Any

from facula import core

CONSTANTS: dict[str, Any] = {
    "e": math.e,
    "inf": math.inf,
    "nan": math.nan,
    "pi": math.pi,
    "newaxis": None,
    "bool": core.bool_,
    "float": core.float32,
    "double": core.float64,
    "half": core.float16,
    "long": core.int64,
    "int": core.int32,
    "short": core.int16,
    "cfloat": core.complex64,
    "cdouble": core.complex128,
    "chalf": core.complex32,
}
