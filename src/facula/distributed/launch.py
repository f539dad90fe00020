"""`python -m facula.distributed.launch`: the older launcher, which tells each script its number as an argument.

Takes: the options of `facula.distributed.run`, and `--use-env`. Gives: what `run` gives.
Keeps true: without `--use-env` the first argument of each script is `--local-rank=N`; with it there is none more.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence

from facula.core.errors import fail
from facula.distributed import run as runner

__all__ = ["launch", "main", "parse_args"]


def parse_args(args: Sequence[str] | None) -> argparse.Namespace:
    """The options of a command line."""
    parser = runner.get_args_parser()
    parser.prog = "facula.distributed.launch"
    parser.add_argument(
        "--use-env", "--use_env", action="store_true", dest="use_env",
        help="leave --local-rank out of the script's arguments: LOCAL_RANK has it",
    )  # fmt: skip
    return parser.parse_args(args)


def launch(args: argparse.Namespace) -> None:
    """Run the program.

    Raises:
        ValueError: an executable that is no Python program was to get `--local-rank`.
        ChildFailedError: its processes failed for good.
    """
    if args.no_python and not args.use_env:
        fail(ValueError, "launch", "--use-env was required with --no-python (When using the '--no-python' flag, you "
             "must also set the '--use-env' flag.)", "--no-python alone",
             hint="an executable reads LOCAL_RANK")  # fmt: skip
    runner.run(args)


def main(args: Sequence[str] | None = None) -> None:
    """Run the program of the command line."""
    warnings.warn(
        "facula.distributed.launch is the older launcher: `python -m facula.distributed.run` (torchrun) does the same, "
        "and tells a script its number by the environment variable LOCAL_RANK instead of --local-rank",
        FutureWarning,
        stacklevel=2,
    )
    runner.main_with(parse_args(args), launch)


if __name__ == "__main__":
    main()
