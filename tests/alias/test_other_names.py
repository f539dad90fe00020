"""What libraries import besides the public API: modules under other names, keys, readers, refusals."""

import os
import subprocess
import sys

import pytest

import facula


def installed(code):
    """What a process prints that has installed facula as torch."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import facula; facula.install_as_torch()\n" + code],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_second_names_are_the_same_objects():
    import facula.distributions.normal as normal
    import facula.utils.data.sampler as sampler
    from facula import data, distributions
    from facula.distributions.relaxed_bernoulli import RelaxedBernoulli
    from facula.nn.parallel.distributed import DistributedDataParallel
    from facula.utils.data.datapipes.iter import IterableWrapper

    assert normal.Normal is distributions.Normal
    assert RelaxedBernoulli is distributions.RelaxedBernoulli
    assert sampler is data.sampler and sampler.Sampler is data.Sampler
    assert DistributedDataParallel is facula.nn.parallel.DistributedDataParallel
    assert "facula.data.datapipes.iter" in sys.modules and list(IterableWrapper([1, 2])) == [1, 2]


def test_second_names_under_torch():
    out = installed(
        "import torch, torch.utils.data.sampler, torch.utils.data.datapipes.iter\n"
        "from torch.distributions.half_normal import HalfNormal\n"
        "from torch.utils.data.sampler import Sampler\n"
        "print(Sampler is torch.utils.data.Sampler, HalfNormal is torch.distributions.HalfNormal)"
    )
    assert out.split() == ["True", "True"]


@pytest.mark.parametrize("place", ["quantization", "ao.quantization"])
@pytest.mark.parametrize("first", ["module", "function", "none"])
def test_functions_that_have_the_name_of_their_module_stay_functions(place, first):
    """In whatever order they are imported; classes and functions of the modules are the same objects."""
    orders = {
        "module": f"import torch.{place}.fuse_modules, torch.{place}.quantize",
        "function": f"from torch.{place} import fuse_modules, quantize\n"
        f"import torch.{place}.fuse_modules, torch.{place}.quantize",
        "none": "import torch.ao.quantization.quantize_fx",
    }
    out = installed(
        f"import torch, sys\n{orders[first]}\nfrom torch.{place} import fuse_modules, quantize\n"
        f"from torch.{place}.fuse_modules import fuse_known_modules, fuse_modules as other\n"
        f"from torch.{place}.quantize import convert, quantize as third\n"
        f"room = torch.{place}\n"
        "print(callable(fuse_modules), callable(quantize), other is fuse_modules is room.fuse_modules,"
        " third is quantize is room.quantize, convert is room.convert,"
        f" sys.modules['torch.{place}.fuse_modules'].fuse_modules is fuse_modules)"
    )
    assert out.split() == ["True"] * 6


@pytest.mark.parametrize("room", ["", "ao."])
def test_modules_of_quantized_layers(room):
    names = {
        "intrinsic.modules": "ConvReLU2d",
        "intrinsic.modules.fused": "_FusedModule",
        "intrinsic.qat.modules.conv_fused": "ConvBnReLU2d",
        "intrinsic.quantized.modules.linear_relu": "LinearReLU",
        "qat.modules.linear": "Linear",
        "qat.dynamic.modules.linear": "Linear",
        "quantized.modules.normalization": "InstanceNorm2d",
        "quantized.modules.functional_modules": "FloatFunctional",
        "quantized.dynamic.modules.rnn": "LSTM",
    }
    lines = [
        f"from torch.{room}nn.{module} import {name} as found\n"
        f"import torch.ao.nn.{module.partition('.modules')[0]} as place\n"
        f"print(place.modules is not None and getattr(place, {name!r}) is found)"
        for module, name in names.items()
    ]
    assert installed("\n".join(lines)).split() == ["True"] * len(names)


def test_an_unknown_name_stays_unknown():
    with pytest.raises(ModuleNotFoundError):
        import facula.distributions.nonsense
    with pytest.raises(ModuleNotFoundError):
        import facula.utils.data.nonsense  # noqa: F401


def test_keys_switch_layers_off():
    from facula._C import DispatchKey, DispatchKeySet, _ExcludeDispatchKeyGuard

    keys = DispatchKeySet(DispatchKey.AutocastCPU) | DispatchKeySet(DispatchKey.AutocastCUDA)
    assert keys.has(DispatchKey.AutocastCPU) and not keys.has(DispatchKey.CPU)
    assert keys - DispatchKeySet(DispatchKey.AutocastCUDA) == DispatchKeySet(
        DispatchKey.AutocastCPU
    )
    x = facula.ones(2, 2)
    with facula.autocast("cpu"):
        assert (x @ x).dtype is facula.bfloat16
        with _ExcludeDispatchKeyGuard(keys):
            assert (x @ x).dtype is facula.float32
        assert (x @ x).dtype is facula.bfloat16
    leaf = facula.ones(1, requires_grad=True)
    with _ExcludeDispatchKeyGuard(DispatchKeySet(DispatchKey.AutogradCPU)):
        assert not (leaf * 2).requires_grad
    assert (leaf * 2).requires_grad
    with pytest.raises(NotImplementedError, match="hint:"):
        _ExcludeDispatchKeyGuard(DispatchKeySet(DispatchKey.CPU))


def test_libraries_hear_that_there_may_be_several_processes():
    """It was said under torch's name only where a launcher had made several, so that scripts went another way."""
    code = "import torch.distributed as d, torch\nprint(d.is_available(), d.is_initialized())"
    assert installed(code).split() == ["True", "False"]
    assert facula.distributed.is_available()


def test_functions_for_a_refused_library_wait_for_nobody(tmp_path):
    path = os.path.join(tmp_path, "somelibrary", "_C.so")
    with pytest.raises(OSError, match="ops.load_library"):
        facula.ops.load_library(path)
    facula.library.register_fake("somelibrary::nms")(lambda x: x)
    with pytest.raises(RuntimeError, match="hint:"):
        facula.library.register_fake("otherlibrary::nms")(lambda x: x)


def test_classes_may_be_scripted():
    class Pair:
        pass

    assert facula.jit.script(Pair) is Pair


def test_what_is_registered_for_onnx_is_kept():
    facula.onnx.register_custom_op_symbolic("some::name", lambda g: g, 11)
    facula.onnx.unregister_custom_op_symbolic("some::name", 11)
    with pytest.raises(ValueError, match="hint:|namespace"):
        facula.onnx.register_custom_op_symbolic("name", lambda g: g, 11)


def test_single_records_of_a_checkpoint(tmp_path):
    path = os.path.join(tmp_path, "values.pt")
    facula.save({"x": facula.arange(6.0)}, path)
    reader = facula.PyTorchFileReader(path)
    assert reader.has_record("data.pkl") and not reader.has_record("nothing")
    name = next(n for n in reader.get_all_records() if n.startswith("data/"))
    made = reader.get_storage_from_record(name, 6, facula.float32)
    assert made.tolist() == list(range(6)) and len(reader.get_record(name)) == 24


def test_streams_need_an_accelerator():
    for kind in (facula.Stream, facula.Event):
        with pytest.raises(RuntimeError, match="hint:"):
            kind()
    assert facula.cuda.get_rng_state_all() == []
    facula.cuda.set_rng_state_all([])


def test_borders_of_quantized_models_change_nothing():
    from facula.ao.nn.quantized import FloatFunctional
    from facula.ao.quantization import DeQuantStub, QuantStub, QuantWrapper

    x, add = facula.tensor([-1.0, 2.0]), FloatFunctional()
    assert DeQuantStub()(QuantStub()(x)) is x
    assert add.add_relu(x, x).tolist() == [0.0, 4.0] and add.cat([x, x]).shape == (4,)
    assert QuantWrapper(facula.nn.ReLU())(x).tolist() == [0.0, 2.0]
    with pytest.raises(RuntimeError, match="hint:"):
        add(x)
