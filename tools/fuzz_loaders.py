"""Feeds mutated files to every reader of files, for as long as one likes.

Takes the number of files, a seed and optionally one kind of file (`fuzz_formats`). Gives a table of what
became of them and how many were read in a second; exit status 1 for a crash, a hang, an undocumented
exception, code that ran, a file outside of the folder for it (`loader_watch`), or memory beyond the
limit, with the file that did it saved. Keeps true: the same seed gives the same files; every batch runs
in a process of its own, so that a crash is counted and not suffered.

    python tools/fuzz_loaders.py --count 100000
"""

from __future__ import annotations

import argparse
import codecs
import collections
import contextlib
import functools
import logging
import math
import os
import pickle
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import unicodedata
import warnings
from collections.abc import Iterator
from pathlib import Path

import facula
from facula.core import config

sys.path.insert(0, str(Path(__file__).parent))
import fuzz_formats  # noqa: E402
from fuzz_formats import Format  # noqa: E402
from loader_watch import Watch  # noqa: E402

#: what the readers promise to raise for a file that is not one
PROMISED = (pickle.UnpicklingError, RuntimeError, EOFError)
SECONDS_A_FILE = 10
MEMORY = 1 << 30
BATCH = 1000


# ------------------------------------------------------------------ one batch in a process


File = tuple[int, bytes, Format]


def mutations(kind: str, seed: int, count: int) -> Iterator[File]:
    """The files of one kind: their numbers, their bytes and what reads them."""
    form = formats()[kind]
    for number in range(count):
        yield number, form.mutate(form.data, random.Random(f"{seed} {kind} {number}")), form


@functools.cache
def formats() -> dict[str, Format]:
    """All kinds of files."""
    return fuzz_formats.formats()


def _fate(form: Format, data: bytes, watch: Watch) -> str:
    """What became of one file; a text that starts with "!" is a fault."""
    watch.on = True
    # of work; waiting may take longer on a machine that is busy
    signal.setitimer(signal.ITIMER_PROF, SECONDS_A_FILE)
    signal.alarm(10 * SECONDS_A_FILE)
    try:
        checked = form.load(data)
        fate = "read"
    except PROMISED as error:
        checked, fate = None, type(error).__name__
    except MemoryError as error:  # a file that asks for more than a batch has: the reader says it
        checked, fate = (
            None,
            "MemoryError" if str(error).startswith("[") else "! MemoryError without words",
        )
    except BaseException:
        watch.on = False  # the report reads and parses the source
        checked, fate = None, "! " + traceback.format_exc(limit=-2).replace("\n", " | ")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        watch.on = False
    if checked is not None:  # something to see to that the reader itself does not do
        try:
            problem = checked()
        except Exception as error:
            problem = f"the check: {type(error).__name__}: {error}".replace("\n", " | ")
        fate = f"! {problem}" if problem else fate
    if watch.seen:
        fate = "! forbidden: " + watch.seen.pop()
        watch.seen.clear()
    return fate


def _run_batch(files: list[File], report: int, scratch: str) -> None:
    """In the child: a line for each file, written before and after."""
    sys.dont_write_bytecode = True
    os.chdir(scratch)
    tempfile.tempdir = scratch
    warnings.simplefilter("ignore")
    logging.disable()
    fuzz_formats.SCRATCH = scratch
    watch = Watch(scratch)
    sys.addaudithook(watch)
    # what readers import on the way runs code of its own: a device that nobody knows is looked for
    # among the installed packages
    with contextlib.suppress(RuntimeError):
        facula.device("unknown")
    codecs.lookup("raw_unicode_escape")  # a module too, which the text of protocol 0 needs
    unicodedata.normalize(
        "NFKC", "a"
    )  # one that parsing a text asks for where a name is not of ASCII
    for form in {id(form): form for _, _, form in files}.values():
        form.load(form.data)
    # on top of what the process that was copied had already
    with open("/proc/self/statm") as stream:
        before = int(stream.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (before + MEMORY, before + MEMORY))
    for number, data, form in files:
        os.write(report, f"{number}\t?\n".encode())
        os.write(report, f"{number}\t{_fate(form, data, watch)}\n".encode(errors="replace"))


def _batch_in_child(files: list[File]) -> dict[int, str]:
    """The fate of each file by its number; a crash is a fate."""
    # in memory where there is such a folder: what is written waits for the disk else
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="facula-fuzz-", dir=place) as scratch:
        return _fates_in_child(files, scratch)


def _fates_in_child(files: list[File], scratch: str) -> dict[int, str]:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        status = 1
        try:
            _run_batch(files, write, scratch)
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        lines = stream.read().decode(errors="replace").splitlines()
    _, status = os.waitpid(child, 0)
    fates: dict[int, str] = {}
    for line in lines:
        name, _, fate = line.partition("\t")
        fates[int(name)] = fate
    for number, fate in fates.items():
        if fate == "?":
            fates[number] = f"! the process ended with status {status}"
    return fates


def _keep(folder: Path, kind: str, number: int, data: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{kind.replace(' ', '_').replace(',', '')}_{number}.bin"
    path.write_bytes(data)
    return path


def _warm(form: Format) -> None:
    """Read a sound file once, so that processes are copied with what reading imports."""
    with tempfile.TemporaryDirectory(prefix="facula-fuzz-") as folder:
        fuzz_formats.SCRATCH = folder
        checked = form.load(form.data)
        if checked is not None:
            checked()
        config.reset("cache_dir")
        fuzz_formats.SCRATCH = None


def fuzz(kind: str, seed: int, count: int, folder: Path) -> tuple[collections.Counter, list[str]]:
    """Runs `count` files of one kind; gives how often each fate came up, and the faults."""
    _warm(formats()[kind])
    fates: collections.Counter = collections.Counter()
    faults: list[str] = []
    source = mutations(kind, seed, count)
    waiting = [file for _, file in zip(range(BATCH), source, strict=False)]
    while waiting:
        results = _batch_in_child(waiting)
        left = []
        for number, data, form in waiting:
            fate = results.get(number)
            if fate is None:  # the process ended before it came to this one
                left.append((number, data, form))
                continue
            fates[fate if not fate.startswith("!") else "FAULT"] += 1
            if fate.startswith("!"):
                faults.append(f"{kind} {number}: {fate[2:]} -> {_keep(folder, kind, number, data)}")
        waiting = left + [file for _, file in zip(range(BATCH - len(left)), source, strict=False)]
    return fates, faults


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=100_000, help="files in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=list(formats()), help="one kind of file only")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="where faults go")
    options = parser.parse_args(arguments)
    kinds = [options.kind] if options.kind else list(formats())
    faults: list[str] = []
    total, began = 0, time.perf_counter()
    shares = sum(formats()[kind].share for kind in kinds)
    for kind in kinds:
        started = time.perf_counter()
        count = math.ceil(options.count * formats()[kind].share / shares)
        fates, found = fuzz(kind, options.seed, count, options.keep)
        faults += found
        total += fates.total()
        rate = fates.total() / (time.perf_counter() - started)
        print(
            f"{kind:32s} {fates.total():7d} {rate:6.0f}/s  {dict(fates.most_common())}", flush=True
        )
    for fault in faults[:20]:
        print(fault)
    print(f"{total} files, {total / (time.perf_counter() - began):.0f}/s, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
