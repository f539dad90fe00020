"""Runs drivers of the dense units without the core: compile, load, call by name on NumPy arrays.

Takes a variant; gives `Library`, whose `call(name, arrays, ints, scalars)` runs one driver on the
core's thread pool. Keeps true: the same text and flags are compiled once per folder;
kernels get exactly the pointers that the arrays name.
"""

import ctypes
import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).resolve().parents[2] / "src"
sys.path.insert(0, str(SOURCE))

from facula.codegen.c.isa import ISAS  # noqa: E402
from facula.codegen.c.kernels.gemm.tile import units  # noqa: E402
from facula.runtime import trust  # noqa: E402
from facula.runtime.cpu_features import features, march_flags, requirements  # noqa: E402

INCLUDE = SOURCE / "facula" / "core" / "include"
FLAGS = ["-O3", "-std=gnu11", "-fPIC", "-shared", "-w", "-fno-math-errno", "-fno-trapping-math"]

POOL = r"""
#include "fk_pool.h"
#include <time.h>

void set_threads(int count) { fk_set_num_threads(count); }

/* memory that ends where an unmapped page begins, so that one byte too far is a crash */
#define PAGE 4096
void *guarded(int64_t bytes)
{
    const int64_t whole = (bytes + PAGE - 1) / PAGE * PAGE + PAGE;
    char *base = mmap(NULL, whole + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return NULL;
    char *place = base + whole - bytes;
    mprotect(base + whole, PAGE, PROT_NONE);
    ((int64_t *)base)[0] = whole + PAGE;
    return place;
}

void unguard(char *place)
{
    char *base = (char *)((uintptr_t)place / PAGE * PAGE) - PAGE;
    munmap(base, ((int64_t *)base)[0]);
}

static void *guarded_scratch(int64_t bytes) { return guarded((bytes + 63) / 64 * 64); }
static void release_guarded(void *memory) { unguard(memory); }

int call(fk_driver driver, char *const *p, const int64_t *n, const fk_scalar *s)
{
    const fk_runtime guard = {fk_runtime_table.parallel, fk_runtime_table.threads, guarded_scratch,
                              release_guarded};
    return driver(p, n, s, &guard);
}

/* The least seconds of one call, over `count` rounds of `inner` calls.  With one thread it is
 * processor time, so that what else runs on the machine does not count. */
double best(fk_driver driver, char *const *p, const int64_t *n, const fk_scalar *s, int count, int inner)
{
    const clockid_t clock = fk_get_num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    double least = 1e30;
    for (int i = 0; i < count; i++) {
        struct timespec a, b;
        clock_gettime(clock, &a);
        for (int k = 0; k < inner; k++) driver(p, n, s, &fk_runtime_table);
        clock_gettime(clock, &b);
        const double seconds = (b.tv_sec - a.tv_sec + 1e-9 * (b.tv_nsec - a.tv_nsec)) / inner;
        if (seconds < least) least = seconds;
    }
    return least;
}
"""


class Entry(ctypes.Structure):
    """`fk_entry`."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_char),
        ("function", ctypes.c_void_p),
        ("operands", ctypes.c_char_p),
    ]


class Scalar(ctypes.Union):
    """`fk_scalar`."""

    _fields_ = [("f", ctypes.c_double), ("i", ctypes.c_int64)]


def folder() -> Path:
    """Where compiled units are kept: a folder that is known to be this user's alone."""
    path = os.path.join(trust.private_folder(), "tile")
    os.close(trust.open_folder(path))
    return Path(path)


def build(text: str, flags: Sequence[str]) -> ctypes.CDLL:
    """Compiles and loads one unit."""
    header = "".join(path.read_text() for path in sorted(INCLUDE.glob("*.h")))
    digest = hashlib.sha256("\0".join([text, header, *flags]).encode()).hexdigest()[:24]
    library = folder() / f"{digest}.so"
    if not library.exists():
        part = library.with_suffix(f".{os.getpid()}")
        command = ["gcc", *flags, f"-I{INCLUDE}", "-x", "c", "-", "-o", str(part), "-lm"]
        subprocess.run([*command, "-lpthread"], input=text.encode(), check=True)
        part.rename(library)
    return ctypes.CDLL(str(library))


def runnable() -> list[str]:
    """The variants that this machine can run."""
    known = [name for name in ISAS if name != "neon"]
    return [name for name in known if features().issuperset(requirements(name))]


class Library:
    """The dense kernels of one variant."""

    def __init__(self, variant: str) -> None:
        self.variant = variant
        self.runtime = build(POOL, [*FLAGS, "-march=x86-64-v2"])
        self.runtime.best.restype = ctypes.c_double
        self.runtime.guarded.restype = ctypes.c_void_p
        self.functions: dict[str, ctypes.c_void_p] = {}
        self.keep = []
        for _, text in units(variant):
            library = build(text, [*FLAGS, *march_flags(variant)])
            self.keep.append(library)
            self.read_table(library)
        self.set_threads(2)

    def read_table(self, library: ctypes.CDLL) -> None:
        """Adds a unit's kernels."""
        address = ctypes.addressof(Entry.in_dll(library, "facula_kernels"))
        while True:
            entry = Entry.from_address(address)
            if not entry.name:
                return
            self.functions[entry.name.decode()] = ctypes.c_void_p(entry.function)
            address += ctypes.sizeof(Entry)

    def set_threads(self, count: int) -> None:
        """How many threads kernels use."""
        self.runtime.set_threads(count)

    def arguments(
        self,
        name: str,
        arrays: Sequence[np.ndarray | int | None],
        ints: Sequence[int],
        scalars: Sequence,
    ) -> tuple:
        """C arguments of a driver; an array may be given as an address."""
        addresses = [a.ctypes.data if isinstance(a, np.ndarray) else int(a or 0) for a in arrays]
        p = (ctypes.c_void_p * max(1, len(arrays)))(*addresses)
        n = (ctypes.c_int64 * max(1, len(ints)))(*ints)
        values = [Scalar(i=v) if isinstance(v, int) else Scalar(f=v) for v in scalars]
        s = (Scalar * max(1, len(values)))(*values)
        return self.functions[name], p, n, s

    def guard(self, array: np.ndarray | None) -> tuple[int, int, int]:
        """A copy of the bytes that an array spans, at the end of mapped memory: address of the
        first element, of the bytes, and how many there are.
        """
        if array is None:
            return 0, 0, 0
        low, high = np.lib.array_utils.byte_bounds(array)
        place = self.runtime.guarded(ctypes.c_int64(high - low))
        ctypes.memmove(place, low, high - low)
        return place + array.ctypes.data - low, place, high - low

    def call(
        self, name: str, arrays: Sequence, ints: Sequence[int], scalars: Sequence = ()
    ) -> None:
        """Runs a driver once, on copies that end where memory ends; results are copied back."""
        copies = [self.guard(array) for array in arrays]
        places = [address for address, _, _ in copies]
        status = self.runtime.call(*self.arguments(name, places, ints, scalars))
        for array, (_, place, size) in zip(arrays, copies, strict=True):
            if array is not None:
                ctypes.memmove(np.lib.array_utils.byte_bounds(array)[0], place, size)
                self.runtime.unguard(ctypes.c_void_p(place))
        if status:
            raise MemoryError(name)

    def best(
        self,
        name: str,
        arrays: Sequence,
        ints: Sequence[int],
        scalars: Sequence = (),
        count: int = 5,
        inner: int = 1,
    ) -> float:
        """The least seconds of `count` timings of `inner` calls."""
        return self.runtime.best(*self.arguments(name, arrays, ints, scalars), count, inner)
