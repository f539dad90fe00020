"""Records everything that the compiler writes for a corpus (`tools/replay.py record`).

Takes: the facula that Python finds first; corpora by name: `kernels` (the C of all prebuilt units and
variants), `samples` (calls of every definition), `networks` (the models of the tests, trained and not),
`programs` (programs of the fuzzer, at two sizes).
Gives: for each case a file of text: captured graphs, guards, what is left to Python, joint and flat graphs,
fused kernels, schedules, C, wrappers, and the error where there was one; `digests.txt` over all of them.
Keeps true: the same tree writes the same files, in every process; no C is compiled, and graphs run operator
by operator instead.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import logging
import random
import re
import shutil
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import facula
from facula.compiler import backend, disk_format
from facula.compiler import graph as graphs
from facula.compiler import options as config
from facula.compiler.pipeline import lowered
from facula.core import logs
from facula.lower.aot.for_sizes import NotSymbolic
from facula.lower.at_sizes import symbols_of
from facula.testing.samples import map_tensors

ROOT = Path(__file__).resolve().parent.parent
sys.path[1:1] = [str(ROOT / "tests" / "compile")]

import build_kernels  # noqa: E402
import fuzz_compile  # noqa: E402
import sweep_cases  # noqa: E402
import test_compiled_networks as networks  # noqa: E402

VARIANTS = ("v2", "v3", "v4", "v4x", "v4a")
ARTIFACTS = (
    "graph_code", "guards", "graph_breaks", "aot_joint_graph", "aot_graphs", "fusion", "schedule",
)  # fmt: skip


class Record:
    """A folder with a file for each case, made of what is said while the case runs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sections: list[str] = []
        self.digests: dict[str, str] = {}

    def say(self, title: str, text: object) -> None:
        """One section of the present case."""
        self.sections.append(f"==== {title}\n{text}\n")

    def write(self, path: str, text: str) -> None:
        """A file of the record."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.digests[path] = hashlib.sha256(text.encode()).hexdigest()

    def case(self, corpus: str, name: str, run: Callable[[], object]) -> None:
        """Run a case, and write what was said meanwhile."""
        self.sections = []
        random.seed(0)
        facula.manual_seed(0)
        facula.compiler.reset()
        try:
            run()
        except Exception as error:  # what a program raises is a part of what it does
            self.say("raised", f"{type(error).__name__}: {error}")
        name = re.sub(r"\W+", "_", name)
        self.write(f"{corpus}/{name}.txt", without_places("".join(self.sections)))

    def close(self) -> None:
        """Write the digests."""
        lines = [f"{digest}  {path}\n" for path, digest in sorted(self.digests.items())]
        (self.root / "digests.txt").write_text("".join(lines))
        print(f"replay: {len(lines)} cases recorded", flush=True)


def without_places(text: str) -> str:
    """Text that says nothing of where things stand: in memory, in files, in lines of files."""
    text = re.sub(r"^ *# File: .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r'File "[^<"][^"]*", line \d+', "File", text)
    text = re.sub(r"<(code object \w+|module '[\w.]+') (at|from) .*", r"<\1", text)
    seen: dict[str, str] = {}
    return re.sub(r"0x[0-9a-f]{8,}", partial(numbered, seen), text)


def numbered(seen: dict[str, str], found: re.Match[str]) -> str:
    """The number of an object without a name of its own, in the order of their mention."""
    return seen.setdefault(found[0], f"<object {len(seen)}>")


def listen(record: Record) -> None:
    """Take down what the compiler's logs say, and stop before C is compiled."""

    class Handler(logging.Handler):
        def emit(self, said: logging.LogRecord) -> None:
            if said.name.startswith("facula.artifact"):
                record.say(said.name.rpartition(".")[2], said.getMessage())
            elif str(said.msg).startswith("segment of"):
                record.say("left to Python", said.getMessage())

    logs.set_logs(**{"dynamo": logging.DEBUG, **dict.fromkeys(ARTIFACTS, True)})  # type: ignore[arg-type]
    handler = Handler()
    for name in (logs.COMPONENTS["dynamo"], *(f"facula.artifact.{name}" for name in ARTIFACTS)):
        logging.getLogger(name).handlers[:] = [handler]
    backend.begin_graph = partial(written_down, record)
    backend.tell_of_modes = lambda *_: None


def written_down(record: Record, module: Any, options: Any = None) -> Callable[[], Any]:
    """What `compiler.pipeline.begin_graph` does, up to the C compiler."""
    with config.patch(options or {}):
        record.say("graph to compile", module.code)
        found = lowered(module)
        record.say("C", found.unit.text if found.unit.drivers else "calls only")
        record.say("numbers", found.unit.numbers)
        if symbols_of(module.graph) is not None:
            record.say("program for many sizes", disk_format.described(found))
            raise NotSymbolic("no C is compiled here")
        wrapper = graphs._wrapper(found, [None] * len(found.unit.drivers))
        record.say("wrapper", wrapper.source())
    return lambda: graphs.CompiledGraph(lambda inputs: module(*inputs), "", "")


def of_kernels(record: Record, _: argparse.Namespace) -> None:
    """The C of all prebuilt units."""
    for variant in VARIANTS:
        for unit in build_kernels.collect(variant):
            record.write(f"kernels/{variant}/{unit.name}.c", unit.text)


def of_samples(record: Record, options: argparse.Namespace) -> None:
    """Calls of every definition."""
    pairs = itertools.product(sweep_cases.NAMES[:: options.every], options.dtypes.split(","))
    for name, dtype in pairs:
        definition = sweep_cases.TABLE[name].definition
        made = sweep_cases.own_calls(definition, getattr(facula, dtype), 0)
        calls = itertools.islice(sweep_cases.until_error(made), options.samples)
        for number, call in enumerate(calls):
            record.case("samples", f"{name} {dtype} {number}", partial(differentiated, name, call))


def differentiated(name: str, call: tuple[Any, Any]) -> None:
    """A compiled call of an operator, with gradients where there are some."""

    def leaf(x: Any) -> Any:
        wanted = (x.is_floating_point() or x.is_complex()) and x.layout is facula.strided
        return x.detach().clone().requires_grad_(wanted)

    args, kwargs = map_tensors(leaf, call)
    operator = sweep_cases.TABLE[name]
    found = facula.compile(lambda args, kwargs: operator(*args, **kwargs))(args, kwargs)
    several = found if isinstance(found, (tuple, list)) else [found]
    ends = [x for x in several if isinstance(x, facula.Tensor) and x.requires_grad]
    if ends:
        facula.autograd.backward(ends, [facula.ones_like(x) for x in ends])


def of_networks(record: Record, options: argparse.Namespace) -> None:
    """The models of the tests."""
    both = {**networks.NETWORKS, **networks.BREAKING}
    for name in list(both)[:: options.every]:
        record.case("networks", name, partial(trained, both[name]))


def trained(make: Callable[[], tuple[Any, Any]]) -> None:
    """A model compiled, in training and not."""
    module, inputs = make()
    call = facula.compile(module)
    for training in (True, False):
        networks.step(module, call, inputs, training)


def of_programs(record: Record, options: argparse.Namespace) -> None:
    """Programs of the fuzzer."""
    for seed in range(0, options.programs, options.every):
        program = fuzz_compile.Maker(seed, 8).make()
        record.case("programs", f"{seed:04d}", partial(at_two_sizes, record, program))


def at_two_sizes(record: Record, program: Any) -> None:
    """A program compiled, at its own size and at another."""
    record.say("program", program.source())
    compiled = facula.compile(program.function())
    for size in (None, 6):
        fuzz_compile.run(program, compiled, size=size)


CORPORA = {
    "kernels": of_kernels, "samples": of_samples, "networks": of_networks, "programs": of_programs,
}  # fmt: skip


def main() -> None:
    """Record the corpora that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--corpus", default=",".join(CORPORA))
    parser.add_argument("--programs", type=int, default=500)
    parser.add_argument("--samples", type=int, default=2, help="calls of each definition and dtype")
    parser.add_argument("--dtypes", default="float32,int64,bfloat16")
    parser.add_argument("--every", type=int, default=1, help="every n-th case only")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    shutil.rmtree(options.directory, ignore_errors=True)
    record = Record(options.directory)
    for name in sorted(options.corpus.split(","), key=list(CORPORA).index):
        if name != "kernels":
            listen(record)
        CORPORA[name](record, options)
    record.close()


if __name__ == "__main__":
    main()
