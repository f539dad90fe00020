"""The device cuda: operators, memory, gradients and training are those of the processor.

Everything runs on a fake driver (`fake_cuda`), and kernels as their Triton text says (`fake_triton`); what holds of
one device only, its compilers and its speed, is not tried here.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def _names() -> list[str]:
    tree = ast.parse((HERE / "on_fake.py").read_text())
    rest = {"there", "same", "failed_kernel", "main"}
    found = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
    return [name for name in found if name[0] != "_" and name not in rest]


@cache
def _outcomes() -> dict[str, str]:
    """What became of each function: all run in one process, since a device that was registered stays."""
    made = subprocess.run(
        [sys.executable, "-B", str(HERE / "on_fake.py")], capture_output=True, text=True, timeout=900, check=False
    )  # fmt: skip
    assert made.returncode == 0, made.stderr[-4000:]
    return json.loads(made.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", _names())
def test_on_a_fake_device(name: str) -> None:
    outcome = _outcomes()[name]
    assert not outcome, outcome
