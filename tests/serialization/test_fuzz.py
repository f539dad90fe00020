"""A sample of what `tools/fuzz_loaders.py` runs for as long as one likes: no crash, no code, no hang."""

import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools/fuzz_loaders.py"
_spec = importlib.util.spec_from_file_location("fuzz_loaders", TOOL)
fuzz_loaders = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fuzz_loaders)


@pytest.mark.parametrize("kind", list(fuzz_loaders._kinds()))
def test_mutated_files(tmp_path, kind):
    fates, faults = fuzz_loaders.fuzz(kind, 1, 400, tmp_path)
    assert not faults
    assert fates.total() == 400
    assert set(fates) <= {"read", "UnpicklingError", "RuntimeError", "EOFError"}
    assert fates.total() - fates["read"] > 200


def test_a_fault_is_found():
    def crash(data):
        import os

        os._exit(9)

    results = fuzz_loaders._batch_in_child([(0, b"", lambda data: None), (1, b"", crash)])
    assert results[0] == "read" and results[1].startswith("! the process ended")


def test_code_that_runs_is_found():
    watch = fuzz_loaders._Watch()
    watch.on = True
    watch("os.system", ("true",))
    watch("exec", (compile("1", "<x>", "exec"),))
    assert len(watch.seen) == 2
