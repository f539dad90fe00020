"""Feeds damaged packages to the runtime of packaged models, compiled with sanitizers.

Takes the number of packages and a seed. Gives what `fuzz_packages.c` prints, and its exit status: other than 0
for a read or write outside of memory, undefined behaviour, a leak, or an error without words. Keeps true: the
same seed gives the same packages; models are run, and the kernels that find their places by sizes alone,
compiled with a sanitizer themselves.

    python tools/fuzz_packages.py --count 100000
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import facula
from facula import export, nn
from facula.codegen.c import units
from facula.deploy import native
from facula.deploy.aot import entries_of
from facula.deploy.kernels import units_of
from facula.deploy.package import write_package
from facula.deploy.program_text import kernels_in
from facula.deploy.programs import Parts, Source, compiled_parts
from facula.nn import functional as F
from facula.runtime import cpu_features
from facula.runtime.compile import default_flags, include_folder

SANITIZED = (
    "-O1 -g -std=gnu11 -w -pthread -fsanitize=address,undefined -fno-sanitize-recover=undefined"
)


#: kernels: memory alone, whose faults a package could cause; whole numbers wrap in them
CHECKED = "-O1 -g -std=gnu11 -w -fsanitize=address"


class _Image(nn.Module):
    """Packed weights, folded norms, groups, windows."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.head = nn.Conv2d(8, 8, 3, stride=2, groups=4), nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        y = F.max_pool2d(self.norm(self.first(x)).relu(), 2, padding=1)
        y = F.interpolate(F.avg_pool2d(self.second(y), 2, 1), scale_factor=2.0, mode="bilinear")
        return self.head(y.mean((2, 3))).softmax(1), x.transpose(1, 2)[:, ::2]


class _Words(nn.Module):
    """Attention, norms of rows, scans, orders, products."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.product = nn.LayerNorm(8), nn.Linear(8, 24)

    def forward(self, x: Any) -> Any:
        q, k, v = self.product(self.norm(x)).chunk(3, -1)
        y = F.scaled_dot_product_attention(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1)).squeeze(
            1
        )
        y = facula.cat([y.cumsum(1), F.gelu(x)], 2)
        return y.sort(-1)[0], y.amax(1), F.pad(y, (1, 2)).log_softmax(-1), (x @ x.mT).argmax(-1)


class _Indexed(nn.Module):
    """What reads elements as places, for a batch of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.table = nn.Linear(4, 3), nn.Embedding(5, 3)

    def forward(self, x: Any, i: Any) -> Any:
        return self.linear(x).softmax(1) + self.table(i), x.gather(1, i.unsqueeze(1) % 4)


def sound_parts() -> list[tuple[str, Parts]]:
    """Two files of fixed sizes, and a package of any batch."""
    variant = cpu_features.parts(cpu_features.detected())[0]
    image, words = facula.randn(2, 3, 12, 12), facula.randn(2, 5, 8)
    found = [
        (name, compiled_parts(Source(export.export(net.eval(), (x,))), (), fuses=False))
        for name, net, x in (("image", _Image(), image), ("words", _Words(), words))
    ]
    batch = export.Dim("batch", min=1, max=16)
    arguments = facula.randn(2, 4), facula.tensor([1, 2])
    program = export.export(_Indexed().eval(), arguments, dynamic_shapes=({0: batch}, {0: batch}))
    return [*found, ("indexed", compiled_parts(Source(program), (variant,)))]


def compiled_kernels(parts: Sequence[Parts], folder: Path, compiler: str) -> list[str]:
    """Object files of all the kernels that programs name, and of their table."""
    variant = cpu_features.parts(cpu_features.detected())[0]
    named = {name for each in parts for name in kernels_in(each.regions)}
    texts = units_of(variant, sorted(name for name in named if not name.startswith("fused/")))
    fused = [text for each in parts for text in each.fused.get(variant, ())]
    texts += [(f"fused_{k}", text, ()) for k, text in enumerate(fused)]
    count = sum(len(units.ENTRY.findall(text)) for _, text, _ in texts)
    symbols = [re.sub(r"\W", "_", name) for name, _, _ in texts]
    (folder / "table_of_units.c").write_text(units.index_text(symbols, count))
    made = [str(folder / "table_of_units.c")]
    for symbol, (_, text, _) in zip(symbols, texts, strict=True):
        source = folder / f"{symbol}.c"
        source.write_text(text)
        words = [f"-D{word}={word}_{symbol}" for word in ("facula_kernels", "facula_abi")]
        words += [*default_flags(variant), *CHECKED.split(), f"-I{include_folder()}"]
        made.append(str(source.with_suffix(".o")))
        subprocess.run([compiler, *words, "-c", str(source), "-o", made[-1]], check=True)
    return made


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000, help="packages in all")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="facula-fuzz-") as name:
        folder, program = Path(name), os.path.join(name, "fuzz_packages")
        sound = dict(sound_parts())
        files = [
            write_package(folder / f"{key}.ptl", entries_of(parts, ()), "any")
            for key, parts in sound.items()
        ]
        compiler = os.environ.get("CC", "gcc")
        objects = compiled_kernels(list(sound.values()), folder, compiler)
        source = str(Path(__file__).with_suffix(".c"))
        folders = [f"-I{include_folder()}", f"-I{native.source_folder()}"]
        command = [compiler, *SANITIZED.split(), *folders, source, *objects, "-o", program]
        subprocess.run([*command, "-Wl,--wrap=memcpy", "-lm", "-ldl"], check=True)
        words = [program, str(options.count), str(options.seed), *files[:-1], "-", files[-1]]
        given = "allocator_may_return_null=1:hard_rss_limit_mb=4000"
        return subprocess.run(
            words, check=False, env={**os.environ, "ASAN_OPTIONS": given}
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
