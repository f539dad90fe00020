"""Packages and mobile files on aarch64: made here with a cross compiler, run by qemu's user emulation.

`make cross` runs this file (pytest does not collect it by itself: it takes `aarch64-linux-gnu-gcc`, or what
`FACULA_CROSS_CC` names, and `qemu-aarch64-static`). Oracles: NumPy, and the module in this process, whose
kernels are written for other vectors.
"""

import os
import shutil
import subprocess

import numpy as np
import pytest
from packaged_models import mlp

import facula
from facula import export, mobile, nn
from facula.ao.quantization.quantize_pt2e import convert_pt2e, prepare_pt2e
from facula.ao.quantization.quantizer import x86_inductor_quantizer as x86
from facula.deploy.aot import compile_and_package, load_package
from facula.deploy.mobile import kernels_of, runtime_folder
from facula.deploy.native import runtime_program, source_folder
from facula.runtime.compile import compiler_command

#: where the cross compiler's C library is, for qemu
SYSROOT = os.environ.get("FACULA_CROSS_ROOT", "/usr/aarch64-linux-gnu")
EMULATED = ["qemu-aarch64-static", "-L", SYSROOT]


def run(command, inputs, folder, results=1):
    """What a program for aarch64 makes of arrays."""
    names = [str(folder / f"in{k}.npy") for k in range(len(inputs))]
    for name, value in zip(names, inputs, strict=True):
        np.save(name, value)
    outputs = [str(folder / f"out{k}.npy") for k in range(results)]
    done = subprocess.run(
        [*EMULATED, *command, *names, *outputs], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [np.load(name) for name in outputs]


def refusal(command):
    done = subprocess.run([*EMULATED, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr


def close(got, wanted, tolerance=1e-4):
    wanted = wanted.detach().numpy() if isinstance(wanted, facula.Tensor) else wanted
    assert got.shape == wanted.shape and got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, tolerance, tolerance)


def test_one_package_for_two_architectures(tmp_path):
    module, path = mlp(), str(tmp_path / "mlp.pt2")
    batch = export.Dim("batch", min=1, max=300)
    program = export.export(module, (facula.randn(4, 16),), dynamic_shapes=({0: batch},))
    compile_and_package(program, path, variants=("v2", "neon"))
    program = runtime_program("aarch64")
    assert "native code: neon" in subprocess.check_output([*EMULATED, program, path], text=True)
    for count in (1, 7, 64, 300):
        x = facula.randn(count, 16)
        (got,) = run([program, path], [x.numpy()], tmp_path)
        close(got, module(x))
        close(load_package(path)(x).numpy(), module(x))
    np.save(tmp_path / "in.npy", np.zeros((301, 16), np.float32))
    names = [str(tmp_path / "in.npy"), str(tmp_path / "none.npy")]
    assert "got 301 (of 1 to 300)" in refusal([program, path, *names])
    assert not os.path.exists(names[1])


def test_a_package_for_another_architecture_is_refused_at_load(tmp_path):
    here, there = str(tmp_path / "here.pt2"), str(tmp_path / "there.pt2")
    program = export.export(nn.Tanh(), (facula.randn(3),))
    compile_and_package(program, here, variants=("v2",))
    compile_and_package(program, there, variants=("neon",))
    said = refusal([runtime_program("aarch64"), here])
    assert "native code for aarch64 was required: the package is for x86_64" in said
    with pytest.raises(RuntimeError, match="native code for x86_64 was required.*for aarch64"):
        load_package(there)


class Convolutions(nn.Module):
    """Strides, groups, squeeze and excitation, bilinear sizes: what networks for telephones have."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish()
        )
        self.depthwise = nn.Conv2d(16, 16, 5, padding=2, groups=16)
        self.squeeze, self.excite = nn.Conv2d(16, 8, 1), nn.Conv2d(8, 16, 1)
        self.dilated = nn.Conv2d(16, 21, 3, padding=2, dilation=2)

    def forward(self, x):
        y = self.stem(x)
        y = y + nn.functional.relu6(self.depthwise(y))
        scale = nn.functional.adaptive_avg_pool2d(y, 1)
        y = y * nn.functional.hardsigmoid(self.excite(nn.functional.relu(self.squeeze(scale))))
        y = nn.functional.max_pool2d(self.dilated(y), 2)
        return nn.functional.interpolate(y, size=(20, 24), mode="bilinear", align_corners=False)


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.recurrent = nn.GRU(32, 16, batch_first=True)

    def forward(self, tokens):
        hidden, _ = self.recurrent(self.encoder(self.embed(tokens)))
        return nn.functional.log_softmax(hidden.mean(1), -1)


class Words(nn.Module):
    """Kernels by their own: whole numbers, sorts, scans, 16-bit floats, indices."""

    def forward(self, x, n):
        values, places = x.sort(-1, descending=True)
        half, short = x.to(facula.bfloat16), x.to(facula.float16)
        return (
            values, places, x.cumsum(1), x.argmax(0), n // 7 % 5 + (n & 12), n.sum(1),
            (half @ half.t()).float(), (short * short + 1).float(), x.var(1),
            facula.erf(x) + facula.sin(x) * facula.lgamma(x.abs() + 1), facula.where(x > 0, x, -2.0),
            facula.gather(x, 1, (n % 9).long()), x.double() @ x.double().t(), n.to(facula.int8) * 3,
            facula.topk(x, 3).values, facula.logsumexp(x, 1), x.tril() ** 3, n @ n.t(),
        )  # fmt: skip


def settled(module, *args):
    """The module in inference, with statistics other than 0 and 1."""
    for _ in range(3):
        module(*args)
    return module.eval()


def bytes_of(module, x):
    """The module as a program of integers."""
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(export.export(module, (x,)).module(), quantizer)
    prepared(x)
    return convert_pt2e(prepared)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Models, their inputs, their mobile files, and one runtime for all of them."""
    facula.manual_seed(0)
    folder = tmp_path_factory.mktemp("mobile")
    image = facula.randn(2, 3, 21, 18)
    convolutions = settled(Convolutions(), image * 2 + 1)
    given = {
        "convolutions": (convolutions, (image,)),
        "integers": (bytes_of(convolutions, image), (image,)),
        "text": (Text().eval(), (facula.randint(0, 50, (3, 7)),)),
        "words": (Words(), (facula.randn(9, 9), facula.randint(0, 90, (9, 9)))),
    }
    found, kernels = {}, set()
    for name, (module, inputs) in given.items():
        path = mobile.export(module, inputs, folder / f"{name}.ptl")
        found[name] = module, [x.numpy() for x in inputs], path
        kernels.update(kernels_of(path))
    return found, runtime_folder(kernels, "aarch64")


@pytest.mark.parametrize("name", ["convolutions", "integers", "text"])
def test_a_mobile_file_gives_the_modules_numbers(files, name, tmp_path):
    found, runtime = files
    module, inputs, path = found[name]
    (got,) = run([os.path.join(runtime, "facula-run"), path], inputs, tmp_path)
    with facula.no_grad():
        close(got, module(*map(facula.from_numpy, inputs)))


def test_kernels_of_many_kinds(files, tmp_path):
    found, runtime = files
    module, inputs, path = found["words"]
    x, n = inputs
    given = run([os.path.join(runtime, "facula-run"), path], inputs, tmp_path, 18)
    wanted = module(*map(facula.from_numpy, inputs))
    for got, each in zip(given, wanted, strict=True):
        close(got, each, 1e-5)
    oracle = {0: -np.sort(-x, -1), 2: x.cumsum(1), 3: x.argmax(0), 5: n.sum(1), 17: n @ n.T}
    for place, value in oracle.items():
        close(given[place], value, 1e-5)


def test_the_runtime_is_two_files(files, tmp_path):
    found, _ = files
    _, inputs, path = found["convolutions"]
    command = mobile.runtime_command(path, [], "", machine="aarch64")
    kept = mobile.runtime_files()
    assert sorted(map(os.path.basename, kept)) == ["facula-run", "neon.so"]
    assert sum(map(os.path.getsize, kept)) < 1_500_000 and command[0] in kept
    for file in kept:
        shutil.copy2(file, tmp_path)
    (got,) = run([str(tmp_path / "facula-run"), path], inputs, tmp_path)
    assert np.isfinite(got).all()


PROGRAM = r"""
#include "facula_model.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 3, RUNS = 4, ROWS = 5 };
static facula_model *model;
static float x[ROWS * 16], first[ROWS * 5];

static int once(float *to) {
    char error[256] = "";
    facula_tensor in = {x, 0, 2, {ROWS, 16}}, out = {to, 0, 2, {ROWS, 5}};
    int r = facula_model_run(model, &in, 1, &out, 1, error, sizeof error);
    if (r) puts(error);
    return r;
}

static void *many(void *bad) {
    float y[ROWS * 5];
    for (int i = 0; i < RUNS; i++)
        if (once(y) || memcmp(y, first, sizeof y)) *(int *)bad = 1;
    return NULL;
}

int main(int count, char **words) {
    char error[256] = "";
    int bad[THREADS] = {0}, sum = 0;
    pthread_t threads[THREADS];
    model = facula_model_open(words[count - 1], NULL, error, sizeof error);
    if (!model) return puts(error), 1;
    for (int i = 0; i < ROWS * 16; i++) x[i] = (float)(i % 7) - 3;
    if (once(first)) return 1;
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, many, &bad[i]);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL), sum += bad[i];
    facula_model_close(model);
    printf("%d threads, %d wrong\n", THREADS, sum);
    return sum;
}
"""


def test_several_threads_of_a_program_in_c(tmp_path):
    path, binary = str(tmp_path / "mlp.pt2"), str(tmp_path / "program")
    program = export.export(mlp(), (facula.randn(5, 16),))
    compile_and_package(program, path, variants=("neon",))
    (tmp_path / "program.c").write_text(PROGRAM)
    runtime = os.path.join(source_folder(), "facula_model.c")
    include = os.path.join(os.path.dirname(facula.core.__file__), "include")
    command = [*compiler_command("aarch64"), "-O1", "-std=gnu11", "-w", "-pthread"]
    command += [f"-I{source_folder()}", f"-I{include}", str(tmp_path / "program.c"), runtime]
    subprocess.run([*command, "-o", binary, "-lm", "-ldl"], check=True)
    said = subprocess.check_output([*EMULATED, binary, path], text=True)
    assert said == "3 threads, 0 wrong\n"
