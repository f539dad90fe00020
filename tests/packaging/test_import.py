"""What `import facula` costs: modules, their code, lines that run, and nothing that the user did not
ask for. Counts and no times, so that the answer is the same on every machine; `benchmarks/imports.py`
measures the time.
"""

import json
import os
import subprocess
import sys

import pytest

REPORT = """
import importlib.util, json, os, sys
before = set(sys.modules)
lines = 0

def count(frame, event, argument):
    global lines
    lines += event == "line"
    return count

sys.settrace(count)
import facula
sys.settrace(None)
made = sorted(set(sys.modules) - before)
files = [getattr(sys.modules[name], "__cached__", None) for name in made]
size = sum(os.path.getsize(file) for file in files if file is not None and os.path.exists(file))
print(json.dumps({"lines": lines, "bytes": size, "modules": made}))
"""
#: thirteen of them are packages of operators, each of one line
MOST_MODULES = 163
#: about 10 % above what it is
MOST_LINES = 300_000
MOST_BYTES = 2_800_000


def imported():
    """What a new interpreter reports."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", REPORT]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def report():
    imported()  # writes byte code where there is none
    return imported()


@pytest.fixture(scope="module")
def modules(report):
    return report["modules"]


def test_few_modules(modules):
    assert len(modules) <= MOST_MODULES


@pytest.mark.parametrize(
    "name",
    "numpy scipy subprocess ctypes inspect dataclasses tempfile pickle logging threading asyncio "
    "facula.nn facula.optim facula.data facula.codegen facula.devices facula.backends facula.serialization "
    "facula.runtime.compile facula.ops.expr.rows facula.ops.expr.numpy_values".split(),
)
def test_nothing_that_waits_for_its_use(modules, name):
    assert name not in modules


def test_no_program_of_the_code_generator(modules):
    assert not [name for name in modules if name.startswith("facula.ops.programs")]


def test_little_runs(report):
    assert 0 < report["lines"] <= MOST_LINES


def test_little_code_is_read(report):
    assert 0 < report["bytes"] <= MOST_BYTES
