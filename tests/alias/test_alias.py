"""facula under torch's name: one module per name, in this process's children and under `facula run`."""

import json
import os
import subprocess
import sys

import pytest

from facula.alias import TorchVersion


def run(*arguments, **options):
    """A Python process without torch; its output."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=60, **options
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def installed(code):
    """What a process prints that has installed facula as torch."""
    return run("-c", "import facula; facula.install_as_torch()\n" + code)


def test_modules_run_as_programs_under_the_second_name(tmp_path):
    script = tmp_path / "worker.py"
    script.write_text(
        "import os, torch\n"
        "os.write(1, f\"{'facula' in torch.__file__} {os.environ['RANK']}\\n\".encode())"
    )
    launcher = ("-m", "torch.distributed.run", "--nnodes=1", "--nproc_per_node=2")
    out = run("-m", "facula", "run", *launcher, "--master_port=0", str(script))
    assert sorted(out.splitlines()) == ["True 0", "True 1"]
    again = installed(
        "import inspect, torch.distributed.run as launcher\n"
        "print('def main' in inspect.getsource(launcher))"
    )
    assert again.split() == ["True"]


def test_modules_are_the_same_objects():
    out = installed(
        "import torch, torch.nn as nn, torch.nn.functional as F, torch.distributions, sys\n"
        "import torch.optim.lr_scheduler\n"
        "from torch.utils.data import DataLoader\n"
        "import facula.utils.data\n"
        "print(torch is facula, nn is facula.nn, F is facula.nn.functional,"
        " sys.modules['torch.nn.init'] is facula.nn.init,"
        " DataLoader is facula.utils.data.DataLoader, hasattr(torch.distributions, 'Normal'),"
        " torch.nn.__spec__.name)"
    )
    assert out.split() == ["True"] * 6 + ["facula.nn"]


def test_types_functions_and_texts_say_torch():
    out = installed(
        "import torch, json, pickle\n"
        "import torch.nn.modules.linear\n"
        "layer = torch.nn.Linear(1, 1)\n"
        "pickle.loads(pickle.dumps([layer, torch.float32, torch.Size([2]), torch.ones(2)]))\n"
        "print(json.dumps([type(torch.ones(1)).__module__, type(layer).__module__,"
        " torch.nn.functional.relu.__module__, torch.nn.init.ones_.__module__,"
        " str(torch.float32), repr(torch.ones(1, dtype=torch.float64)),"
        " torch.distributions.Normal.__module__, torch.dtype.__module__]))"
    )
    found = json.loads(out)
    assert found[0] == found[7] == "torch"
    assert found[1] == "torch.nn.modules.linear"
    assert found[2] == "torch.nn.functional" and found[3] == "torch.nn.init"
    assert found[4] == "torch.float32" and "torch.float64" in found[5]
    assert found[6].startswith("torch.distributions.")


def test_versions_answer():
    out = installed(
        "import importlib.metadata as m, importlib.util as u, torch\n"
        "print(m.version('torch'), torch.__version__, torch.__version__ >= (2, 6),"
        " u.find_spec('torch') is not None, torch.torch_version.TorchVersion.__name__)"
    )
    version, same, *rest = out.split()
    assert version == same and rest == ["True", "True", "TorchVersion"]


def test_what_is_not_there_is_an_import_error():
    out = installed(
        "try:\n    import torch.nonsense.more\n"
        "except ModuleNotFoundError as error:\n    print(error)"
    )
    assert "No module named 'torch.nonsense" in out and "facula stands for torch" in out


def test_child_processes_follow():
    out = installed(
        "import subprocess, sys\n"
        "code = 'import torch.nn.functional as F, torch, importlib.metadata as m;'"
        " 'print(torch.__name__, F.__name__, m.version(chr(116) + \"orch\"))'\n"
        "print(subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout)"
    )
    assert out.split()[:2] == ["torch", "torch.nn.functional"]


def test_another_torch_is_not_replaced(tmp_path):
    (tmp_path / "torch.py").write_text("")
    code = (
        "import torch, facula\n"
        "try:\n    facula.install_as_torch()\n"
        "except RuntimeError as error:\n    print(error)"
    )
    out = run("-c", code, env={**os.environ, "PYTHONPATH": f"{tmp_path}:{_source()}"})
    assert "[install_as_torch] no other torch may be imported yet: got torch from" in out
    assert "hint: call facula.install_as_torch() before" in out


def _source():
    import facula

    return os.path.dirname(os.path.dirname(facula.__file__))


def test_run_gives_the_script_what_python_gives_it(tmp_path):
    (tmp_path / "beside.py").write_text("value = 5\n")
    script = tmp_path / "program.py"
    script.write_text(
        "import sys, beside, torch\n"
        "if __name__ == '__main__':\n"
        "    print(sys.argv[1:], beside.value, torch.ones(2).sum().item(), __file__)\n"
        "    sys.exit(0)\n"
    )
    out = run("-m", "facula", "run", str(script), "--flag", "x")
    assert out == f"['--flag', 'x'] 5 2.0 {script}\n"
    out = run("-m", "facula", "run", "-m", "program", "a", cwd=tmp_path, env=_with_source())
    assert out.startswith("['a'] 5 2.0")


def _with_source():
    return {**os.environ, "PYTHONPATH": _source()}


def test_run_passes_the_exit_status_on(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("raise SystemExit(7)\n")
    done = subprocess.run([sys.executable, "-m", "facula", "run", str(script)], timeout=60)
    assert done.returncode == 7
    missing = [sys.executable, "-m", "facula", "run", str(tmp_path / "none.py")]
    done = subprocess.run(missing, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "the program must exist" in done.stderr


def test_without_the_call_nothing_changes():
    out = run("-c", "import facula, sys; print(facula.Tensor.__module__, 'torch' in sys.modules)")
    assert out.split() == ["facula", "False"]


@pytest.mark.parametrize(
    ("one", "other", "less"),
    [
        ("2.13.0", "2.6", False),
        ("2.13.0", (2, 14), True),
        ("2.13.0", "2.13", False),
        ("2.13.0rc1", "2.13.0", True),
        ("2.13.0.dev20260101+cpu", "2.13.0a1", True),
    ],
)
def test_versions_compare_by_numbers(one, other, less):
    assert (TorchVersion(one) < other) is less
    assert (TorchVersion(one) >= other) is not less


def test_equal_versions():
    assert TorchVersion("2.13.0") == "2.13" and TorchVersion("2.13.0") != (2, 12)
    assert TorchVersion("2.13.0") != "no version" and str(TorchVersion("2.13.0")) == "2.13.0"


def test_stored_graphs_know_functions_under_the_alias(tmp_path):
    """A function of the framework that a graph calls has one name for the disk cache, so that a
    second process finds what the first one lowered, whichever name the program uses."""
    code = (
        "import logging, facula\n"
        "{install}\n"
        "from facula.compiler import disk_cache\n"
        "from facula.core import config\n"
        "config.set('cache_dir', {folder!r})\n"
        "from facula.fx import Graph, GraphModule\n"
        "from facula.lower.loops.gathers import check_within\n"
        "graph = Graph()\n"
        "x = graph.placeholder('x')\n"
        "graph.output(graph.call_function(check_within, (x, 4, 'op')))\n"
        "print(check_within.__module__, disk_cache.key_of(GraphModule({{}}, graph)))\n"
    )
    keys = []
    for install, name in (("facula.install_as_torch()", "torch"), ("", "facula")):
        module, key = run("-c", code.format(install=install, folder=str(tmp_path))).split()
        assert module == f"{name}.lower.loops.gathers" and len(key) == 40
        keys.append(key)
    assert keys[0] == keys[1]
