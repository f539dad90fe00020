"""Whether a wheel keeps its promises: `python tools/check_wheel.py dist/facula-*.whl`.

Takes a wheel with all kernel variants that was built for the running Python; unpacks it and runs a
small workload once for each variant that this processor can run, with no compiler, no NumPy and
nothing else installed.  Gives exit status 0, or says what failed.  Keeps true: variants agree to
rounding, the compiler is never asked for (the runtime of packaged models is there, too), and the
unpacked size stays within `MOST_BYTES`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

MOST_BYTES = 40_000_000
TOLERANCE = 2e-3  # bfloat16 results are part of the workload, and their sums may round either way

WORKLOAD = """
import json, sys
sys.path.insert(0, sys.argv[1])
import facula
from facula import nn
from facula.runtime import cpu_features, libraries

functional = nn.functional
facula.manual_seed(1)
figures = {}

def keep(name, tensor):
    tensor = tensor.double()
    figures[name] = [tensor.sum().item(), tensor.abs().max().item()]

for dtype in (facula.float32, facula.float64, facula.bfloat16):
    x = facula.rand(6, 40, 50).to(dtype)
    keep(f"product {dtype}", x @ x.transpose(1, 2))
    keep(f"gelu {dtype}", functional.gelu(x))
    keep(f"softmax {dtype}", facula.softmax(x, -1) * x)
    keep(f"variance {dtype}", x.var(1))
    keep(f"sort {dtype}", x.sort(-1).values[..., 7])
    keep(f"cumsum {dtype}", x[0, 0].cumsum(0))
    keep(f"norm {dtype}", functional.layer_norm(x, (50,)) * x)
    query = x.reshape(1, 6, 40, 50)
    keep(f"attention {dtype}", functional.scaled_dot_product_attention(query, query, query))
    image, weight = x.reshape(2, 3, 40, 50), facula.rand(8, 3, 3, 3).to(dtype)
    keep(f"convolution {dtype}", functional.conv2d(image, weight, padding=1))
    keep(f"pool {dtype}", functional.max_pool2d(image, 2))
for dtype in (facula.int64, facula.int32, facula.uint8):
    n = facula.randint(0, 50, (40, 30)).to(dtype)
    keep(f"integers {dtype}", (n * n).sum(0) + n.amax(0))
    keep(f"gather {dtype}", n.gather(0, n.long() % 40))

model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.LayerNorm(30), nn.Linear(30, 5))
optimizer = facula.optim.AdamW(model.parameters(), lr=1e-2)
rows, classes = facula.rand(64, 20), facula.randint(0, 5, (64,))
for step in range(5):
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(rows), classes)
    loss.backward()
    optimizer.step()
keep("training", loss.detach())
path = sys.argv[1] + "/model.ptl"
facula.mobile.export(model.eval(), (rows,), path)
keep("mobile file", facula.mobile.load(path)(rows))
print(json.dumps({"figures": figures, "variant": libraries.kernel_variant(), "numpy": "numpy" in sys.modules}))
"""


def run_variant(folder: Path, variant: str) -> dict[str, list[float]]:
    """The workload's figures under one variant, from a bare interpreter."""
    # -S: no site-packages, so that neither NumPy nor another facula can be found
    command = [sys.executable, "-S", "-c", WORKLOAD, str(folder)]
    environment = {"FACULA_ISA": variant, "PATH": "", "HOME": str(folder)}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if result.returncode != 0:
        sys.exit(f"{variant}: the workload failed\n{result.stderr[-3000:]}")
    report = json.loads(result.stdout)
    if report["variant"] != variant or report["numpy"]:
        sys.exit(f"{variant}: ran {report['variant']}, NumPy imported: {report['numpy']}")
    return report["figures"]


def differences(expected: dict[str, list[float]], actual: dict[str, list[float]]) -> list[str]:
    """Where two variants disagree by more than rounding."""
    return [
        f"{name}: {actual[name]} instead of {values}"
        for name, values in expected.items()
        for a, b in zip(values, actual[name], strict=True)
        if not abs(a - b) <= TOLERANCE * max(1.0, abs(a))
    ]


def runnable(folder: Path) -> list[str]:
    """The variants in the wheel that this processor can run, plainest first."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from facula.runtime import cpu_features as c;"
        "print(*c.variants()[: c.variants().index(c.detected()) + 1])"
    )
    command = [sys.executable, "-S", "-c", code, str(folder)]
    output = subprocess.run(command, capture_output=True, text=True, env={"PATH": ""}, check=True)
    return output.stdout.split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheel", type=Path, help="the wheel")
    wheel = parser.parse_args().wheel
    with tempfile.TemporaryDirectory() as name, zipfile.ZipFile(wheel) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
        if size > MOST_BYTES:
            sys.exit(
                f"{wheel}: {size / 1e6:.1f} MB unpacked, at most {MOST_BYTES / 1e6:.0f} are allowed"
            )
        folder = Path(name)
        archive.extractall(folder)
        variants = runnable(folder)
        figures = {variant: run_variant(folder, variant) for variant in variants}
    for variant in variants[1:]:
        found = differences(figures[variants[0]], figures[variant])
        if found:
            sys.exit("\n".join([f"{variant} disagrees with {variants[0]}", *found]))
    print(f"{wheel.name}: {size / 1e6:.1f} MB unpacked; {', '.join(variants)} run and agree")


if __name__ == "__main__":
    main()
