"""Prints the table of figures in README.md: `python tools/bench.py [--write]`.

Takes the installed facula, and the Python of an environment with PyTorch in `BENCH_TORCH`; prints
the table, and with `--write` puts it into README.md.  Keeps true: both frameworks run the same
script, each in a process of its own, in turn; each figure is the median of several runs.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- bench: begin -->\n", "<!-- bench: end -->"

# runs in a process of its own, for either framework
WORKLOADS = r"""
import importlib, json, os, statistics, sys, tempfile, time
caches = tempfile.TemporaryDirectory()
os.environ["FACULA_CACHE_DIR"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = caches.name
name, repeats = sys.argv[1], int(sys.argv[2])
before = set(sys.modules)
begin = time.perf_counter()
f = importlib.import_module(name)
a = f.ones(8)
figures = {"import": time.perf_counter() - begin, "modules": len(set(sys.modules) - before)}
F = importlib.import_module(name + ".nn.functional")
optim = importlib.import_module(name + ".optim")

def measure(call, seconds=0.2):
    call()
    count, begin = 1, time.perf_counter()
    while True:
        for _ in range(count):
            call()
        spent = time.perf_counter() - begin
        if spent > seconds / 10:
            break
        count, begin = count * 2, time.perf_counter()
    runs = []
    for _ in range(repeats):
        begin = time.perf_counter()
        for _ in range(count):
            call()
        runs.append((time.perf_counter() - begin) / count)
    return statistics.median(runs)

a, b = f.ones(8), f.ones(8)
x = f.ones(8, requires_grad=True)
figures["add"] = measure(lambda: a + b)
figures["add_recorded"] = measure(lambda: x + b)
def chain():
    (x * b).sum().backward()
figures["backward"] = measure(chain)
m, n = f.randn(1024, 1024), f.randn(1024, 1024)
figures["matmul"] = measure(lambda: m @ n)
s = f.randn(4096, 1024)
figures["softmax"] = measure(lambda: F.softmax(s, dim=-1))
parameters = [f.randn(1000, requires_grad=True) for _ in range(200)]
for p in parameters:
    p.grad = f.randn(1000)
step = optim.AdamW(parameters)
figures["adamw"] = measure(step.step)
step = optim.AdamW(parameters, fused=True)
figures["adamw_fused"] = measure(step.step)
layer = f.nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
words = f.randn(8, 128, 256)
def training(module):
    module(words).square().mean().backward()
figures["layer"] = measure(lambda: training(layer))
compiled = f.compile(layer)
begin = time.perf_counter()
training(compiled)
figures["first"] = time.perf_counter() - begin
figures["compiled"] = measure(lambda: training(compiled))
figures["version"] = f.__version__
with open("/proc/self/status") as status:
    figures["resident"] = next(int(l.split()[1]) << 10 for l in status if l.startswith("VmHWM"))
print(json.dumps(figures))
"""

ROWS = (
    ("unpacked install", "size", lambda v: f"{v / 1e6:.0f} MB"),
    ("`import`", "import", lambda v: f"{v:.2f} s"),
    ("modules imported", "modules", str),
    ("`a + b`, 8 floats", "add", lambda v: f"{v * 1e6:.2f} us"),
    (
        "`a + b`, 8 floats, recorded for the gradient",
        "add_recorded",
        lambda v: f"{v * 1e6:.2f} us",
    ),
    ("`(x * b).sum().backward()`, 8 floats", "backward", lambda v: f"{v * 1e6:.2f} us"),
    (
        "matrix product 1024 x 1024 x 1024, float32",
        "matmul",
        lambda v: f"{v * 1e3:.1f} ms ({2 * 1024**3 / v / 1e9:.0f} GF/s)",
    ),
    ("softmax of 4096 x 1024, float32", "softmax", lambda v: f"{v * 1e3:.2f} ms"),
    (
        "AdamW step, 200 tensors of 1000 floats, default settings",
        "adamw",
        lambda v: f"{v * 1e6:.0f} us",
    ),
    ("... with `fused=True`", "adamw_fused", lambda v: f"{v * 1e6:.0f} us"),
    (
        "transformer layer of 256 on 8 x 128 words, forward and backward",
        "layer",
        lambda v: f"{v * 1e3:.1f} ms",
    ),
    ("... compiled", "compiled", lambda v: f"{v * 1e3:.1f} ms"),
    ("... first compiled call, nothing cached", "first", lambda v: f"{v:.2f} s"),
    ("memory of the process that ran all this, at most", "resident", lambda v: f"{v / 1e6:.0f} MB"),
)

SIZE = r"""
import importlib.util, os, sys
folder = os.path.dirname(importlib.util.find_spec(sys.argv[1]).origin)
print(sum(os.path.getsize(os.path.join(d, n)) for d, _, ns in os.walk(folder) for n in ns
          if "__pycache__" not in d))
"""


def run(python: str, script: str, *arguments: str) -> str:
    """A script's output, in a process of its own."""
    command = [python, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    if done.returncode != 0:
        sys.exit(f"{python}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def figures(python: str, name: str, repeats: int) -> dict[str, float]:
    """Every figure of one framework."""
    found = json.loads(run(python, WORKLOADS, name, str(repeats)))
    found["size"] = int(run(python, SIZE, name))
    return found


def table(ours: dict[str, float], other: dict[str, float] | None) -> str:
    """The figures side by side, as Markdown."""
    head = f"PyTorch {other['version']}" if other else "PyTorch"
    lines = [f"| | facula | {head} |", "|---|---|---|"]
    for label, key, show in ROWS:
        theirs = show(other[key]) if other else "*not measured here*"
        lines.append(f"| {label} | {show(ours[key])} | {theirs} |")
    return "\n".join(lines) + "\n"


def write(text: str) -> None:
    """Puts the table into README.md."""
    path = ROOT / "README.md"
    head, _, rest = path.read_text().partition(BEGIN)
    path.write_text(head + BEGIN + text + END + rest.partition(END)[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    arguments = parser.parse_args()
    ours = figures(sys.executable, "facula", arguments.repeats)
    torch = os.environ.get("BENCH_TORCH")
    other = figures(torch, "torch", arguments.repeats) if torch else None
    text = table(ours, other)
    print(text)
    if arguments.write:
        write(text)


if __name__ == "__main__":
    main()
