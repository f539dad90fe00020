"""Options of command lines that environment variables stand for.

Takes: the name of an environment variable. Gives: actions of `argparse`: `env`, `check_env`.
Keeps true: what stands on the command line goes before the environment, the environment before the default.
"""

from __future__ import annotations

import os
from argparse import Action, ArgumentParser, Namespace
from typing import Any

from facula.core.errors import fail

__all__ = ["check_env", "env"]


class env(Action):  # noqa: N801 - PyTorch's name
    """An option whose default is an environment variable: `PET_` and the option's name in capital letters.

    >>> parser.add_argument("-n", "--nnodes", action=env, default="1")  # PET_NNODES
    """

    def __init__(
        self, dest: str, default: Any = None, required: bool = False, **kwargs: Any
    ) -> None:
        value = os.environ.get(f"PET_{dest.upper()}", default)
        # an option that the environment sets may be left out
        super().__init__(dest=dest, default=value, required=required and not value, **kwargs)

    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Take the value of the command line."""
        setattr(namespace, self.dest, values)


class check_env(Action):  # noqa: N801 - PyTorch's name
    """A flag that an environment variable may set: `PET_` and the option's name; 1 sets it, 0 does not.

    >>> parser.add_argument("--verbose", action=check_env)  # PET_VERBOSE
    """

    def __init__(self, dest: str, default: bool = False, **kwargs: Any) -> None:
        name = f"PET_{dest.upper()}"
        told = os.environ.get(name, str(int(default)))
        if not told.strip().isdigit():
            fail(ValueError, "check_env", f"0 or 1 was required in the environment variable {name}", repr(told),
                 hint=f"{name}=1 sets the flag")  # fmt: skip
        kwargs["nargs"] = 0
        super().__init__(dest=dest, const=True, default=int(told) != 0, **kwargs)

    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Set the flag."""
        setattr(namespace, self.dest, self.const)
