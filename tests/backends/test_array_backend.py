"""A device from outside the package: kernels on NumPy arrays, and a device without elements."""

import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import facula
from facula import backends, core

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
calls: list = []


def counted(name, function):
    def kernel(*arrays):
        calls.append(name)
        return function(*arrays)

    return kernel


KERNELS = {
    "add": counted("add", numpy.add),
    "mul": counted("mul", numpy.multiply),
    "mm": counted("mm", numpy.matmul),
    "neg": counted("neg", numpy.negative),
    "relu": counted("relu", lambda a: numpy.maximum(a, 0)),
}
backends.register("demo", KERNELS)


def test_name_and_round_trip():
    a = facula.randn(3, 4)
    x = a.to("demo")
    assert x.device == facula.device("demo") and x.shape == (3, 4)
    assert facula.equal(x.cpu(), a) and "device='demo'" in repr(x)
    assert x.to(facula.float64).dtype is facula.float64 and x.data_ptr() == 0
    assert "demo" in backends.registered()


def test_kernels_compute():
    calls.clear()
    a, b = facula.randn(3, 4), facula.randn(4, 2)
    x, y = a.to("demo"), b.to("demo")
    assert facula.equal(((x + x) * x).cpu(), (a + a) * a)
    facula.testing.assert_close((x @ y).cpu(), a @ b)
    assert facula.equal(x.relu().cpu(), a.relu()) and facula.equal((-x).cpu(), -a)
    assert set(calls) == set(KERNELS)
    calls.clear()
    a + a
    assert not calls


def test_views_and_writes_respect_strides():
    a = facula.randn(3, 4)
    x = a.to("demo")
    assert facula.equal(x.t()[1:, ::2].cpu(), a.t()[1:, ::2])
    assert facula.equal((x.t() + x.t()).cpu(), a.t() + a.t())
    x.t()[0] = 5
    x.add_(1).mul_(2)
    a.t()[0] = 5
    assert facula.equal(x.cpu(), (a + 1) * 2)
    assert x[0, 0].item() == 12


def test_factories_and_promotion():
    assert facula.ones(2, device="demo").tolist() == [1, 1]
    assert facula.tensor([1, 2], device="demo").dtype is facula.int64
    whole, real = facula.ones(2, dtype=facula.int32, device="demo"), facula.ones(2, device="demo")
    assert (whole + real).dtype is facula.float32 and (whole + 1).dtype is facula.int32


def test_autograd():
    a, b = facula.randn(3, 4), facula.randn(3, 4)
    x, y = a.to("demo").requires_grad_(), b.to("demo").requires_grad_()
    gx, gy = facula.autograd.grad(x * y + x, (x, y), facula.ones(3, 4, device="demo"))
    assert facula.equal(gx.cpu(), b + 1) and facula.equal(gy.cpu(), a)
    z = x * 1.0
    z.mul_(y)
    z.backward(facula.ones(3, 4, device="demo"))
    assert x.grad.device.type == "demo" and facula.equal(x.grad.cpu(), b)
    host = a.clone().requires_grad_()
    (host.to("demo") * y).cpu().sum().backward()
    assert facula.equal(host.grad, b)


@pytest.mark.parametrize("name", ["erfinv", "sum", "sort", "isfinite"])
def test_missing_kernel_names_operator_and_device(name):
    with pytest.raises(NotImplementedError, match=r"a kernel for the device 'demo' was required"):
        getattr(facula, name)(facula.ones(2, 2).to("demo"))


def test_devices_do_not_mix():
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        facula.ones(2, device="demo") + facula.ones(2)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        facula.mm(facula.ones(2, 2, device="demo"), facula.ones(2, 2))
    assert (facula.ones(2, device="demo") + facula.tensor(1.0)).tolist() == [2, 2]


def test_wrong_shape_from_a_kernel():
    backends.register("wrong", {"neg": lambda a: a[:1], "add": lambda a, b: (a, b)})
    with pytest.raises(RuntimeError, match=r"shape \[3\] from the kernel of 'wrong'"):
        -facula.ones(3, device="wrong")
    with pytest.raises(RuntimeError, match="1 arrays from the kernel"):
        facula.ones(3, device="wrong") + 1


def test_wrong_registrations():
    with pytest.raises(TypeError, match="names of operators"):
        backends.register("other", {"no_such_operator": numpy.add})
    with pytest.raises(TypeError, match="allocate, copy, fill, run"):
        backends.register("other", object())
    with pytest.raises(ValueError, match="name of its own"):
        backends.register("cpu", {})
    with pytest.raises(ValueError, match="has no backend"):
        backends.register("demo", {})
    with pytest.raises(RuntimeError, match="with a backend"):
        backends.get("nowhere")
    with pytest.raises(RuntimeError, match="other devices come from backend packages"):
        facula.device("nowhere")


def test_data_moves_between_two_devices():
    backends.register("second", {"add": numpy.add})
    x = facula.arange(3.0).to("demo")
    y = x.to("second")
    assert y.device.type == "second" and y.tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="at least two devices"):
        x + y


NULL = """
import facula
model = facula.nn.Sequential(facula.nn.Linear(8, 4), facula.nn.GELU(), facula.nn.LayerNorm(4)).to("null")
x = facula.ones(16, 8, device="null")
loss = facula.nn.functional.softmax(model(x), -1).sort().values.sum()
loss.backward()
assert loss.shape == () and loss.device.type == "null"
assert model[0].weight.grad.shape == (4, 8) and model[0].weight.grad.device.type == "null"
assert repr(x) == "tensor(..., device='null', size=(16, 8))", repr(x)
backend = facula.backends.get("null")
assert "sort" in backend.operators and backend.allocated > 0
try:
    x.cpu()
except NotImplementedError as error:
    assert "a tensor with elements was required" in str(error)
else:
    raise AssertionError("elements left the device")
"""


def test_null_device_is_found_by_its_entry_point(tmp_path):
    """As installed: a package and its metadata on the path, and the device's name."""
    metadata = tmp_path / "facula_null_device-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: facula-null-device\nVersion: 0.1.0\n"
    )
    (metadata / "entry_points.txt").write_text("[facula.backends]\nnull = null_device:NullDevice\n")
    paths = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(EXAMPLES / 'null_device' / 'src')!r}]\n"
    outcome = subprocess.run(
        [sys.executable, "-c", paths + NULL], capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 0, outcome.stderr[-2000:]


def test_modules_that_programs_read():
    assert facula.backends.cuda.is_built() is False and not facula.cuda.is_available()
    assert facula.cuda.device_count() == 0 and not facula.backends.mps.is_available()
    assert facula.backends.cudnn.is_available() is False and facula.backends.cudnn.version() is None
    with facula.backends.cudnn.flags(enabled=False, deterministic=True):
        assert facula.backends.cudnn.deterministic and not facula.backends.cudnn.enabled
    assert facula.backends.cudnn.enabled and not facula.backends.cudnn.deterministic
    assert facula.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")
    for module in ("mkl", "mkldnn", "openmp", "opt_einsum"):
        assert getattr(facula.backends, module).is_available() in (True, False)
    with pytest.raises(AssertionError, match="CUDA"):
        facula.cuda.current_device()


def test_attention_switches():
    from facula.nn.attention import SDPBackend, sdpa_kernel
    from facula.ops.layers.attention import ENABLED

    before = dict(ENABLED)
    with sdpa_kernel(SDPBackend.MATH):
        assert not facula.backends.cuda.flash_sdp_enabled()
        assert facula.backends.cuda.math_sdp_enabled()
    with facula.backends.cuda.sdp_kernel(enable_math=False):
        assert not ENABLED["math"]
    assert before == ENABLED
    with pytest.raises(AssertionError, match="SDPBackend"), sdpa_kernel("math"):
        pass


def test_foreign_buffer_is_the_backends_own():
    x = facula.arange(4.0).to("demo")
    buffer, offset = core.foreign_buffer(x[2:])
    assert isinstance(buffer, bytearray) and offset == 8
