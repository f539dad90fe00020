"""C text of stores past the caches: a block is computed into a line of the first cache, then sent.

Takes: `nest.Store`s of buffers that `lower.loops.non_temporal` named. Gives: `STREAM`, the function that
sends a block; `NonTemporal`, which writes stores into blocks and the calls that send them.
Keeps true: every element arrives; parts of lines at a block's ends are stored as usual; a kernel
that sends ends with a fence, so that other threads see what they should.
"""

from __future__ import annotations

from collections.abc import Sequence

from facula.codegen.c.loops.printer import Names, Printer
from facula.codegen.c.loops.text import STORED
from facula.lower.loops import ir, nest
from facula.lower.loops.index import Var

#: elements that are sent at once: few enough that reads go on while they leave
SENT = 128

STREAM = """\
#if defined(__has_builtin) && defined(__x86_64__)
#if defined(__AVX512F__)
typedef float fk_vector __attribute__((vector_size(64)));
#define FK_SEND __builtin_ia32_movntps512
#elif defined(__AVX__)
typedef float fk_vector __attribute__((vector_size(32)));
#define FK_SEND __builtin_ia32_movntps256
#else
typedef float fk_vector __attribute__((vector_size(16)));
#define FK_SEND __builtin_ia32_movntps
#endif
#if __has_builtin(__builtin_nontemporal_store)
#undef FK_SEND
#define FK_SEND(to, value) __builtin_nontemporal_store(value, (fk_vector *)(to))
#endif
#define fk_stream_end __builtin_ia32_sfence
static void fk_stream(void *to, const void *from, int64_t bytes)
{
    char *out = to;
    const char *in = from;
    int64_t head = (int64_t)(-(uintptr_t)out & (sizeof(fk_vector) - 1));
    if (head > bytes) head = bytes;
    memcpy(out, in, (size_t)head);
    for (; head + (int64_t)sizeof(fk_vector) <= bytes; head += (int64_t)sizeof(fk_vector)) {
        fk_vector value;
        memcpy(&value, in + head, sizeof value);
        FK_SEND((float *)(out + head), value);
    }
    memcpy(out + head, in + head, (size_t)(bytes - head));
}
#else
#define fk_stream memcpy
#define fk_stream_end() ((void)0)
#endif
"""


class NonTemporal:
    """The stores of a kernel that go past the caches, by way of blocks on the stack."""

    def __init__(self, names: Names, buffers: frozenset[ir.Buffer], lane: Var) -> None:
        self.names, self.buffers, self.lane = names, buffers, lane
        self.declared: list[str] = []
        self.sent: list[tuple[nest.Store, str]] = []

    def target(self, store: nest.Store, start: str, size: int) -> str | None:
        """Where an element of the block that begins at `start` is stored; None: where it belongs."""
        if store.buffer not in self.buffers:
            return None
        known = next((name for each, name in self.sent if each is store), None)
        if known is None:
            known = f"w{len(self.declared)}"
            kind = STORED[store.buffer.code]
            self.declared.append(f"{kind} {known}[{size}] __attribute__((aligned(64)));")
            self.sent.append((store, known))
        return f"{known}[{self.names.variable(self.lane)} - {start}]"

    def send(self, stores: Sequence[nest.Store], start: str, stop: str) -> list[str]:
        """Send the elements `[start, stop)` of the stores' blocks."""
        lines = []
        for store, name in self.sent:
            if not any(store is each for each in stores):
                continue
            printer = Printer(self.names, _no_names, False)
            place = printer.index(store.index)
            buffer = self.names.buffer(store.buffer)
            lines += [
                "{",
                f"    const int64_t {self.names.variable(self.lane)} = {start};",
                f"    fk_stream(&{buffer}[{place}], {name}, "
                f"({stop} - {start}) * (int64_t)sizeof *{name});",
                "}",
            ]
        return lines

    @property
    def end(self) -> list[str]:
        """What a kernel ends with."""
        return ["fk_stream_end();"] if self.buffers else []


def _no_names(named: ir.Named, dtype: str) -> str:
    raise KeyError(f"[codegen] a loop variable was required: got {named}")
