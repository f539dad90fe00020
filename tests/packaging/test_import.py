"""What `import facula` costs: modules, processor time, and nothing that the user did not ask for."""

import json
import os
import subprocess
import sys

import pytest

REPORT = """
import json, sys, time
before = set(sys.modules)
begin = time.process_time()
import facula
took = time.process_time() - begin
print(json.dumps({"took": took, "modules": sorted(set(sys.modules) - before)}))
"""
MOST_MODULES = 150
MOST_SECONDS = 0.12


def imported():
    """What a new interpreter reports."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", REPORT]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def modules():
    return imported()["modules"]


def test_few_modules(modules):
    assert len(modules) <= MOST_MODULES


@pytest.mark.parametrize(
    "name",
    "numpy scipy subprocess ctypes inspect dataclasses tempfile pickle logging threading asyncio "
    "facula.nn facula.optim facula.data facula.codegen facula.backends facula.serialization "
    "facula.runtime.compile facula.ops.rows facula.ops.scalar_numpy".split(),
)
def test_nothing_that_waits_for_its_use(modules, name):
    assert name not in modules


def test_no_program_of_the_code_generator(modules):
    assert not [name for name in modules if name.endswith("_programs")]


def test_processor_time():
    # the best of several: the first may have to write byte code, and others may share the machine
    assert min(imported()["took"] for _ in range(5)) <= MOST_SECONDS
