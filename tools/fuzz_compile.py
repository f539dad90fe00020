"""Random programs, compiled and run as they stand: whatever differs is a fault.

    python tools/fuzz_compile.py --seeds 0:500 --backend inductor --report DIRECTORY

Takes: a range of seeds; each makes one program of operators of the table (by their samples), views,
writes in place, control flow and inputs that share memory.
Gives: for each fault a script that shows it, with every statement taken out that it does not need;
exit status 1 where there was one.
Keeps true: a program runs eagerly before it is compiled, so statements are valid; the same seed makes
the same program; outputs, inputs afterwards and gradients are compared, over two calls, and over calls
with other sizes where the program runs for them.
"""

from __future__ import annotations

import argparse
import itertools
import random
import subprocess
import sys
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import facula
from facula import core
from facula.ops.table.registry import TABLE
from facula.testing.samples import Samples, pointwise_samples

Tensor = core.Tensor
#: what a program may take as an argument, written as text
_LITERALS = (int, float, bool, str, type(None))
#: results that are not determined: fresh memory
_UNSET = ("empty", "resize", "set_")


@dataclass
class Statement:
    """Lines of a program, and the names that they make."""

    text: str
    makes: tuple[str, ...] = ()


@dataclass
class Program:
    """Statements over inputs `x0`, `x1`, ...; `aliases` says which inputs are views of which."""

    inputs: list[Tensor]
    aliases: dict[int, tuple[int, str]]
    statements: list[Statement]
    outputs: list[str]
    helpers: str = ""
    seed: int = 0
    grad: set[int] = field(default_factory=set)

    def source(self) -> str:
        """The program as a Python function."""
        names = ", ".join(f"x{n}" for n in range(len(self.inputs)))
        lines = [line for s in self.statements for line in s.text.splitlines()]
        outs = "".join(f"{name}, " for name in self.outputs)
        body = "\n".join(f"    {line}" for line in [*lines, f"return ({outs})"])
        return f"import facula\n\ndef program({names}):\n{body}\n"

    def function(self) -> Callable[..., Any]:
        """The function itself."""
        import linecache

        text = self.source()
        name = f"<program {self.seed} {zlib.crc32(text.encode()):08x}>"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        space: dict[str, Any] = {}
        exec(compile(text, name, "exec"), space)  # noqa: S102 - text that this module wrote
        return space["program"]

    def arguments(self, scale: float = 1.0, size: int | None = None) -> list[Tensor]:
        """Fresh inputs that share memory as they should; with `size`, that for all sizes of 4."""
        made: list[Tensor] = []
        for n, x in enumerate(self.inputs):
            if n in self.aliases:
                of, view = self.aliases[n]
                made.append(eval(view, {"x": made[of]}))  # noqa: S307 - text of this module
                continue
            fresh = x.detach().clone()
            for dim, n in enumerate(fresh.shape):
                if size is not None and n == 4:
                    fresh = fresh.index_select(dim, facula.arange(size) % n)
            if scale != 1.0 and fresh.is_floating_point():
                fresh.mul_(scale)
            made.append(fresh.requires_grad_(n in self.grad))
        return made


@dataclass
class Outcome:
    """What a program did."""

    outputs: list[Any]
    inputs: list[Any]
    grads: list[Any]


def run(
    program: Program, function: Callable[..., Any], scale: float = 1.0, size: int | None = None
) -> Outcome:
    """Run a function of the program's inputs, and backward from its outputs."""
    args = program.arguments(scale, size)
    facula.manual_seed(program.seed)
    outputs = list(function(*args))
    tracked = [o for o in outputs if isinstance(o, Tensor) and o.requires_grad]
    grads: list[Any] = []
    if tracked and program.grad:
        total = sum((o * o).sum() if not o.is_complex() else o.abs().sum() for o in tracked)
        total.backward()  # type: ignore[union-attr]
        grads = [args[n].grad for n in sorted(program.grad)]
    return Outcome(outputs, args, grads)


def differences(expected: Outcome, found: Outcome, tolerance: float) -> str | None:
    """What differs first, None if nothing does."""
    for part in ("outputs", "inputs", "grads"):
        for n, (a, b) in enumerate(
            itertools.zip_longest(getattr(expected, part), getattr(found, part))
        ):
            text = _difference(a, b, tolerance)
            if text is not None:
                return f"{part}[{n}]: {text}"
    return None


def _difference(a: Any, b: Any, tolerance: float) -> str | None:
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        same = type(a) is type(b) and (a == b or a != a)
        return None if same else f"{a!r} expected, got {b!r}"
    if a.dtype is not b.dtype or a.shape != b.shape or a.requires_grad != b.requires_grad:
        shown = [(t.dtype, tuple(t.shape), t.requires_grad) for t in (a, b)]
        return f"{shown[0]} expected, got {shown[1]}"
    x, y = a.detach(), b.detach()
    if not (x.is_floating_point() or x.is_complex()):
        return None if x.eq(y).all() else "other elements"
    if x.dtype in (facula.float16, facula.bfloat16):
        tolerance = 3e-2
    elif x.dtype in (facula.float32, facula.complex64):
        tolerance = max(tolerance, 2e-3)
    wide = facula.complex128 if x.is_complex() else facula.float64
    x, y = x.to(wide), y.to(wide)
    finite = x.isfinite()
    if not finite.eq(y.isfinite()).all():
        return "other elements are finite"
    x, y = x[finite], y[finite]
    largest = float(x.abs().max()) if x.numel() else 0.0
    off = float((x - y).abs().max()) if x.numel() else 0.0
    return None if off <= tolerance * max(1.0, largest) else f"off by {off:.3g} of {largest:.3g}"


# ------------------------------------------------------------------ making programs


class Maker:
    """Makes one program, statement by statement, and runs each as it is made."""

    def __init__(self, seed: int, length: int) -> None:
        self.random = random.Random(seed)
        self.dtype = self.random.choice((facula.float32, facula.float64))
        self.samples = Samples(self.dtype, seed)
        self.program = Program([], {}, [], [], seed=seed)
        self.values: dict[str, Any] = {}
        self.fixed: set[str] = set()  # inputs: leaves that require grad are not written
        self.count = 0
        self.length = length

    def make(self) -> Program:
        """The program."""
        choices = (
            self.operator, self.operator, self.operator, self.pointwise, self.view, self.index,
            self.write, self.write_part, self.branch, self.loop, self.container, self.branch_on_data,
        )  # fmt: skip
        for _ in range(self.random.randint(2, 3)):
            shape = self.random.choice(((3, 4), (4,), (2, 3, 4), (4, 4)))
            self.input(self.samples(*shape))
        if self.random.random() < 0.3:
            self.alias()
        for _ in range(40 * self.length):
            if len(self.program.statements) >= self.length:
                break
            self.random.choice(choices)()
        names = [n for n in self.values if n not in self.fixed] or list(self.values)
        self.program.outputs = self.random.sample(names, min(len(names), 3))
        return self.program

    def input(self, tensor: Tensor) -> str:
        """A new input of the program."""
        number = len(self.program.inputs)
        tensor = tensor.detach()
        self.program.inputs.append(tensor)
        name = f"x{number}"
        if tensor.is_floating_point() and self.random.random() < 0.5:
            self.program.grad.add(number)
        self.values[name] = tensor.clone().requires_grad_(number in self.program.grad)
        self.fixed.add(name)
        return name

    def alias(self) -> None:
        """An input that is a view of another."""
        number = len(self.program.inputs)
        of = self.random.randrange(number)
        if of in self.program.grad or not self.program.inputs[of].dim():
            return
        view = self.random.choice(("x", "x[1:]", "x.transpose(0, -1)", "x.view(-1)"))
        tensor = eval(view, {"x": self.values[f"x{of}"]})  # noqa: S307 - text of this module
        self.program.aliases[number] = (of, view)
        self.program.inputs.append(tensor)
        self.values[f"x{number}"] = tensor
        self.fixed.add(f"x{number}")

    # statements -----------------------------------------------------------------------------------
    def fresh(self) -> str:
        """A new name."""
        self.count += 1
        return f"v{self.count}"

    def add(self, text: str, *makes: str) -> bool:
        """Run a statement; keep it if it works and gives tensors of a sensible size."""
        space = dict(self.values)
        space["facula"] = facula
        copies = {name: t.detach().clone() for name, t in self.values.items()}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(text, space)  # noqa: S102 - text that this module wrote
        except Exception:
            self.restore(copies)
            return False
        found = [space.get(name) for name in makes]
        if not all(_is_usable(t) for t in (*found, *self.values.values())):
            self.restore(copies)
            return False
        for name, value in zip(makes, found, strict=True):
            self.values[name] = value
        self.program.statements.append(Statement(text, makes))
        return True

    def restore(self, copies: dict[str, Tensor]) -> None:
        """Undo what a statement wrote that is not kept."""
        with facula.no_grad():
            for name, copy in copies.items():
                if not self.values[name].detach().eq(copy).all():
                    self.values[name].detach().copy_(copy)

    def any(self, want: Callable[[Tensor], bool] = lambda t: True) -> str | None:
        """The name of a value, of a late one rather than of an early one."""
        names = [name for name, value in self.values.items() if want(value)]
        if not names:
            return None
        return self.random.choices(names, range(1, len(names) + 1))[0]

    def floating(self) -> str:
        """The name of a floating-point value."""
        return self.any(lambda t: t.is_floating_point()) or self.input(self.samples(3, 4))

    def operator(self, kind: str | None = None) -> None:
        """A call of an operator of the table with the arguments of one of its samples."""
        op = self.random.choice(_operators(kind))
        definition = op.definition
        try:
            pointwise = definition.kind == "pointwise"
            made = (
                pointwise_samples(definition, self.samples)
                if pointwise
                else definition.samples(self.samples)
            )
            found = list(itertools.islice(made, 12))
        except Exception:
            return
        if not found:
            return
        args, kwargs = self.random.choice(found)
        inputs = len(self.program.inputs)
        for chance in (0.8, 0.0):
            try:
                shown = [self.text(a, chance) for a in args]
                shown += [f"{k}={self.text(v, chance)}" for k, v in kwargs.items()]
            except TypeError:
                return
            name = self.fresh()
            call = f"{_called(op)}({', '.join(shown)})"
            if _gives_several(op):
                if self.add(f"{name} = {call}[0]", name):
                    return
            elif self.add(f"{name} = {call}", name):
                return
            self._forget_inputs(inputs)

    def _forget_inputs(self, count: int) -> None:
        for number in range(count, len(self.program.inputs)):
            self.values.pop(f"x{number}")
            self.fixed.discard(f"x{number}")
            self.program.grad.discard(number)
        del self.program.inputs[count:]

    def text(self, value: Any, chance: float) -> str:
        """An argument; a tensor is a value of its dtype with the given chance, else an input."""
        if isinstance(value, Tensor):
            if value.layout is not facula.strided or value.is_quantized:
                raise TypeError
            if self.random.random() < chance:
                near = self.any(lambda t: t.dtype is value.dtype and t.shape == value.shape)
                near = near or self.any(lambda t: t.dtype is value.dtype and t.dim() == value.dim())
                if near is not None:
                    return near
            return self.input(value)
        if isinstance(value, (tuple, list)) and type(value) in (tuple, list, core.Size):
            items = ", ".join(self.text(item, chance) for item in value)
            if isinstance(value, list):
                return f"[{items}]"
            return f"({items}{',' if items else ''})"
        if isinstance(value, core.dtype):
            return str(value)
        if isinstance(value, float) and not value == value:
            return "float('nan')"
        if isinstance(value, float) and value in (float("inf"), float("-inf")):
            return f"float('{value}')"
        if isinstance(value, (*_LITERALS, complex)):
            return repr(value)
        raise TypeError(type(value).__name__)

    def pointwise(self) -> None:
        """An elementwise operator on values."""
        a, b = self.floating(), self.floating()
        name = self.fresh()
        text = self.random.choice(
            (f"{a} + {b}", f"{a} * {b}", f"{a} - 2 * {b}", f"{a}.sin() * 0.5", f"{a}.tanh()",
             f"facula.where({a} > 0, {a}, {b})", f"({a} - {b}).relu()", f"{a} / ({b}.abs() + 1)",
             f"{a}.sum(-1, keepdim=True)", f"{a}.sum()", f"{a} @ {b}", f"{a}.softmax(-1)",
             f"{a}.clone()", f"{a}.detach()", f"facula.cat([{a}, {a}], 0)")
        )  # fmt: skip
        self.add(f"{name} = {text}", name)

    def view(self) -> None:
        """A view of a value."""
        self.operator("view")

    def index(self) -> None:
        """Indexing and reshaping."""
        a, name = self.any() or self.floating(), self.fresh()
        text = self.random.choice(
            (f"{a}[0]", f"{a}[..., 1:]", f"{a}[::2]", f"{a}[None]", f"{a}.transpose(0, -1)",
             f"{a}.reshape(-1)", f"{a}.flatten()", f"{a}.T", f"{a}.unsqueeze(-1)",
             f"{a}[{a} > 0]", f"{a}.expand(2, *{a}.shape)", f"{a}.view({a}.shape[0], -1)",
             f"{a}.diagonal()", f"{a}[[0, 0]]", f"{a}.chunk(2)[0]", f"{a}.narrow(0, 1, 1)")
        )  # fmt: skip
        self.add(f"{name} = {text}", name)

    def write(self) -> None:
        """An operator in place."""
        a, b = self.floating(), self.floating()
        op = self.random.choice(_inplace_operators())
        tensors = sum(p.type in ("Tensor", "Operand") for p in op.definition.schema.parameters)
        more = ", ".join([b] * (tensors - 1))
        self.add(f"{a}.{op.definition.public_name}_({more})")

    def write_part(self) -> None:
        """A write to a part of a value."""
        a, b = self.floating(), self.floating()
        text = self.random.choice(
            (f"{a}[0] = {b}", f"{a}[..., 0] = 1.5", f"{a}[1:] += 1", f"{a}[{a} > 0] = 0.25",
             f"{a}.transpose(0, -1).mul_(2)", f"{a}.view(-1)[0] = 3.0", f"{a}.copy_({b})",
             f"{a}.zero_()", f"{a} += {b}", f"{a}.diagonal().fill_(0.5)", f"{a}[::2].neg_()",
             f"facula.add({a}, 1, out={b})", f"{a}.detach().add_(1)")
        )  # fmt: skip
        self.add(text)

    def branch(self) -> None:
        """A branch on sizes."""
        a, name = self.floating(), self.fresh()
        bound = self.random.randint(1, 4)
        self.add(
            f"if {a}.dim() and {a}.shape[-1] > {bound}:\n    {name} = {a} * {bound}\n"
            f"else:\n    {name} = {a}.cos()",
            name,
        )

    def branch_on_data(self) -> None:
        """A branch on elements, rarely: the graph ends there."""
        if self.random.random() < 0.2:
            a, name = self.floating(), self.fresh()
            self.add(
                f"if {a}.sum() > 0:\n    {name} = {a} + 1\nelse:\n    {name} = {a} - {a}.numel()",
                name,
            )

    def loop(self) -> None:
        """A loop that makes or changes a value."""
        a, name = self.floating(), self.fresh()
        body = self.random.choice(
            (f"{name} = {name} * 0.5 + i", f"{name} = {name} + {a}", f"{name}.add_(i)",
             f"if i == 1:\n        continue\n    {name} = {name}.sin()")
        )  # fmt: skip
        self.add(
            f"{name} = {a} * 1\nfor i in range({self.random.randint(1, 3)}):\n    {body}", name
        )

    def container(self) -> None:
        """Values through Python's containers and functions."""
        a, b, name = self.floating(), self.floating(), self.fresh()
        text = self.random.choice(
            (f"{name} = [t * 2 for t in ({a}, {b})][1]",
             f"{name} = (lambda t, k=2: t.mul(k))({a})",
             f"_d = {{'a': {a}, 'b': {b}}}\n{name} = sum(t.sum() for t in _d.values())",
             f"_l = [{a}]\n_l.append({b} + 1)\n{name} = _l.pop()",
             f"def _f(t):\n    return t + {b}\n{name} = _f({a})",
             f"with facula.no_grad():\n    {name} = {a} * 3",
             f"try:\n    {name} = {a}.view(-1, 7)\nexcept RuntimeError:\n    {name} = {a}.neg()")
        )  # fmt: skip
        self.add(text, name)


def _is_usable(value: Any) -> bool:
    return (
        isinstance(value, Tensor)
        and value.layout is facula.strided
        and value.numel() <= 4096
        and not (value.is_floating_point() and value.numel() and float(value.abs().max()) > 1e6)
        and (not value.is_floating_point() or bool(value.isfinite().all()))
    )


_by_kind: dict[str | None, list[Any]] = {}


def _operators(kind: str | None) -> list[Any]:
    if kind not in _by_kind:
        _by_kind[kind] = [
            op
            for _, op in sorted(TABLE.items())
            if (op.definition.samples is not None or op.definition.kind == "pointwise")
            and op.definition.names
            and not op.definition.random
            and not any(part in op.name for part in _UNSET)
            and (kind is None or op.definition.kind == kind)
            and not op.definition.names[0].rpartition(".")[2].startswith("_")
        ]
    return _by_kind[kind]


def _inplace_operators() -> list[Any]:
    if "inplace" not in _by_kind:
        _by_kind["inplace"] = [
            op
            for op in _operators("pointwise")
            if op.definition.inplace
            and any(name.startswith("Tensor.") for name in op.definition.names)
        ]
    return _by_kind["inplace"]


def _called(op: Any) -> str:
    name = op.definition.names[0]
    return f"facula.{name}"


def _gives_several(op: Any) -> bool:
    returns = op.definition.schema.text.partition("->")[2].strip()
    return returns.startswith("(") or returns.endswith("[]")


# ------------------------------------------------------------------ trying and shrinking


def fault_of(program: Program, backend: str) -> str | None:
    """What is wrong with the compiled program; None if nothing is, or it does not run eagerly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function = program.function()
            expected = [run(program, function, scale) for scale in (1.0, 0.5)]
            again = run(program, function)
        except Exception:
            return None
        tolerance = 1e-6
        if differences(expected[0], again, tolerance) is not None:
            return None  # not determined
        facula._dynamo.reset()
        compiled = facula.compile(function, backend=backend)
        try:
            for n, scale in enumerate((1.0, 0.5)):
                text = differences(expected[n], run(program, compiled, scale), tolerance)
                if text is not None:
                    return f"wrong: call {n}: {text}"
            for size in (5, 7):
                other = _for_size(program, function, size)
                if other is None:
                    break
                text = differences(other, run(program, compiled, 1.0, size), tolerance)
                if text is not None:
                    return f"wrong: size {size}: {text}"
        except Exception as error:
            if "modified by an inplace operation" in str(error):
                return None  # a compiled program may keep other tensors for its backward
            frame = traceback.extract_tb(error.__traceback__)[-1]
            first = str(error).strip().splitlines()
            place = f"{Path(frame.filename).name}:{frame.lineno}"
            return f"error: {type(error).__name__} in {place}: {' '.join(first[:3])[:300]}"
    return None


def _for_size(program: Program, function: Callable[..., Any], size: int) -> Outcome | None:
    """What the program does for another size; None where it does not run, or not twice the same."""
    try:
        first, second = (run(program, function, 1.0, size) for _ in range(2))
    except Exception:
        return None
    return first if differences(first, second, 1e-6) is None else None


def _kind(fault: str | None) -> str | None:
    return None if fault is None else fault.split(":")[0]


def shrink(program: Program, backend: str) -> Program:
    """The program without what its fault does not need."""
    kind = _kind(fault_of(program, backend))
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(program):
            if _kind(fault_of(candidate, backend)) == kind:
                program, smaller = candidate, True
                break
    return program


def _smaller(program: Program) -> Iterator[Program]:
    def copy(**changes: Any) -> Program:
        parts = {**vars(program), **changes}
        return Program(**parts)

    for n in reversed(range(len(program.statements))):
        made = set(program.statements[n].makes)
        outputs = [o for o in program.outputs if o not in made]
        rest = program.statements[:n] + program.statements[n + 1 :]
        yield copy(statements=rest, outputs=outputs)
    for n in range(len(program.outputs)):
        yield copy(outputs=program.outputs[:n] + program.outputs[n + 1 :])
    for n in sorted(program.grad):
        yield copy(grad=program.grad - {n})
    for n in list(program.aliases):
        yield copy(aliases={k: v for k, v in program.aliases.items() if k != n})


def script(program: Program, backend: str, fault: str) -> str:
    """A script that shows the fault by itself."""
    lines = [f'"""{fault}"""', "", program.source()]
    for n, x in enumerate(program.inputs):
        if n in program.aliases:
            of, view = program.aliases[n]
            lines.append(f"x{n} = (lambda x: {view})(x{of})")
        else:
            grad = ", requires_grad=True" if n in program.grad else ""
            shape = f".reshape({tuple(x.shape)})" if not x.numel() else ""
            lines.append(f"x{n} = facula.tensor({x.tolist()!r}, dtype={x.dtype}{grad}){shape}")
    names = ", ".join(f"x{n}" for n in range(len(program.inputs)))
    copies = ", ".join(f"x{n}.detach().clone()" for n in range(len(program.inputs)))
    lines.append(f"print(program({copies}))")
    lines.append(f"print(facula.compile(program, backend={backend!r})({names}))")
    return "\n".join(lines) + "\n"


def try_seed(seed: int, backend: str, length: int) -> tuple[Program, str | None]:
    """The program of a seed and its fault."""
    program = Maker(seed, length).make()
    return program, fault_of(program, backend)


def _seeds(first: int, last: int, arguments: Any) -> int:
    """Try seeds in this process; faults are written as they are found."""
    faults = 0
    current = Path(arguments.report) / "current"
    for seed in range(first, last):
        current.write_text(str(seed))
        program, fault = try_seed(seed, arguments.backend, arguments.length)
        if fault is None:
            continue
        faults += 1
        if arguments.shrink:
            program = shrink(program, arguments.backend)
            fault = fault_of(program, arguments.backend) or fault
        target = Path(arguments.report) / f"fault_{seed}.py"
        target.write_text(script(program, arguments.backend, fault))
        print(f"seed {seed}: {fault}", flush=True)
    current.write_text(str(last))
    return faults


def main() -> int:
    """Run the seeds in child processes, so that a crash is one more fault."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", default="0:200")
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--length", type=int, default=8)
    parser.add_argument("--report", default="fuzz_compile")
    parser.add_argument("--no-shrink", dest="shrink", action="store_false")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    first, last = map(int, arguments.seeds.split(":"))
    Path(arguments.report).mkdir(parents=True, exist_ok=True)
    if arguments.inside:
        return min(_seeds(first, last, arguments), 1)
    failed = False
    while first < last:
        own = [f"--seeds={first}:{last}", f"--backend={arguments.backend}", "--inside"]
        own += [f"--length={arguments.length}", f"--report={arguments.report}"]
        own += [] if arguments.shrink else ["--no-shrink"]
        code = subprocess.call([sys.executable, __file__, *own])
        failed |= code != 0
        reached = int((Path(arguments.report) / "current").read_text())
        if reached < last:
            print(f"seed {reached}: crash: the process ended with {code}", flush=True)
        first = max(reached, first) + 1 if reached < last else last
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
