"""Packaged models give what the module gives, for all sizes, in Python and in C, and say no clearly."""

import ctypes
import io
import itertools
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from packaged_models import HERE, batch_program, mlp, mlp_and_path, packaged

import facula
from facula import export, nn
from facula.deploy.aot import compile_and_package, load_package
from facula.deploy.native import runtime_library, runtime_program, source_folder
from facula.runtime import cache, cpu_features, trust


@pytest.fixture(scope="module")
def mlp_package(tmp_path_factory):
    return mlp_and_path(tmp_path_factory)


def equal(got, wanted, tolerance=1e-5):
    assert got.shape == wanted.shape and got.dtype is wanted.dtype
    np.testing.assert_allclose(got.detach().numpy(), wanted.detach().numpy(), tolerance, tolerance)


@pytest.mark.parametrize("batch", [2, 3, 4, 31, 64, 65, 255, 256, 300])
def test_every_size_of_the_range(mlp_package, batch):
    module, path = mlp_package
    x = facula.randn(batch, 16)
    equal(load_package(path)(x), module(x))


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        y = self.features(x)
        return {"logits": self.head(y.mean((2, 3))), "maps": (y, x)}


def convolutional():
    facula.manual_seed(1)
    module = Convolutional()
    for _ in range(3):  # statistics other than 0 and 1
        module(facula.randn(4, 3, 12, 12) * 2 + 1)
    return module.eval()


def test_frozen_convolutions_and_nested_results(tmp_path):
    module = convolutional()
    path = packaged(module, (facula.randn(2, 3, 12, 12),), tmp_path / "conv.pt2")
    x = facula.randn(2, 3, 12, 12)
    got, wanted = load_package(path)(x), module(x)
    equal(got["logits"], wanted["logits"], 1e-4)
    equal(got["maps"][0], wanted["maps"][0], 1e-4)
    equal(got["maps"][1], x)


def test_constants_are_swapped_and_made_anew(tmp_path):
    module = convolutional()
    path = packaged(module, (facula.randn(2, 3, 12, 12),), tmp_path / "conv.pt2")
    run, x = load_package(path), facula.randn(2, 3, 12, 12)
    before = run(x)["logits"]
    with facula.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.25)
    run.load_constants(module.state_dict())
    equal(run(x)["logits"], module(x)["logits"], 1e-4)
    assert not np.allclose(before.numpy(), run(x)["logits"].numpy())
    equal(load_package(path)(x)["logits"], before)  # the file is what it was


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, tokens):
        return self.encoder(self.embed(tokens)).mean(1)


def test_two_sizes_and_indices(tmp_path):
    facula.manual_seed(2)
    module = Attention().eval()
    tokens = facula.randint(0, 50, (3, 7))
    batch, length = export.Dim("batch", min=2, max=9), export.Dim("length", min=2, max=40)
    with facula.no_grad():
        path = packaged(module, (tokens,), tmp_path / "text.pt2", ({0: batch, 1: length},))
        run = load_package(path)
        for sizes in [(2, 2), (3, 7), (9, 40), (5, 33), (4, 16)]:
            tokens = facula.randint(0, 50, sizes)
            equal(run(tokens), module(tokens), 1e-4)
    with pytest.raises(RuntimeError, match="indices inside of what they index were required"):
        run(facula.full((3, 7), 50))


def test_a_batch_of_one_is_a_region_of_its_own(tmp_path):
    module = nn.Sequential(nn.Linear(16, 8), nn.Tanh())
    path = batch_program(module, str(tmp_path / "one.pt2"), least=1, most=20)
    run = load_package(path)
    for batch in (1, 2, 20):
        x = facula.randn(batch, 16)
        equal(run(x), module(x))


def test_a_size_that_follows_from_another(tmp_path):
    class Even(nn.Module):
        def forward(self, x):
            return x.reshape(x.shape[0], 2, -1).sum(1)

    n = export.Dim("n", min=2, max=30)
    path = packaged(Even(), (facula.randn(2, 8),), tmp_path / "even.pt2", ({1: 2 * n},))
    run = load_package(path)
    for size in (4, 10, 60):
        x = facula.randn(2, size)
        equal(run(x), Even()(x))
    with pytest.raises(RuntimeError, match="a size that fits in dimension 1 was required"):
        run(facula.randn(2, 7))


def test_what_is_not_taken_is_refused_by_name(mlp_package):
    _, path = mlp_package
    run = load_package(path)
    for x, what in [
        (facula.randn(1, 16), r"sizes that the package was made for.*got 1 \(of 2 to 300\)"),
        (facula.randn(301, 16), r"got 301 \(of 2 to 300\)"),
        (facula.randn(3, 17), "size 16 in dimension 1 was required"),
        (facula.randn(16), "the number of dimensions of the export"),
        (facula.randn(3, 16).double(), "the dtype of the export"),
    ]:
        with pytest.raises(RuntimeError, match=what):
            run(x)
    with pytest.raises(ValueError, match="arguments nested as in the export"):
        run(facula.randn(3, 16), 2)
    with pytest.raises(TypeError, match="tensors on the CPU"):
        run(facula.ones(3, 16, device="meta"))
    with pytest.raises(RuntimeError, match="a constant of the model was required"):
        run.load_constants({"nothing": facula.ones(1)})
    with pytest.raises(RuntimeError, match=r"f32\[32\] was required for 0.bias: got f32\[31\]"):
        run.load_constants({"0.bias": facula.ones(31)})
    with pytest.raises(RuntimeError, match="all constants were required"):
        run.load_constants({"0.bias": facula.ones(32)}, check_full_update=True)


def test_what_can_not_be_packaged_is_refused(tmp_path):
    class Found(nn.Module):
        def forward(self, x):
            return facula.rand(3) + x

    with pytest.raises(NotImplementedError, match="draws random numbers"):
        packaged(Found(), (facula.ones(3),), tmp_path / "x.pt2")
    norm = nn.BatchNorm1d(4)
    with pytest.raises(NotImplementedError, match="changes neither its buffers nor its inputs"):
        packaged(norm, (facula.ones(3, 4),), tmp_path / "x.pt2")
    with pytest.raises(TypeError, match="an exported program was required"):
        compile_and_package(norm, tmp_path / "x.pt2")
    with pytest.raises(ValueError, match=r"ends in \.pt2"):
        facula._inductor.aoti_compile_and_package(norm, package_path="x.zip")


def test_many_threads_and_many_models(mlp_package):
    module, path = mlp_package
    models = [load_package(path), load_package(path)]
    wrong = []

    def work(number):
        generator = np.random.default_rng(number)
        for _ in range(40):
            x = facula.from_numpy(generator.standard_normal((2 + number, 16), "float32"))
            if not np.allclose(
                models[number % 2](x).numpy(), module(x).detach().numpy(), 1e-5, 1e-6
            ):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not wrong


def test_the_program_runs_without_python(mlp_package, tmp_path):
    module, path = mlp_package
    x = np.random.default_rng(0).standard_normal((6, 16)).astype("float32")
    np.save(tmp_path / "in.npy", x)
    files = [str(tmp_path / "in.npy"), str(tmp_path / "out.npy")]
    done = subprocess.run([runtime_program(), path, *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(files[1]), module(facula.from_numpy(x)).detach(), 1e-5, 1e-6)
    said = subprocess.run([runtime_program(), path], capture_output=True, text=True).stdout
    assert "input_1: f4[2..300, 16]" in said
    os.remove(files[1])
    np.save(files[0], x[:, :3])
    done = subprocess.run([runtime_program(), path, *files], capture_output=True, text=True)
    assert done.returncode == 1 and "size 16 in dimension 1 was required" in done.stderr
    assert not os.path.exists(files[1])


PROGRAM = """
#include "facula_model.h"
#include <stdio.h>
int main(int n, char **v) {
    char error[300];
    facula_model *m = facula_model_open(v[1], 0, error, sizeof error);
    float x[3 * 16], y[3 * 5];
    for (int i = 0; i < 48; i++) x[i] = (float)i / 48;
    facula_tensor in = {x, 0, 2, {3, 16}}, out = {y};
    if (!m || facula_model_abi() != FACULA_MODEL_ABI) return 3;
    if (facula_model_run(m, &in, 1, &out, 1, error, sizeof error)) return 1;
    for (int i = 0; i < 15; i++) printf("%.9g ", y[i]);
    in.shape[1] = 15;
    if (!facula_model_run(m, &in, 1, &out, 1, error, sizeof error)) return 2;
    fprintf(stderr, "%s", error);
    facula_model_close(m);
    return 0;
}
"""


def test_a_program_in_c(mlp_package, tmp_path):
    module, path = mlp_package
    (tmp_path / "main.c").write_text(PROGRAM)
    library = runtime_library()
    command = ["cc", str(tmp_path / "main.c"), f"-I{source_folder()}", library, "-o"]
    subprocess.run([*command, str(tmp_path / "main")], check=True)
    done = subprocess.run([tmp_path / "main", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    x = facula.arange(48, dtype=facula.float32).reshape(3, 16) / 48
    got = np.array(done.stdout.split(), "float32").reshape(3, 5)
    np.testing.assert_allclose(got, module(x).detach().numpy(), 1e-5, 1e-6)
    assert "size 16 in dimension 1 was required" in done.stderr


def test_a_package_has_code_for_several_processors(tmp_path):
    module = nn.Sequential(nn.Linear(16, 8), nn.GELU())
    variants = ("v2", "v3", "v4") if HERE[0].startswith("v") else HERE
    path = batch_program(module, str(tmp_path / "m.pt2"), variants)
    with zipfile.ZipFile(path) as file:
        assert {f"lib/{v}.so" for v in variants} <= set(file.namelist())
        assert all(file.read(f"lib/{v}.so")[:4] == b"\x7fELF" for v in variants)
        assert not any(name.endswith((".pkl", ".py")) for name in file.namelist())
    plain = batch_program(module, str(tmp_path / "plain.pt2"), variants[:1])
    x = facula.randn(5, 16)
    for each in (path, plain):
        equal(load_package(each)(x), module(x), 1e-5)
    assert load_package(plain).model.variant == variants[0]


def test_what_adds_to_a_variant_is_no_variant_of_packages(tmp_path, monkeypatch):
    """Processors with bf16 or matrix registers open what is made for the variant below."""
    module, x = nn.Sequential(nn.Linear(16, 8), nn.GELU()), facula.randn(5, 16)
    if HERE == ("v4",):
        for variant in ("v4", "v4x", "v4a"):
            monkeypatch.setattr(cpu_features, "detected", lambda variant=variant: variant)
            options = {"aot_inductor.output_path": str(tmp_path / f"{variant}.so")}
            path = facula._export.aot_compile(module, (x,), options=options)
            equal(facula._export.aot_load(path, "cpu")(x), module(x))
    with pytest.raises(ValueError, match="variants among") as caught:
        batch_program(module, str(tmp_path / "m.pt2"), ("v2", "v4x"))
    assert "got v4x" in str(caught.value)


def test_a_library_with_a_model_in_it(tmp_path):
    module = nn.Sequential(nn.Linear(16, 8), nn.GELU())
    options = {"aot_inductor.output_path": str(tmp_path / "model.so")}
    x = facula.randn(5, 16)
    path = facula._export.aot_compile(module, (x,), options=options)
    run = facula._export.aot_load(path, "cpu")
    equal(run(x), module(x))
    equal(run(x + 1), module(x + 1))


def test_equal_programs_give_equal_packages(tmp_path):
    module = nn.Sequential(nn.Linear(16, 8), nn.GELU())
    paths = [batch_program(module, str(tmp_path / f"{k}.pt2")) for k in range(2)]
    first, second = (Path(path).read_bytes() for path in paths)
    assert first == second


def test_loading_imports_no_compiler(mlp_package):
    _, path = mlp_package
    text = (
        "import sys, facula\nfrom facula.deploy.model import Model\n"
        f"print(Model({path!r})(facula.ones(2, 16))[0].shape)\n"
        "assert not any(m.startswith(('facula.compiler', 'facula.lower')) for m in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", text], check=True)


class Loaded(ctypes.Structure):
    """The first fields of the system's `dl_phdr_info`."""

    _fields_ = [("address", ctypes.c_void_p), ("name", ctypes.c_char_p)]


def loaded_libraries():
    """The texts by which the system knows the libraries of this process."""
    names = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Loaded), ctypes.c_size_t, ctypes.c_void_p)
    def note(library, size, data):
        names.append(library.contents.name.decode())
        return 0

    ctypes.CDLL(None).dl_iterate_phdr(note, None)
    return names


def test_a_packages_library_is_known_by_a_text_of_its_own(mlp_package, monkeypatch):
    """Libraries of the disk cache are opened by their descriptors too, and would be taken for it."""
    before = set(loaded_libraries())
    package = load_package(mlp_package[1])
    (name,) = (n for n in loaded_libraries() if n not in before and n.startswith("/proc/self/fd/"))
    number = int(name.rpartition("/")[2])
    with monkeypatch.context() as patched:
        patched.setattr(cache, "_opened", itertools.count())
        patched.setattr(os.path, "exists", lambda path: True)  # such a descriptor may be open again
        entry = cache.Entry("", number, memoryview(b""))
        texts = {entry.loadable() for _ in range(10_000)}
        entry._descriptor = -1  # it is not this entry's to close
    assert name not in texts
    assert package(facula.randn(2, 16)).shape == (2, 5)


def test_files_that_nobody_names_lie_where_equal_ones_do(tmp_path, monkeypatch):
    monkeypatch.setattr(trust, "private_folder", lambda: str(tmp_path))
    module, x = mlp(), facula.randn(3, 16)
    program = export.export(module, (x,))
    first, second = (
        facula._inductor.aoti_compile_and_package(program, variants=HERE) for _ in range(2)
    )
    assert first == second and first.startswith(str(tmp_path)) and first.endswith(".pt2")
    equal(facula._inductor.aoti_load_package(first)(x), module(x))
    other = facula._inductor.aoti_compile_and_package(
        program, variants=HERE, inductor_configs={"aot_inductor.metadata": {"made for": "a test"}}
    )
    assert other != first
    assert len([p for p in tmp_path.rglob("*") if p.is_file()]) == 2


def test_open_files_options_and_metadata(tmp_path):
    module = mlp()
    program = export.export(module, (facula.randn(3, 16),))
    told = {"aot_inductor.metadata": {"made for": "a test"}, "always_keep_tensor_constants": True}
    memory = io.BytesIO()
    given = {"package_path": memory, "inductor_configs": told, "variants": HERE}
    assert facula._inductor.aoti_compile_and_package(program, **given) is memory
    memory.seek(0)
    run, x = facula._inductor.aoti_load_package(memory), facula.randn(3, 16)
    equal(run(x), module(x))
    assert run.get_metadata()["made for"] == "a test"
    path = str(tmp_path / "there.pt2")
    given = {"inductor_configs": {"aot_inductor.output_path": path}, "variants": HERE}
    assert facula._inductor.aoti_compile_and_package(program, None, None, **given) == path
    package = facula._inductor.package
    run = package.load_package(path, "model", run_single_threaded=True, num_runners=2)
    assert isinstance(run, package.AOTICompiledModel)
    inputs = [x]
    equal(run.loader.run(inputs)[0], module(x))
    equal(run.loader.boxed_run(inputs)[0], module(x))
    assert inputs == []
    with pytest.raises(RuntimeError, match="the model 'model' was required.*'other'"):
        package.load_package(path, "other")
    with pytest.raises(RuntimeError, match="an option was required"):
        facula._inductor.aoti_compile_and_package(program, inductor_configs={"nonsense": 1})
    with pytest.raises(RuntimeError, match="the device cpu was required"):
        facula._export.aot_load(path, "meta")


def test_constants_that_the_user_keeps(tmp_path):
    """What is written to them later is seen, where that was asked for."""
    module = mlp()
    path = packaged(module, (facula.randn(3, 16),), tmp_path / "mlp.pt2")
    run, x = load_package(path), facula.randn(3, 16)
    own = {name: value.detach().clone() for name, value in module.state_dict().items()}
    run.load_constants(own, check_full_update=True, user_managed=True)
    copied = load_package(path)
    copied.update_constant_buffer(own, False, True)
    equal(run(x), module(x))
    with facula.no_grad():
        for name, value in module.state_dict().items():
            value.mul_(1.5)
            own[name].mul_(1.5)
    equal(run(x), module(x))
    equal(run.loader.run([x])[0], module(x))
    assert not np.allclose(copied(x).numpy(), module(x).detach().numpy())
    with pytest.raises(NotImplementedError, match="use_inactive=False was required"):
        run.update_constant_buffer(own, True)
