"""How near kernels come to the machine's own limits: `python benchmarks/limits.py [--threads N] [--only REGEX]`.

Takes facula and a C compiler. Measures, in the same run, what memory gives (copy, triad, read) and how many
multiply-adds the cores make (float32, bfloat16, int8), then gives for each kernel the time that its bytes and
multiply-adds need at those rates, as a share of the time it took. Keeps true: probes are in C and hold none of
facula's code; probes and kernels take turns, and the least time of the rounds counts; with one thread it is
processor time, so that what else runs on the machine disturbs it less. Only bytes that must move and products
that must be made are counted: an exponential is free, so a share can stay low for honest work, and Winograd's
transform, which makes fewer products, can be above 100 %.
"""

import argparse
import ctypes
import math
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import facula
from facula.nn import functional as F  # noqa: N812 -- the customary name

PROBES = r"""
#include <stdint.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__AVX512F__)
#define WIDTH 64
#define SUMS 16
#elif defined(__AVX__)
#define WIDTH 32
#define SUMS 12
#else
#define WIDTH 16
#define SUMS 20
#endif
typedef float vec __attribute__((vector_size(WIDTH), aligned(4), may_alias));
#define LANES (WIDTH / 4)

static void plain(float *to, const float *a, const float *b, int64_t count, int triad)
{
    for (int64_t i = 0; i + LANES <= count; i += LANES) {
        vec x = *(vec *)(a + i);
        if (triad) x += *(vec *)(b + i) * 3.0f;
        *(vec *)(to + i) = x;
    }
}

/* stores that do not read the line they replace, where the processor has them */
static int streamed(float *to, const float *a, const float *b, int64_t count, int triad)
{
#if defined(__AVX__)
    for (int64_t i = 0; i + 8 <= count; i += 8) {
        __m256 x = _mm256_loadu_ps(a + i);
        if (triad) x = _mm256_add_ps(x, _mm256_mul_ps(_mm256_loadu_ps(b + i), _mm256_set1_ps(3.0f)));
        _mm256_stream_ps(to + i, x);
    }
    _mm_sfence();
    return 1;
#else
    return 0;
#endif
}

static float total(const float *a, int64_t count)
{
    vec sums[8];
    memset(sums, 0, sizeof sums);
    for (int64_t i = 0; i + 8 * LANES <= count; i += 8 * LANES)
        for (int k = 0; k < 8; k++) sums[k] += *(vec *)(a + i + k * LANES);
    float all = 0;
    for (int k = 0; k < 8; k++) for (int l = 0; l < LANES; l++) all += sums[k][l];
    return all;
}

static void products_f32(int64_t count)
{
    vec sums[SUMS], x, y;
    for (int l = 0; l < LANES; l++) x[l] = 0.999f, y[l] = 0.001f;
    for (int k = 0; k < SUMS; k++) sums[k] = y * (float)k;
    __asm__ volatile("" : "+m"(x), "+m"(y));
    for (int64_t i = 0; i < count; i++) {
#pragma GCC unroll 20
        for (int k = 0; k < SUMS; k++) sums[k] = sums[k] * x + y;
    }
    __asm__ volatile("" : : "m"(sums) : "memory");
}

#if defined(__AVX512BF16__)
static void products_bf16(int64_t count)
{
    __m512 sums[SUMS];
    const __m512bh x = (__m512bh)_mm512_set1_epi32((int)count), y = (__m512bh)_mm512_set1_epi32(3);
    for (int k = 0; k < SUMS; k++) sums[k] = _mm512_setzero_ps();
    for (int64_t i = 0; i < count; i++) {
#pragma GCC unroll 20
        for (int k = 0; k < SUMS; k++) sums[k] = _mm512_dpbf16_ps(sums[k], x, y);
    }
    __asm__ volatile("" : : "m"(sums) : "memory");
}
#endif

#if defined(__AVX512VNNI__)
static void products_int8(int64_t count)
{
    __m512i sums[SUMS];
    const __m512i y = _mm512_set1_epi32(3);
    __m512i x = _mm512_set1_epi32((int)count);
    for (int k = 0; k < SUMS; k++) sums[k] = _mm512_setzero_si512();
    for (int64_t i = 0; i < count; i++) {
#pragma GCC unroll 20
        for (int k = 0; k < SUMS; k++) sums[k] = _mm512_dpbusd_epi32(sums[k], x, y);
        __asm__ volatile("" : "+v"(x)); /* or one product would stand for all rounds */
    }
    __asm__ volatile("" : : "m"(sums) : "memory");
}
#endif

static double seconds(int own)
{
    struct timespec t;
    clock_gettime(own ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* bytes a second (what: 0 copy, 1 triad, 2 read; +4: streamed) */
double bytes_rate(int what, float *to, float *a, float *b, int64_t count, int own)
{
    static volatile float sink;
    const int kind = what & 3;
    const double begin = seconds(own);
    if (kind == 2) sink = total(a, count);
    else if (what & 4) { if (!streamed(to, a, b, count, kind)) return 0; }
    else plain(to, a, b, count, kind);
    return (kind == 0 ? 2 : kind == 1 ? 3 : 1) * 4.0 * count / (seconds(own) - begin);
}

/* multiply-adds a second (what: 0 float32, 1 bfloat16, 2 int8), or 0: the processor has no such instruction */
double products_rate(int what, int64_t count, int own)
{
    double each = 0;
    const double begin = seconds(own);
    if (what == 0) products_f32(count), each = LANES;
#if defined(__AVX512BF16__)
    if (what == 1) products_bf16(count), each = 32;
#endif
#if defined(__AVX512VNNI__)
    if (what == 2) products_int8(count), each = 64;
#endif
    return each * SUMS * count / (seconds(own) - begin);
}
"""

BYTES = {"copy": 0, "triad": 1, "read": 2}
PRODUCTS = {"f32": 0, "bf16": 1, "int8": 2}
FLOATS = 1 << 24  # 64 MiB an array: no cache of the usual sizes holds it
GOALS = {"elementwise": 85, "reductions": 85, "norms": 85, "products": 85, "attention": 75}


class Probes:
    """The limits of this machine: `rates` in bytes and multiply-adds a second."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.rates: dict[str, float] = {}
        with tempfile.TemporaryDirectory() as folder:
            source, library = Path(folder, "probes.c"), Path(folder, "probes.so")
            source.write_text(PROBES)
            flags = ["-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC"]
            subprocess.run(["gcc", *flags, str(source), "-o", str(library)], check=True)
            self.library = ctypes.CDLL(str(library))
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self.library.bytes_rate.argtypes = [
            ctypes.c_int,
            pointer,
            pointer,
            pointer,
            number,
            ctypes.c_int,
        ]
        self.library.products_rate.argtypes = [ctypes.c_int, number, ctypes.c_int]
        self.library.bytes_rate.restype = self.library.products_rate.restype = ctypes.c_double
        self.arrays = [facula.ones(FLOATS) for _ in range(3)]

    def together(self, call: Callable[[int], float]) -> float:
        """The sum of what every thread reaches while all run."""
        found = [0.0] * self.threads

        def run(place: int) -> None:
            found[place] = call(place)

        workers = [threading.Thread(target=run, args=(place,)) for place in range(1, self.threads)]
        for worker in workers:
            worker.start()
        run(0)
        for worker in workers:
            worker.join()
        return sum(found)

    def measure(self) -> None:
        """One round: the best so far of each rate stays."""
        own, part = int(self.threads == 1), FLOATS // self.threads
        for name, what in BYTES.items():
            for way in (0, 4) if name != "read" else (0,):

                def moved(place: int, what: int = what + way) -> float:
                    places = [array.data_ptr() + 4 * part * place for array in self.arrays]
                    return float(self.library.bytes_rate(what, *places, part, own))

                self.keep(name, self.together(moved))
        for name, what in PRODUCTS.items():
            self.keep(
                name,
                self.together(
                    lambda _, what=what: float(self.library.products_rate(what, 1 << 20, own))
                ),
            )

    def keep(self, name: str, rate: float) -> None:
        """Keeps the larger rate; what the processor lacks leaves no entry."""
        if rate:
            self.rates[name] = max(rate, self.rates.get(name, 0.0))


@dataclass
class Kernel:
    """A call, what it must move (bytes, by which of memory's rates) and make (multiply-adds, by which)."""

    group: str
    name: str
    call: Callable[[], Any]
    moved: float = 0
    memory: str = "copy"
    made: float = 0
    products: str = "f32"
    least: float = math.inf

    def limit(self, rates: dict[str, float]) -> float:
        """The seconds that the machine's limits allow."""
        made = self.made / rates.get(self.products, rates["f32"])
        return max(self.moved / rates[self.memory], made)

    def measure(self, threads: int) -> None:
        """One round: as many calls as take 20 ms; the least time of a call stays."""
        clock = time.process_time if threads == 1 else time.perf_counter
        begin = clock()
        self.call()
        once = clock() - begin
        count = max(1, int(0.02 / max(once, 1e-6)))
        begin = clock()
        for _ in range(count):
            self.call()
        self.least = min(self.least, (clock() - begin) / count)


def elementwise() -> Iterator[Kernel]:
    """Large tensors, one element of each for one of the result."""
    a, b = facula.randn(4096, 4096), facula.randn(4096, 4096)
    half, other = a.bfloat16(), b.bfloat16()
    size = 4.0 * a.numel()
    chain = facula.compile(lambda a, b: (a * b + 1.0).relu() - b.abs() * 0.1)
    yield Kernel("elementwise", "add", lambda: a + b, 3 * size, "triad")
    yield Kernel("elementwise", "add_bf16", lambda: half + other, 1.5 * size, "triad")
    yield Kernel("elementwise", "relu", lambda: a.relu(), 2 * size)
    yield Kernel("elementwise", "exp", lambda: a.exp(), 2 * size)
    yield Kernel("elementwise", "gelu", lambda: F.gelu(a), 2 * size)
    yield Kernel("elementwise", "compiled_chain", lambda: chain(a, b), 3 * size, "triad")
    yield Kernel("elementwise", "mul_in_place", lambda: a.mul_(1.0), 2 * size)
    yield Kernel("elementwise", "clone", lambda: a.clone(), 2 * size)
    yield Kernel("elementwise", "to_bf16", lambda: a.bfloat16(), 1.5 * size)
    yield Kernel("elementwise", "transposed", lambda: a.t().contiguous(), 2 * size)


def reductions() -> Iterator[Kernel]:
    """Large tensors, few results: memory is read once."""
    a = facula.randn(4096, 4096)
    half = a.bfloat16()
    size = 4.0 * a.numel()
    for name, call in {
        "sum_all": lambda: a.sum(),
        "sum_rows": lambda: a.sum(1),
        "sum_columns": lambda: a.sum(0),
        "max_rows": lambda: a.amax(1),
        "argmax_rows": lambda: a.argmax(1),
        "var_rows": lambda: a.var(1),
        "norm_all": lambda: a.norm(),
    }.items():
        yield Kernel("reductions", name, call, size, "read")
    yield Kernel("reductions", "sum_rows_bf16", lambda: half.sum(1), size / 2, "read")


def norms() -> Iterator[Kernel]:
    """Rows and channels: read once, written once."""
    a, w, b = facula.randn(16384, 1024), facula.randn(1024), facula.randn(1024)
    image, scale = facula.randn(16, 64, 112, 112), facula.rand(64)
    size, pixels = 4.0 * a.numel(), 4.0 * image.numel()
    yield Kernel("norms", "softmax", lambda: a.softmax(-1), 2 * size)
    yield Kernel("norms", "log_softmax", lambda: a.log_softmax(-1), 2 * size)
    yield Kernel("norms", "layer_norm", lambda: F.layer_norm(a, (1024,), w, b), 2 * size)
    yield Kernel("norms", "rms_norm", lambda: F.rms_norm(a, (1024,), w), 2 * size)
    yield Kernel(
        "norms", "batch_norm", lambda: F.batch_norm(image, scale, scale, scale, scale), 2 * pixels
    )
    yield Kernel("norms", "group_norm", lambda: F.group_norm(image, 8, scale, scale), 2 * pixels)


def products() -> Iterator[Kernel]:
    """Matrix products and convolutions."""
    for dtype, short in ((facula.float32, "f32"), (facula.bfloat16, "bf16")):
        a, b = facula.randn(1024, 1024).to(dtype), facula.randn(1024, 1024).to(dtype)
        yield Kernel(
            "products", f"matmul_{short}", lambda a=a, b=b: a @ b, made=2.0**30, products=short
        )
    x, y = (facula.randint(-9, 9, (1024, 1024), dtype=facula.int8) for _ in range(2))
    yield Kernel(
        "products", "matmul_int8", lambda: facula._int_mm(x, y), made=2.0**30, products="int8"
    )
    p, q = facula.randn(128, 768), facula.randn(768, 3072)
    yield Kernel("products", "matmul_few_rows", lambda: p @ q, made=128.0 * 768 * 3072)
    r, s = facula.randn(1, 4096), facula.randn(4096, 4096)
    yield Kernel("products", "matmul_one_row", lambda: r @ s, 4.0 * s.numel(), "read", 2.0**24)
    for name, cin, size, cout, k, stride in (
        ("conv3x3", 64, 56, 64, 3, 1),
        ("conv3x3_strided", 64, 56, 128, 3, 2),
        ("conv1x1", 256, 56, 64, 1, 1),
        ("conv7x7", 3, 224, 64, 7, 2),
    ):
        image = facula.randn(4, cin, size, size).to(memory_format=facula.channels_last)
        weight = facula.randn(cout, cin, k, k)
        made = 4.0 * cout * (size // stride) ** 2 * cin * k * k
        call = partial(F.conv2d, image, weight, stride=stride, padding=k // 2)
        yield Kernel("products", name, call, made=made)


def attention() -> Iterator[Kernel]:
    """Scaled dot products: two products, and the exponentials between them are free."""
    for dtype, short in ((facula.float32, "f32"), (facula.bfloat16, "bf16")):
        q, k, v = (facula.randn(1, 12, 1024, 64).to(dtype) for _ in range(3))
        for causal in (False, True):
            made = 2.0 * 12 * 1024 * 1024 * 64 / (2 if causal else 1)
            call = partial(F.scaled_dot_product_attention, q, k, v, is_causal=causal)
            yield Kernel(
                "attention", f"sdpa_{short}" + "_causal" * causal, call, made=made, products=short
            )


def report(kernels: list[Kernel], rates: dict[str, float]) -> None:
    """The machine's limits, a row for each kernel, and each group's mean share beside its goal."""
    moved = ", ".join(f"{name} {rates[name] / 1e9:.1f}" for name in BYTES)
    made = ", ".join(f"{name} {rates[name] / 1e9:.1f}" for name in PRODUCTS if name in rates)
    print(f"memory, GB/s: {moved}\nmultiply-adds, 1e9/s: {made}")
    for group, goal in GOALS.items():
        found = [
            (kernel, 100 * kernel.limit(rates) / kernel.least)
            for kernel in kernels
            if kernel.group == group
        ]
        for kernel, share in found:
            print(f"{group:12} {kernel.name:18} {1e3 * kernel.least:9.3f} ms {share:6.0f} %")
        if found:
            mean = math.exp(sum(math.log(share) for _, share in found) / len(found))
            print(f"{group:12} {'mean':18} {'':12} {mean:6.0f} % (goal {goal} %)")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="regular expression on 'group name'")
    asked = parser.parse_args()
    facula.set_num_threads(asked.threads)
    probes = Probes(asked.threads)
    kernels: list[Kernel] = []
    with facula.inference_mode():
        for group in (elementwise, reductions, norms, products, attention):
            several = [
                kernel
                for kernel in group()
                if re.search(asked.only, f"{kernel.group} {kernel.name}")
            ]
            for _ in range(asked.rounds if several else 0):
                probes.measure()
                for kernel in several:
                    kernel.measure(asked.threads)
            for kernel in several:
                kernel.call = lambda: None  # what it held goes before the next group's tensors come
            kernels += several
    report(kernels, probes.rates)


if __name__ == "__main__":
    main()
