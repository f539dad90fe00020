"""What agents share: `macros`, `get_env_variable_or_raise`, `get_socket_with_port`."""

from __future__ import annotations

import os
import socket
import string
from collections.abc import Sequence
from typing import Any

from facula.core.errors import fail

__all__ = ["get_env_variable_or_raise", "get_socket_with_port", "macros"]


class macros:  # noqa: N801 - PyTorch's name
    """Texts in arguments that stand for numbers: `${local_rank}` is the worker's number on its machine.

    Example:
        >>> from facula.distributed.elastic.utils import macros
        >>> macros.substituted(["--rank", "${local_rank}"], 3)
        ['--rank', '3']
    """

    local_rank = "${local_rank}"

    @staticmethod
    def substitute(args: list[Any], local_rank: str) -> list[Any]:
        """Arguments with numbers in place of texts."""
        return [
            string.Template(one).safe_substitute(local_rank=local_rank) if isinstance(one, str) else one
            for one in args
        ]  # fmt: skip

    @staticmethod
    def substituted(args: Sequence[Any], local_rank: int) -> list[Any]:
        """The same for a number."""
        return macros.substitute(list(args), str(local_rank))


def get_env_variable_or_raise(env_name: str) -> str:
    """The value of an environment variable.

    Args:
        env_name: its name

    Raises:
        ValueError: it is not set.

    Example:
        >>> import os
        >>> from facula.distributed.elastic.utils import get_env_variable_or_raise
        >>> os.environ["LOCAL_RANK"] = "2"
        >>> get_env_variable_or_raise("LOCAL_RANK"), os.environ.pop("LOCAL_RANK")
        ('2', '2')
    """
    value = os.environ.get(env_name)
    if value is None:
        fail(ValueError, "get_env_variable_or_raise", f"the environment variable {env_name} was required",
             "none", hint="`python -m facula.distributed.run` sets it")  # fmt: skip
    return value


def get_socket_with_port() -> socket.socket:
    """A socket of this machine that has a free port; the caller closes it.

    Example:
        >>> from facula.distributed.elastic.utils import get_socket_with_port
        >>> with get_socket_with_port() as held:
        ...     held.getsockname()[1] > 0
        True
    """
    made = socket.socket()
    made.bind(("localhost", 0))
    made.listen(0)
    return made
