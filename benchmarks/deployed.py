"""What a model costs away from Python: `python benchmarks/deployed.py [--only package,mobile,padding]`.

Takes facula's own networks. Gives, for a package of ResNet-18: the time from the start of a process to its
first result, the bytes of its native code, and the ratio of its speed to the compiled model's in Python; for a
mobile file of MobileNetV3: the bytes of the runtime beside the library's, the time of a start on a model of one
layer, and the peak memory above the weights; for half-padded batches: the ratio of an encoder's fast path to
the padded one. Keeps true: two things that are compared take turns on one thread, and the least processor time
of the rounds counts; a start is a process of its own, whose files were read before.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

import facula
from facula import export, mobile, nn

os.environ.setdefault("FACULA_NUM_THREADS", "1")


def turns(first: Callable[[], Any], second: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """Least processor time (ms) of each, taken in turns."""
    least = [float("inf"), float("inf")]
    for _ in range(rounds):
        for place, run in enumerate((first, second)):
            begin = time.process_time()
            run()
            least[place] = min(least[place], 1e3 * (time.process_time() - begin))
    return least[0], least[1]


#: runs a command in a process of its own and prints what it used: (seconds, of the processor, KiB at most)
METER = """
import resource, subprocess, sys, time
begin = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
took = time.perf_counter() - begin
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(took, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def starts(command: list[str], rounds: int) -> tuple[float, float, int]:
    """The least time of a command from start to end (ms), of the processor (ms), and its peak memory (bytes)."""
    meter = [sys.executable, "-S", "-c", METER, *command]
    told = [subprocess.run(meter, check=True, capture_output=True).stdout for _ in range(rounds)]
    took, used, peak = zip(*(map(float, line.split()) for line in told), strict=True)
    return 1e3 * min(took), 1e3 * min(used), int(max(peak)) * 1024


def written(folder: str, shape: tuple[int, ...]) -> str:
    """A file of random numbers."""
    path = os.path.join(folder, "in.npy")
    np.save(path, np.random.default_rng(0).standard_normal(shape).astype("float32"))
    return path


def measure_package(folder: str, rounds: int) -> None:
    """ResNet-18 as a package."""
    model = facula.vision.models.resnet18().eval()
    x = facula.randn(1, 3, 224, 224)
    path = os.path.join(folder, "resnet18.pt2")
    with facula.no_grad():
        facula._inductor.aoti_compile_and_package(export.export(model, (x,)), package_path=path)
        package, compiled = facula._inductor.aoti_load_package(path), facula.compile(model)
        difference = float((package(x) - compiled(x)).abs().max())
        mine, other = turns(lambda: package(x), lambda: compiled(x), rounds)
    with zipfile.ZipFile(path) as file:
        codes = {n.filename: n.file_size for n in file.infolist() if n.filename.endswith(".so")}
    program = facula.deploy.native.runtime_program()
    command = [program, path, written(folder, (1, 3, 224, 224)), os.path.join(folder, "out.npy")]
    starts(command, 2)
    least, used, _ = starts(command, rounds)
    shown = ", ".join(f"{name} {size / 1e6:.2f}" for name, size in sorted(codes.items()))
    print(
        f"package of ResNet-18: start to first result {least:.0f} ms (of the processor {used:.0f})"
    )
    print(f"  native code {shown} MB, all {sum(codes.values()) / 1e6:.2f}")
    print(f"  run {mine:.2f} ms, compiled in Python {other:.2f}: {other / mine:.2f}x")
    print(f"  greatest difference {difference:.1e}")


def library_bytes() -> int:
    """The bytes of facula's own code: every file of the package but byte code."""
    root = os.path.dirname(facula.__file__)
    total = 0
    for place, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != "__pycache__"]
        total += sum(os.path.getsize(os.path.join(place, name)) for name in names)
    return total


def measure_mobile(folder: str, rounds: int) -> None:
    """MobileNetV3 as a mobile file."""
    whole = [p for p in mobile.runtime_files()]
    all_bytes = sum(os.path.getsize(path) for path in whole)
    own = library_bytes()
    print(
        f"mobile runtime, all operators: {all_bytes / 1e6:.2f} MB, "
        f"{100 * all_bytes / own:.1f} % of the package's {own / 1e6:.1f} MB"
    )
    small = os.path.join(folder, "small.ptl")
    mobile.export(nn.Linear(4, 4).eval(), (facula.ones(1, 4),), small)
    command = mobile.runtime_command(small, [written(folder, (1, 4))], folder + "/out.npy")
    starts(command, 2)
    least, used, _ = starts(command, rounds)
    print(f"  start of a model of one layer {least:.1f} ms (of the processor {used:.1f})")
    model = facula.vision.models.mobilenet_v3_large().eval()
    path = os.path.join(folder, "mobilenet.ptl")
    mobile.export(model, (facula.ones(1, 3, 224, 224),), path)
    command = mobile.runtime_command(
        path, [written(folder, (1, 3, 224, 224))], os.path.join(folder, "out.npy")
    )
    selected = sum(os.path.getsize(file) for file in mobile.runtime_files())
    starts(command, 2)
    least, used, peak = starts(command, rounds)
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    print(f"  runtime with the kernels of MobileNetV3 {selected / 1e6:.2f} MB")
    print(f"  MobileNetV3: start to result {least:.0f} ms (of the processor {used:.0f})")
    print(
        f"  peak {peak / 1e6:.1f} MB, {(peak - weights) / 1e6:.1f} above the weights' {weights / 1e6:.1f}"
    )


def measure_padding(folder: str, rounds: int) -> None:
    """An encoder of BERT's width on sequences of which half is padding."""
    del folder
    layer = nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True, activation="gelu")
    fast = nn.TransformerEncoder(layer, 4, enable_nested_tensor=True).eval()
    slow = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).eval()
    slow.load_state_dict(fast.state_dict())
    lengths = facula.tensor([128, 96, 64, 48, 64, 32, 48, 32])
    padded = facula.arange(128).expand(8, 128) >= lengths[:, None]
    x = facula.randn(8, 128, 768)
    with facula.no_grad():
        ours, theirs = fast(x, src_key_padding_mask=padded), slow(x, src_key_padding_mask=padded)
        kept = (~padded)[:, :, None]
        difference = float(((ours - theirs) * kept).abs().max())
        mine, other = turns(
            lambda: fast(x, src_key_padding_mask=padded),
            lambda: slow(x, src_key_padding_mask=padded),
            rounds,
        )
    print(
        f"half-padded batch, fast path {mine:.1f} ms, padded {other:.1f}: {other / mine:.2f}x; "
        f"greatest difference {difference:.1e}"
    )


PARTS = {"package": measure_package, "mobile": measure_mobile, "padding": measure_padding}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    facula.set_num_threads(1)
    for name in options.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            PARTS[name](folder, options.rounds)


if __name__ == "__main__":
    main()
