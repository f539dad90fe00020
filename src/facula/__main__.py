"""`facula run script.py` and `python -m facula run script.py`: a PyTorch program on facula.

Takes the command line. Gives the program's own exit status. Keeps true: the program sees the
arguments, the first entry of `sys.path` and the `__main__` module that Python itself would give it;
only `import torch` is answered by facula; tracebacks begin in the program.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Sequence

import facula
from facula.torch_api.alias.tracebacks import of_the_program

__all__ = ["main"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="facula", description="facula's command line")
    parser.add_argument("--version", action="version", version=f"facula {facula.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run a program with facula in the place of torch")
    run.add_argument("-m", dest="module", action="store_true", help="the program is a module")
    run.add_argument("program", help="a script, a folder or zip file with __main__.py, or a module")
    run.add_argument("arguments", nargs=argparse.REMAINDER, help="what the program gets")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command of facula's command line."""
    options = _parser().parse_args(arguments)
    sys.argv = [options.program, *options.arguments]
    if options.module:
        sys.path[0] = os.getcwd()
        facula.install_as_torch()
        with of_the_program(main.__code__):
            runpy.run_module(options.program, run_name="__main__", alter_sys=True)
        return
    if not os.path.exists(options.program):
        _parser().error(f"the program must exist: got {options.program}")
    sys.path[0] = os.path.dirname(os.path.realpath(options.program))
    facula.install_as_torch()
    with of_the_program(main.__code__):
        runpy.run_path(options.program, run_name="__main__")


if __name__ == "__main__":
    main()
