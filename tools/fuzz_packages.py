"""Feeds damaged packages to the runtime of packaged models, compiled with sanitizers.

Takes the number of packages and a seed. Gives what `fuzz_packages.c` prints, and its exit status: other than 0
for a read or write outside of memory, undefined behaviour, a leak, or an error without words. Keeps true: the
same seed gives the same packages; models are run, their kernels are not.

    python tools/fuzz_packages.py --count 100000
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import facula
from facula import export, mobile, nn
from facula.deploy import native
from facula.deploy.package import write_package
from facula.runtime.compile import include_folder

SANITIZED = (
    "-O1 -g -std=gnu11 -w -pthread -fsanitize=address,undefined -fno-sanitize-recover=undefined"
)


class _Net(nn.Module):
    """Something of everything: packed weights, folded norms, checked indices, a result that is a view."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.linear, self.table = nn.Linear(4, 3), nn.Embedding(5, 3)

    def forward(self, x: Any, i: Any) -> Any:
        y = self.norm(self.convolution(x)).relu().mean((2, 3))
        return self.linear(y).softmax(1) + self.table(i), x.transpose(1, 2)[:, ::2]


def write_sound(folder: Path) -> list[str]:
    """A mobile file, and a package of any batch without its native code."""
    model = _Net().eval()
    arguments = facula.randn(2, 3, 6, 6), facula.tensor([1, 2])
    batch = export.Dim("batch", min=1, max=16)
    mobile.export(model, arguments, folder / "fixed.ptl")
    program = export.export(model, arguments, dynamic_shapes=({0: batch}, {0: batch}))
    facula._inductor.aoti_compile_and_package(program, package_path=str(folder / "any.pt2"))
    with zipfile.ZipFile(folder / "any.pt2") as file:
        names = [n for n in file.namelist() if n != "manifest" and not n.startswith("lib/")]
        write_package(folder / "dynamic.ptl", {name: file.read(name) for name in names}, "any")
    return [str(folder / "fixed.ptl"), str(folder / "dynamic.ptl")]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000, help="packages in all")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="facula-fuzz-") as name:
        program = os.path.join(name, "fuzz_packages")
        source = str(Path(__file__).with_suffix(".c"))
        folders = [f"-I{include_folder()}", f"-I{native.source_folder()}"]
        compiler = os.environ.get("CC", "gcc")
        command = [compiler, *SANITIZED.split(), *folders, source, "-o", program, "-lm", "-ldl"]
        subprocess.run(command, check=True)
        words = [program, str(options.count), str(options.seed), *write_sound(Path(name))]
        return subprocess.run(words, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
