"""Tools of PyTorch that programs run or set: the bottleneck report, counting backends, switches, reductions."""

import importlib
import multiprocessing.reduction
import subprocess
import sys

import numpy as np
import pytest

import facula


def test_the_bottleneck_of_a_script(tmp_path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, facula, helper\n"
        "assert __name__ == '__main__' and sys.argv[1:] == ['--steps', '3']\n"
        "facula.ones(4).cumsum(0)\nprint('ran', helper.WORD)\n"
    )
    (tmp_path / "helper.py").write_text("WORD = 'here'\n")
    command = [sys.executable, "-m", "facula.utils.bottleneck", str(script), "--steps", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ran here") == 2
    assert "Functions of Python" in done.stdout and "aten::cumsum" in done.stdout
    with pytest.raises(FileNotFoundError, match="a script was required"):
        importlib.import_module("facula.utils.bottleneck").main([str(tmp_path / "none.py")])


@pytest.mark.breaks
def test_backends_that_count_and_keep() -> None:
    testing = importlib.import_module("facula._dynamo.testing")

    def function(x):
        y = x.sin() + 1
        facula._dynamo.graph_break()
        return y.cos()

    counter = testing.CompileCounter()
    x = facula.linspace(0, 1, 5)
    expected = np.cos(np.sin(x.numpy()) + 1)
    np.testing.assert_allclose(facula.compile(function, backend=counter)(x), expected, rtol=1e-6)
    assert (counter.frame_count, counter.op_count) == (2, 3)
    counter.clear()
    assert (counter.frame_count, counter.op_count) == (0, 0)
    facula._dynamo.reset()
    keeping = testing.EagerAndRecordGraphs()
    np.testing.assert_allclose(facula.compile(function, backend=keeping)(x), expected, rtol=1e-6)
    assert len(keeping.graphs) == 2
    facula._dynamo.reset()
    behind = testing.CompileCounterWithBackend("aot_eager")
    np.testing.assert_allclose(facula.compile(function, backend=behind)(x), expected, rtol=1e-6)
    assert behind.frame_count == len(behind.graphs) == 2
    facula._dynamo.reset()
    both = testing.AotEagerAndRecordGraphs()
    x = facula.ones(2, requires_grad=True)
    facula.compile(lambda x: (x * x).sum(), backend=both)(x).backward()
    np.testing.assert_allclose(x.grad, [2.0, 2.0])
    assert len(both.graphs) == len(both.fw_graphs) == len(both.bw_graphs) == 1


@pytest.mark.parametrize("dtype", [facula.float32, facula.int64, facula.complex64, facula.bool])
def test_tensors_of_given_strides(dtype) -> None:
    made = importlib.import_module("facula._dynamo.testing").rand_strided((2, 3), (1, 4), dtype)
    assert made.shape == (2, 3) and made.stride() == (1, 4) and made.dtype == dtype


def test_switches_of_the_executor_give_what_was_set_before() -> None:
    core = facula._C
    before = core._jit_set_profiling_executor(False)
    assert core._jit_set_profiling_executor(before) is False
    assert core._jit_set_bailout_depth(3) == 20 and core._jit_set_bailout_depth(20) == 3
    core._jit_override_can_fuse_on_gpu(True)
    assert core._jit_can_fuse_on_gpu() is True
    core._jit_override_can_fuse_on_gpu(False)
    assert core._jit_texpr_fuser_enabled() is True and not core._jit_nvfuser_enabled()
    with pytest.raises(AttributeError):
        core._jit_set_no_such_switch  # noqa: B018


def test_how_tensors_are_sent() -> None:
    reductions = importlib.import_module("facula.multiprocessing.reductions")
    x = facula.arange(4.0)
    rebuild, args = reductions.reduce_tensor(x[1:])
    data = bytes(multiprocessing.reduction.ForkingPickler.dumps(x[1:]))
    assert b"facula" in data and callable(rebuild) and args[1] == facula.float32
    same = reductions.StorageWeakRef(x.untyped_storage())
    assert same == reductions.StorageWeakRef(x[2:].storage()) and len({same}) == 1
    assert same != reductions.StorageWeakRef(facula.ones(1).untyped_storage())
    reductions.init_reductions()
    from facula.multiprocessing.pool import Pool
    from facula.multiprocessing.queue import Queue, SimpleQueue

    assert Pool.__name__ == "Pool" and {Queue.__name__, SimpleQueue.__name__} == {
        "Queue",
        "SimpleQueue",
    }


def test_starting_values_by_their_inner_names() -> None:
    from facula.nn.init import _no_grad_fill_, _no_grad_trunc_normal_, _no_grad_uniform_

    weight = facula.nn.Parameter(facula.empty(200))
    assert (_no_grad_fill_(weight, 2.0) == 2).all()
    drawn = _no_grad_uniform_(weight, 3.0, 4.0).detach().numpy()
    assert drawn.min() >= 3 and drawn.max() <= 4
    drawn = _no_grad_trunc_normal_(weight, 0.0, 1.0, -0.5, 0.5).detach().numpy()
    assert np.abs(drawn).max() <= 0.5
