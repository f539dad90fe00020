"""How long groups wait where nobody says, under PyTorch's names.

Takes: nothing. Gives: `default_pg_timeout`, `default_pg_nccl_timeout`.
Keeps true: all engines wait equally long.
"""

from __future__ import annotations

import datetime

from facula.distributed.rendezvous import DEFAULT_TIMEOUT

__all__ = ["default_pg_nccl_timeout", "default_pg_timeout"]

default_pg_timeout: datetime.timedelta = DEFAULT_TIMEOUT
default_pg_nccl_timeout: datetime.timedelta | None = DEFAULT_TIMEOUT
