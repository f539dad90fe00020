"""What the modules of devices answer on a machine without them, and second names of their modules."""

import importlib

import pytest

import facula

pytestmark = pytest.mark.skipif(
    facula.cuda.is_available() or facula.xpu.is_available(), reason="there is a device"
)


@pytest.mark.parametrize("module", ["cuda", "xpu"])
def test_questions_have_the_answer_of_a_machine_without_the_device(module):
    device = getattr(facula, module)
    assert device.memory_stats() == {}
    assert device.memory_stats_as_nested_dict() == {}
    assert device.get_arch_list() == []
    assert device.get_gencode_flags() == ""
    assert device.get_rng_state_all() == []
    assert device.is_tf32_supported() is False
    assert device.is_bf16_supported() is False
    assert device.memory_allocated() == device.max_memory_reserved() == 0
    assert device.default_generators == ()
    device.reset_peak_memory_stats()
    device.reset_accumulated_memory_stats()
    device.seed_all()
    with device.stream(None), device.device(None), device.device_of(facula.ones(1)):
        pass


@pytest.mark.parametrize("module", ["cuda", "xpu"])
@pytest.mark.parametrize(
    "name",
    [
        "mem_get_info",
        "current_device",
        "get_device_name",
        "current_stream",
        "utilization",
        "Stream",
        "MemPool",
    ],
)
def test_what_needs_the_device_says_so(module, name):
    with pytest.raises(AssertionError, match=f"not compiled with {module.upper()} enabled"):
        getattr(getattr(facula, module), name)()
    with pytest.raises(AttributeError, match="nonsense"):
        _ = getattr(facula, module).nonsense


def test_typed_tensors_of_a_device_are_there():
    assert not isinstance(facula.ones(2), facula.cuda.FloatTensor)
    assert facula.cuda.FloatTensor.dtype is facula.float32
    assert facula.cuda.FloatTensor.is_cuda
    with pytest.raises(RuntimeError):
        facula.cuda.FloatTensor(2)


def test_marks_of_the_profiler_need_the_device():
    with pytest.raises(RuntimeError, match="NVTX functions not installed"):
        facula.cuda.nvtx.range_push("part")
    with pytest.raises(RuntimeError, match="NVTX"):
        with facula.cuda.nvtx.range("part {}", 1):
            pass


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("cuda.memory", "memory_stats"),
        ("cuda.streams", "Stream"),
        ("cuda.amp.autocast_mode", "custom_fwd"),
        ("cuda.amp.grad_scaler", "GradScaler"),
        ("cuda.amp.common", "amp_definitely_not_available"),
        ("cpu.amp.autocast_mode", "autocast"),
        ("autograd.variable", "Variable"),
        ("nn.parallel.data_parallel", "DataParallel"),
        ("nn.parallel.replicate", "replicate"),
        ("distributions.relaxed_categorical", "ExpRelaxedCategorical"),
        ("distributions.relaxed_bernoulli", "LogitRelaxedBernoulli"),
        ("optim._functional", "adam"),
        ("optim._muon", "muon"),
        ("_functorch.einops", "rearrange"),
        ("functorch.einops", "rearrange"),
    ],
)
def test_modules_have_pytorch_s_names(name, attribute):
    module = importlib.import_module(f"facula.{name}")
    assert hasattr(module, attribute)
