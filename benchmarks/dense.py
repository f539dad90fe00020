"""Dense products against oneDNN and PyTorch: `python benchmarks/dense.py gemm|conv|... [--torch]`.

Takes a C shim library over oneDNN (`--onednn PATH`, functions mm, conv, run, freeh) and, with
`--torch`, an installed PyTorch; either may be missing. Gives effective GF/s per shape (padding is
not counted) and the geometric mean of the ratios. Keeps true: every rival runs the same shape
between two of our runs, so that noise of a shared machine hits all alike.
"""

import argparse
import ctypes
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "kernels"))

from tile_harness import Library, runnable  # noqa: E402

SQUARES = [(512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096)]
GEMM = [*SQUARES, (4096, 3072, 768), (4096, 768, 3072), (512, 768, 768), (128, 3072, 768)]
GEMM += [(1024, 50257, 768), (8, 3072, 768), (1, 3072, 768), (1, 768, 768), (1, 4096, 4096)]
# in channels, size, out channels, kernel, stride, padding
CONV = [(64, 56, 64, 3, 1, 1), (128, 28, 128, 3, 1, 1), (256, 14, 256, 3, 1, 1)]
CONV += [(512, 7, 512, 3, 1, 1), (256, 56, 64, 1, 1, 0), (64, 56, 256, 1, 1, 0)]
CONV += [(3, 224, 64, 7, 2, 3), (64, 56, 128, 3, 2, 1), (1024, 14, 256, 1, 1, 0)]
CONV += [(64, 56, 128, 1, 2, 0), (512, 28, 128, 1, 1, 0), (256, 14, 1024, 1, 1, 0)]
CONV += [(2048, 7, 512, 1, 1, 0)]
BATCH = 16
THREADS = 2
DTYPES = {"f32": (np.float32, 0), "bf16": (np.uint16, 1), "u8i8": (np.uint8, 2)}


class OneDnn:
    """The rival's primitives through the shim."""

    def __init__(self, path: str | None) -> None:
        self.library = ctypes.CDLL(path) if path else None
        if self.library is None:
            return
        integer = ctypes.c_long
        self.library.mm.restype = self.library.conv.restype = ctypes.c_void_p
        self.library.mm.argtypes = [ctypes.c_int, *[integer] * 3, *[ctypes.c_int] * 2]
        self.library.conv.argtypes = [*[ctypes.c_int] * 3, *[integer] * 8]
        self.library.run.restype = ctypes.c_double
        self.library.run.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self.library.freeh.argtypes = [ctypes.c_void_p]
        if self.library.init():
            raise RuntimeError("[benchmark] oneDNN must start: got an error")

    def timer(self, function: str, *arguments: int) -> Callable[[int], float] | None:
        """A function that gives the least seconds of so many runs."""
        if self.library is None:
            return None
        handle = getattr(self.library, function)(*arguments)
        return lambda count: self.library.run(handle, count)


def compete(rivals: dict[str, Callable[[int], float] | None], work: float) -> dict[str, float]:
    """Each rival's best GF/s over interleaved rounds."""
    count = 1 if work > 5e10 else 3 if work > 1e9 else 10 if work > 1e7 else 200
    least = {name: math.inf for name, run in rivals.items() if run}
    for _ in range(3 if work > 5e10 else 5):
        for name in least:
            least[name] = min(least[name], rivals[name](count))
    return {name: work / seconds / 1e9 for name, seconds in least.items()}


def report(rows: list[tuple[str, dict[str, float]]], ours: str = "ours") -> None:
    """The geometric means of ours over each rival."""
    for rival in {name for _, speeds in rows for name in speeds} - {ours}:
        ratios = [(s[ours] / s[rival], label) for label, s in rows if rival in s]
        mean = math.exp(sum(math.log(r) for r, _ in ratios) / len(ratios))
        worst = min(ratios)
        print(f"ours / {rival}: geometric mean {mean:.2f}, least {worst[0]:.2f} at {worst[1]}")


def show(label: str, speeds: dict[str, float]) -> tuple[str, dict[str, float]]:
    """Prints one line."""
    text = "  ".join(f"{name} {speed:7.1f}" for name, speed in speeds.items())
    ratios = " ".join(
        f"{speeds['ours'] / s:.2f}x {n}" for n, s in speeds.items() if n not in ("ours",)
    )
    print(f"{label:<34} {text}  | {ratios}", flush=True)
    return label, speeds


def torch_timer(make: Callable) -> Callable[[int], float]:
    """A timer around a PyTorch call."""
    import time

    import torch

    call = make(torch)
    clock = time.thread_time if THREADS == 1 else time.perf_counter

    def run(count: int) -> float:
        least = math.inf
        with torch.no_grad():
            for _ in range(count):
                begin = clock()
                call()
                least = min(least, clock() - begin)
        return least

    return run


def aligned(values: np.ndarray) -> np.ndarray:
    """A copy that starts on a cache line, as tensors of either library do."""
    room = np.empty(values.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    copy = room[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


def gemm_values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, side: str):
    """Operands of a dtype, by their bits."""
    if dtype == "u8i8":
        low, kind = (0, np.uint8) if side == "a" else (-100, np.int8)
        return aligned(rng.integers(low, 100, shape).astype(kind))
    values = rng.standard_normal(shape, dtype=np.float32)
    return aligned(values if dtype == "f32" else (values.view(np.uint32) >> 16).astype(np.uint16))


def bench_gemm(library: Library, rival: OneDnn, dtype: str, torch: bool, layout: str) -> None:
    """Matrix products; layout `ba` has weights [N][K], `ab` [K][N], `t` both operands transposed."""
    rng = np.random.default_rng(0)
    rows = []
    for m, n, k in GEMM:
        a = gemm_values(rng, (k, m) if layout == "t" else (m, k), dtype, "a")
        b = gemm_values(rng, (k, n) if layout != "ba" else (n, k), dtype, "b")
        c = aligned(np.empty((m, n), np.int32 if dtype == "u8i8" else a.dtype))
        one = 1 if dtype == "u8i8" else 1.0
        strides_a = (1, m) if layout == "t" else (k, 1)
        ints = [1, m, n, k, 0, *strides_a, 0, *((1, k) if layout == "ba" else (n, 1)), 0, n, 0]
        work = 2.0 * m * n * k

        def ours(count: int, run=(f"gemm:{dtype}", [c, a, b, None], ints, [one, one * 0])) -> float:
            return library.best(*run, count=count)

        rivals = {"ours": ours}
        if layout != "t":
            tag = DTYPES[dtype][1]
            rivals["onednn"] = rival.timer("mm", tag, m, n, k, int(layout == "ba"), 0)
        if torch and dtype != "u8i8":
            rivals["torch"] = torch_gemm(a, b, layout, dtype)
        rows.append(show(f"{dtype} {layout} {m}x{n}x{k}", compete(rivals, work)))
    report(rows)


def torch_gemm(a: np.ndarray, b: np.ndarray, layout: str, dtype: str) -> Callable[[int], float]:
    """PyTorch's product of the same operands."""

    def make(torch):
        torch.set_num_threads(THREADS)
        x, y = (torch.from_numpy(v) for v in (a, b))
        if dtype == "bf16":
            x, y = (v.view(torch.bfloat16) for v in (x, y))
        x = x.T if layout == "t" else x
        y = y.T if layout == "ba" else y
        return lambda: torch.mm(x, y)

    return torch_timer(make)


def valid_taps(size: int, out: int, kernel: int, stride: int, padding: int) -> int:
    """Pairs of an output coordinate and a tap inside the image."""
    return sum(0 <= o * stride - padding + t < size for o in range(out) for t in range(kernel))


def bench_conv(library: Library, rival: OneDnn, kind: str, dtype: str, torch: bool, layout: str):
    """Convolutions, forward, backward_data or backward_weight."""
    rng = np.random.default_rng(0)
    rows = []
    direction = ["forward", "backward_data", "backward_weight"].index(kind)
    for cin, size, cout, kernel, stride, padding in CONV:
        if direction == 1 and cin == 3:
            continue
        out = (size + 2 * padding - kernel) // stride + 1
        x = gemm_values(rng, (BATCH, size, size, cin), dtype, "a")
        y = gemm_values(rng, (BATCH, out, out, cout), dtype, "a")
        w = gemm_values(rng, (cout, cin, kernel, kernel), dtype, "a")
        arrays = {0: [y, x, w, None], 1: [x, y, w], 2: [w, y, x, None]}[direction]
        flag = int(layout == "nhwc")
        ints = [BATCH, cin, size, size, cout, kernel, kernel, stride, stride, padding, padding]
        ints += [1, 1, 1, out, out, flag, flag, 0]
        work = 2.0 * BATCH * cin * cout * valid_taps(size, out, kernel, stride, padding) ** 2

        def ours(count: int, run=(f"conv2d_{kind}:{dtype}", arrays, ints)) -> float:
            return library.best(*run, count=count)

        shape = (BATCH, cin, size, size, cout, kernel, stride, padding)
        rivals = {"ours": ours}
        rivals["onednn"] = rival.timer("conv", direction, DTYPES[dtype][1], flag, *shape)
        if torch:
            rivals["torch"] = torch_conv(x, w, y, direction, stride, padding, dtype, layout)
        label = f"{dtype} {kind} {layout} {cin},{size},{cout},{kernel},{stride},{padding}"
        rows.append(show(label, compete(rivals, work)))
    report(rows)


def torch_conv(x, w, y, direction: int, stride: int, padding: int, dtype: str, layout: str):
    """PyTorch's convolution of the same shape."""

    def make(torch):
        torch.set_num_threads(THREADS)
        kind = torch.bfloat16 if dtype == "bf16" else torch.float32
        form = torch.channels_last if layout == "nhwc" else torch.contiguous_format
        shape = (x.shape[0], x.shape[3], x.shape[1], x.shape[2])
        xs = torch.randn(shape).to(kind).contiguous(memory_format=form)
        ws = torch.randn(w.shape).to(kind).contiguous(memory_format=form)
        ys = torch.randn((y.shape[0], y.shape[3], *y.shape[1:3])).to(kind)
        ys = ys.contiguous(memory_format=form)
        if direction == 0:
            return lambda: torch.conv2d(xs, ws, None, stride, padding)
        mask = [direction == 1, direction == 2, False]
        pairs = [[stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1, mask]
        return lambda: torch.ops.aten.convolution_backward(ys, xs, ws, None, *pairs)

    return torch_timer(make)


def main() -> None:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["gemm", "forward", "backward_data", "backward_weight"])
    parser.add_argument("--dtype", default="f32", choices=list(DTYPES))
    parser.add_argument("--layout", default=None, help="ba, ab, t; nhwc, nchw")
    parser.add_argument("--isa", default=runnable()[-1])
    parser.add_argument("--onednn", default=None, help="the shim library")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default=None, help="indices of shapes, joined by commas")
    options = parser.parse_args()
    library, rival = Library(options.isa), OneDnn(options.onednn)
    global THREADS
    THREADS = options.threads
    library.set_threads(THREADS)
    if options.only:
        wanted = [int(i) for i in options.only.split(",")]
        GEMM[:] = [GEMM[i] for i in wanted if i < len(GEMM)]
        CONV[:] = [CONV[i] for i in wanted if i < len(CONV)]
    if options.what == "gemm":
        bench_gemm(library, rival, options.dtype, options.torch, options.layout or "ba")
    else:
        layout = options.layout or "nhwc"
        bench_conv(library, rival, options.what, options.dtype, options.torch, layout)


if __name__ == "__main__":
    main()
