"""What agents share: `macros`, `get_env_variable_or_raise`, `get_socket_with_port`."""

from __future__ import annotations

from facula.distributed.elastic.utils.api import (
    get_env_variable_or_raise,
    get_socket_with_port,
    macros,
)

__all__ = ["get_env_variable_or_raise", "get_socket_with_port", "macros"]
