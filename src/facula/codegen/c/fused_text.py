"""C text of the parts of a fused kernel: indices, loads, stores, expressions.

Takes: expressions of `lower.loops`. Gives: `Names` (what buffers, variables and numbers are called
in one kernel), `Expressions` (a printer that knows loads and named values), `load`, `store`.
Keeps true: names depend on the order of their first use only, so that equal kernels have equal
text; in a dynamic kernel every size is an entry of `n`, in the order of use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula.codegen.c.loops_text import STORED, load
from facula.codegen.c.math import GUARDED
from facula.codegen.c.printer import C_TYPES, Printer
from facula.lower.loops import ir
from facula.lower.loops.index import Index, Indirect, Quotient, Var
from facula.ops.scalar_node import Scalar, topological_order

#: random words by element (Philox4x32-10, as in the core), for units that draw
PHILOX = """\
static inline __attribute__((always_inline)) int64_t fk_philox_word(
    int64_t seed, int64_t offset, int64_t place)
{
    const uint64_t index = (uint64_t)place >> 2;
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = (uint32_t)offset;
    uint32_t c3 = (uint32_t)((uint64_t)offset >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)((uint64_t)seed >> 32);
    _Pragma("GCC unroll 10") for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)c0 * 0xD2511F53u, b = (uint64_t)c2 * 0xCD9E8D57u;
        const uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ k0, n2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b, c3 = (uint32_t)a, c0 = n0, c2 = n2;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    const int word = (int)(place & 3);
    const uint32_t low = word & 1 ? c1 : c0, high = word & 1 ? c3 : c2;
    return (int64_t)(word & 2 ? high : low);
}
static inline __attribute__((always_inline)) float fk_philox_uniform(
    int64_t seed, int64_t offset, int64_t place)
{
    return (float)(int32_t)(fk_philox_word(seed, offset, place) >> 8) * 0x1p-24f;
}
"""


#: a value that is rounded before an operator reads it: the compiler must not join its last product
#: with the next operator's sum, which eager does not see either. It does not know that the number is
#: 0, since other libraries could write to it
WHOLE = """\
int64_t fk_whole_zero;
static inline __attribute__((always_inline)) float fk_whole_f32(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof x);
    bits ^= (int32_t)fk_whole_zero;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline __attribute__((always_inline)) double fk_whole_f64(double x)
{
    int64_t bits;
    memcpy(&bits, &x, sizeof x);
    bits ^= fk_whole_zero;
    memcpy(&x, &bits, sizeof x);
    return x;
}
"""


class Names:
    """The names of one kernel.

    `numbers` are the sizes that a dynamic kernel reads from `n`.
    """

    def __init__(self, dynamic: bool) -> None:
        self.dynamic = dynamic
        self.numbers: list[int] = []
        self.buffers: dict[ir.Buffer, str] = {}
        self.variables: dict[Var, str] = {}
        self.owners: dict[int, int] = {}

    def buffer(self, buffer: ir.Buffer) -> str:
        """The pointer of a buffer."""
        return self.buffers.setdefault(buffer, f"b{len(self.buffers)}")

    def variable(self, variable: Var) -> str:
        """A loop variable."""
        return self.variables.setdefault(variable, f"i{len(self.variables)}")

    def owner(self, number: int) -> int:
        """The number of a reduction within the kernel."""
        return self.owners.setdefault(number, len(self.owners))

    def number(self, value: int) -> str:
        """A size."""
        if not self.dynamic or value in (0, 1):
            value = int(value)  # of a number that depends on sizes: fixed
            return f"{value}" if -(2**31) < value < 2**31 else f"{value}LL"
        self.numbers.append(value)
        return f"n[{len(self.numbers) - 1}]"

    def parameter(self, parameter: Scalar) -> str:
        """A runtime number: a compiled graph has none."""
        return _no_text(parameter)

    def pointers(self, apart: bool = False) -> list[str]:
        """Declarations of the pointers, in the order of `buffers`; `apart` says that no buffer is
        written over another."""
        kind = "*restrict" if apart else "*const"
        return [
            f"{STORED[b.code]} {kind} {name} = ({STORED[b.code]} *)p[{k}];"
            for k, (b, name) in enumerate(self.buffers.items())
        ]

    def product(self, variables: Sequence[Var]) -> str:
        """The product of some extents."""
        return " * ".join(self.number(v.extent) for v in variables) or "1"


def _no_text(leaf: Scalar) -> str:
    raise KeyError(f"[codegen] a known number was required: got the parameter {leaf!r}")


class Expressions(Printer):
    """Prints expressions over loads, positions and named values.

    Args:
        names: the kernel's names.
        named: the C text of a named value.
        fast: use the fast forms of guarded functions.
    """

    def __init__(self, names: Names, named: Callable[[ir.Named, str], str], fast: bool) -> None:
        # its own methods print the leaves: kept as functions they would make a cycle of each printer
        super().__init__(_no_text, _no_text, fast)
        self.names, self.named = names, named

    def _print(self, current: Scalar) -> None:
        text = self._size_text(current) if self.names.dynamic else None
        if text is not None:
            self._names[id(current)] = text
            self._constant.add(id(current))
            return
        super()._print(current)

    def _size_text(self, current: Scalar) -> str | None:
        """A number that may be a size, the same text whether it is known or depends on sizes."""
        if current.op == "constant" and _may_be_size(current):
            return f"({C_TYPES[current.dtype]}){self.names.number(int(current.value))}"
        if current.op == "cast" and _is_size(current.args[0]):
            return f"({C_TYPES[current.dtype]}){self._names[id(current.args[0])]}"
        return self.names.number(current.value.index.number) if _is_size(current) else None

    def _leaf_text(self, leaf: Scalar) -> str:
        value = leaf.value
        if isinstance(value, ir.Load):
            place = self.index(value.index)
            return load(
                value.buffer.code, leaf.dtype, f"{self.names.buffer(value.buffer)}[{place}]"
            )
        if isinstance(value, ir.Position):
            return self.index(value.index)
        return self.named(value, leaf.dtype)

    def _parameter_text(self, parameter: Scalar) -> str:
        return self.names.parameter(parameter)

    def index(self, index: Index) -> str:
        """The C text of an index; what it reads is printed before."""
        parts = []
        for atom, multiple in index.terms:
            text = self._atom(atom)
            if multiple == 1:
                parts.append(text)
            elif multiple == -1:
                parts.append(f"-{text}")
            else:
                parts.append(f"{text} * {self.names.number(multiple)}")
        if index.number or not parts:
            parts.append(self.names.number(index.number))
        return " + ".join(parts)

    def _atom(self, atom: Any) -> str:
        if isinstance(atom, Var):
            return self.names.variable(atom)
        if isinstance(atom, Indirect):
            self.add([atom.value])
            return self.text(atom.value)
        sign = "/" if isinstance(atom, Quotient) else "%"
        return f"(({self.index(atom.inner)}) {sign} {self.names.number(atom.number)})"

    def expression(self, current: Scalar, fast: bool = False) -> str:
        """The C expression of a node over the names of its arguments."""
        if current.op == "wrap":
            (name,) = (self._names[id(arg)] for arg in current.args)
            return f"({C_TYPES[current.dtype]})({STORED[current.value]}){name}"
        if current.op == "rounded":
            (name,) = (self._names[id(arg)] for arg in current.args)
            if current.value == current.dtype:
                return f"fk_whole_{current.dtype}({name})"
            return f"fk_load_{current.value}(fk_store_{current.value}({name}))"
        if current.op == "philox":
            args = ", ".join(self._names[id(arg)] for arg in current.args)
            return f"fk_philox_{current.value}({args})"
        return super().expression(current, fast)

    def guards(self, expressions: Sequence[Scalar]) -> list[str]:
        """The conditions under which the fast forms that were printed hold."""
        found = []
        for current in self.guarded(expressions):
            args = ", ".join(self.text(arg) for arg in current.args)
            found.append(f"fm_{current.op}_guard_{current.args[0].dtype}({args})")
        return list(dict.fromkeys(found))

    def guarded(self, expressions: Sequence[Scalar]) -> list[Scalar]:
        """The printed nodes whose fast form has to be checked."""
        return [
            current
            for current in all_nodes(expressions)
            if current.op in GUARDED
            and current.args[0].dtype in ("f32", "f64")
            and id(current) not in self._constant
        ]


def _is_size(current: Scalar) -> bool:
    """Whether a node is a place that is a number."""
    place = current.value if current.op == "input" else None
    return isinstance(place, ir.Position) and place.index.is_number


def _may_be_size(current: Scalar) -> bool:
    """Whether a number may come from a size, which other calls of a dynamic graph have another of."""
    value = current.value
    whole = current.dtype != "b8" and value - value == 0 and value == int(value)
    return whole and 8 < abs(value) < 2.0**31


def all_nodes(expressions: Sequence[Scalar]) -> list[Scalar]:
    """Every node, those inside of indirect indices included."""
    found = {id(n): n for n in topological_order(expressions)}
    for leaf in ir.leaves(expressions):
        index = getattr(leaf.value, "index", None)
        if index is not None:
            for atom in index.atoms():
                if isinstance(atom, Indirect):
                    found |= {id(n): n for n in topological_order([atom.value])}
    return list(found.values())


def has_guard(expressions: Sequence[Scalar]) -> bool:
    """Whether a function with a fast form is called on something that is not constant."""
    return any(
        n.op in GUARDED and n.args[0].dtype in ("f32", "f64") for n in all_nodes(expressions)
    )
