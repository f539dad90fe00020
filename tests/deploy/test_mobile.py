"""Models in files for the mobile runtime: the numbers of the module, from a program that has no Python."""

import os
import shutil
import subprocess

import numpy as np
import pytest

import facula
from facula import export, mobile, nn
from facula.ao.quantization.quantize_pt2e import convert_pt2e, prepare_pt2e
from facula.ao.quantization.quantizer import x86_inductor_quantizer as x86
from facula.deploy.mobile import kernels_of
from facula.runtime import compile, cpu_features
from facula.runtime.compile import CompileError
from facula.utils.mobile_optimizer import generate_mobile_module_lints, optimize_for_mobile


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish()
        )
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


def small():
    facula.manual_seed(0)
    module = Small()
    for _ in range(3):
        module(facula.randn(4, 3, 12, 12) * 2 + 1)
    return module.eval()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    module = small()
    path = tmp_path_factory.mktemp("mobile") / "model.ptl"
    mobile.export(module, (facula.randn(1, 3, 12, 12),), path)
    return module, str(path)


def test_the_program_gives_the_modules_numbers(exported, tmp_path):
    module, path = exported
    x = np.random.default_rng(0).standard_normal((1, 3, 12, 12)).astype("float32")
    np.save(tmp_path / "in.npy", x)
    command = mobile.runtime_command(path, [str(tmp_path / "in.npy")], str(tmp_path / "out.npy"))
    files = mobile.runtime_files()
    assert command[0] in files and sum(map(os.path.getsize, files)) < 1_500_000
    alone = tmp_path / "alone"
    alone.mkdir()
    for file in files:
        shutil.copy2(file, alone)
    for program in (command[0], str(alone / os.path.basename(command[0]))):
        done = subprocess.run([program, *command[1:]], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        wanted = module(facula.from_numpy(x)).detach().numpy()
        np.testing.assert_allclose(np.load(tmp_path / "out.npy"), wanted, 1e-4, 1e-5)
    np.testing.assert_allclose(mobile.load(path)(facula.from_numpy(x)).numpy(), wanted, 1e-4, 1e-5)
    # no native code: data alone
    assert os.path.getsize(path) < 4 * sum(p.numel() for p in module.parameters()) + 10_000


def test_another_file_is_refused(tmp_path):
    (tmp_path / "bad.ptl").write_bytes(b"not a model")
    command = mobile.runtime_command(tmp_path / "bad.ptl", ["in.npy"], str(tmp_path / "out.npy"))
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "a ZIP file" in done.stderr
    assert not os.path.exists(tmp_path / "out.npy")


def test_pytorchs_names(tmp_path):
    module = small()
    x = facula.randn(1, 3, 12, 12)
    scripted = facula.jit.trace(module, x)
    optimized = optimize_for_mobile(scripted)
    optimized._save_for_lite_interpreter(str(tmp_path / "model.ptl"))
    from facula.jit.mobile import _load_for_lite_interpreter

    loaded = _load_for_lite_interpreter(str(tmp_path / "model.ptl"))
    for run in (loaded, optimized, mobile.optimize(module, (x,))):
        np.testing.assert_allclose(run(x).detach().numpy(), module(x).detach().numpy(), 1e-4, 1e-5)
    assert loaded.find_method("forward") and not loaded.find_method("other")
    with pytest.raises(RuntimeError, match="is not defined"):
        loaded.run_method("other", x)
    with pytest.raises(TypeError, match="a scripted module was required"):
        optimize_for_mobile(module)
    with pytest.raises(TypeError, match="the backend 'CPU' was required"):
        optimize_for_mobile(scripted, backend="vulkan")
    assert {lint["name"] for lint in generate_mobile_module_lints(scripted)} >= {"BUNDLED_INPUT"}
    assert facula.is_vulkan_available() is False
    with pytest.raises(RuntimeError, match="vulkan"):
        facula.ones(2, device="vulkan")


def test_a_program_of_integers_gives_the_modules_numbers(tmp_path):
    """Weights are packed for whichever processor opens the file: room is kept for the largest panels."""
    x = facula.randn(2, 3, 12, 12)
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(export.export(small(), (x,)).module(), quantizer)
    prepared(x)
    integers = convert_pt2e(prepared)
    with facula.no_grad():
        wanted = integers(x).numpy()
    path = mobile.export(integers, (x,), tmp_path / "integers.ptl")
    assert {"quantized_pack", "quantized_product:f32"} <= set(kernels_of(path))
    np.save(tmp_path / "in.npy", x.numpy())
    command = mobile.runtime_command(path, [str(tmp_path / "in.npy")], str(tmp_path / "out.npy"))
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), wanted, 1e-5, 1e-5)


def test_another_architecture_takes_a_cross_compiler(exported, monkeypatch, tmp_path):
    _, path = exported
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(compile.importlib.util, "find_spec", lambda name: None)
    machine = "aarch64" if cpu_features.architecture() == "x86_64" else "x86_64"
    with pytest.raises(CompileError, match=f"a C compiler for {machine} must be on PATH"):
        mobile.runtime_command(path, [], "", machine=machine)
    with pytest.raises(RuntimeError, match="must be one of .*aarch64.*: got m68k"):
        mobile.runtime_command(path, [], "", machine="m68k")


class Numbers(nn.Module):
    """Numbers as operands, which are looked at whether they fit."""

    def forward(self, x):
        return facula.where(x > 0, x, -2.0), x.tril() ** 3, facula.masked_fill(x, x < -1, 0.5)


def test_programs_with_numbers_as_operands_have_files(tmp_path):
    x = np.random.default_rng(1).standard_normal((5, 5)).astype("float32")
    mobile.export(Numbers(), (facula.from_numpy(x),), tmp_path / "numbers.ptl")
    found = mobile.load(tmp_path / "numbers.ptl")(facula.from_numpy(x))
    wanted = np.where(x > 0, x, -2), np.tril(x) ** 3, np.where(x < -1, np.float32(0.5), x)
    for got, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got.numpy(), right, 1e-6)


class _Spreads(facula.nn.Module):
    def forward(self, x):
        row = x / facula.linalg.vector_norm(x, dim=1, keepdim=True).clamp_min(1e-6)
        return row, facula.cdist(x, x), x.var(1), x.std(0), x.norm(3, dim=1)


def test_spreads_and_norms_of_nothing_are_zero(tmp_path):
    """They ended with an error about indices: a check of the sums' range found them too small."""
    path = mobile.export(_Spreads().eval(), (facula.randn(3, 4),), tmp_path / "spreads.ptl")
    x = facula.tensor([[0.0, 0, 0, 0], [2, 2, 2, 2], [1, 2, 3, 4]])
    found = mobile.load(path)(x)
    for one, other in zip(found, _Spreads()(x), strict=True):
        facula.testing.assert_close(one, other)
