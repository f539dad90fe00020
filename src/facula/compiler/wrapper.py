"""The wrapper: a Python function that allocates, launches kernels and calls operators.

Takes: steps in order with their memory plan. Gives: `source`, its text, and the objects that the
text names.
Keeps true: the text is what runs; every tensor is released after its last use; consecutive kernels
are one call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from keyword import iskeyword
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.fx.size_functions import function_of, has_symbols, number_text
from facula.lower.loops import memory
from facula.lower.loops.program import DTYPES, Buffer, Extern, Program, View, views_in
from facula.lower.loops.targets import callee_of


class Wrapper:
    """Collects lines and the objects that they refer to.

    `empties` says that inputs are released after their last use, so the list of them is emptied.
    """

    def __init__(self, program: Program, plan: memory.Plan, empties: bool = False) -> None:
        self.program, self.plan, self.empties = program, plan, empties
        self.objects: dict[str, Any] = {}
        self.lines: list[str] = []
        self.names: dict[Buffer, str] = {}
        self._numbered: dict[int, str] = {}
        #: Python of numbers and tuples that depend on sizes -> the variable that has them
        self.hoisted: dict[str, str] = {}
        for buffer, target in plan.aliases.items():
            self.names[buffer] = self.name(target)

    def name(self, buffer: Buffer) -> str:
        """The variable of a buffer."""
        known = self.names.get(buffer)
        if known is None:
            known = self.names[buffer] = _checked(buffer.name)
        return known

    def object(self, prefix: str, value: Any) -> str:
        """A name for an object that can not be written as text."""
        known = self._numbered.get(id(value))
        if known is None:
            known = self._numbered[id(value)] = f"{prefix}{len(self.objects)}"
            self.objects[known] = value
        return known

    def number(self, value: int) -> str:
        """A number; one that depends on sizes is computed once for each combination."""
        if type(value) is int:
            return repr(value)
        return self.hoisted.setdefault(number_text(value), f"size{len(self.hoisted)}")

    def numbers(self, values: Sequence[int]) -> str:
        """A tuple of numbers."""
        if not has_symbols(values):
            return repr(tuple(values))
        text = f"({''.join(number_text(n) + ', ' for n in values)})"
        return self.hoisted.setdefault(text, f"size{len(self.hoisted)}")

    # --- text of arguments
    def text(self, value: Any) -> str:
        """An argument, or a result."""
        if isinstance(value, View):
            return self.view(value)
        if isinstance(value, tuple):
            return f"({''.join(self.text(item) + ', ' for item in value)})"
        if isinstance(value, list):
            return f"[{', '.join(self.text(item) for item in value)}]"
        if isinstance(value, dict):
            items = ", ".join(f"{key!r}: {self.text(item)}" for key, item in value.items())
            return f"{{{items}}}"
        plain = value is None or type(value) in (int, bool, str)
        finite = type(value) is float and value - value == 0
        if has_symbols(value):
            return self.number(value)
        return repr(value) if plain or finite else self.object("value", value)

    def view(self, view: View) -> str:
        """A tensor, or a view of one."""
        name = self.name(view.buffer)
        if view.whole:
            return name
        place = (
            f"{name}.storage_offset() + {self.number(view.offset)}"
            if view.offset
            else f"{name}.storage_offset()"
        )
        shape, strides = self.numbers(view.shape), self.numbers(view.strides)
        return f"as_strided({name}, {shape}, {strides}, {place})"

    # --- lines
    def allocate(self, buffers: Sequence[Buffer]) -> None:
        """Make tensors."""
        for buffer in buffers:
            dtype = self.object("dtype", DTYPES[buffer.code])
            shape, strides = self.numbers(buffer.shape), self.numbers(buffer.strides)
            self.lines.append(
                f"{self.name(buffer)} = empty_strided({shape}, {strides}, dtype={dtype})"
            )

    def release(self, buffers: Sequence[Buffer]) -> None:
        """Drop tensors."""
        if buffers:
            self.lines.append("del " + ", ".join(self.name(b) for b in buffers))

    def run(self, driver: Any, slots: Sequence[Buffer | None], numbers: Sequence[int]) -> None:
        """Launch a run of kernels; None stands for the arena."""
        given = "".join(f"{'arena' if b is None else self.name(b)}, " for b in slots)
        if has_symbols(numbers):
            sizes = f", {self.numbers(numbers)}"
        else:
            sizes = f", {self.object('numbers', tuple(numbers))}" if numbers else ""
        self.lines.append(f"{self.object('run', driver)}(({given}){sizes})")

    def call(self, step: Extern) -> None:
        """Call an operator."""
        function = self.object(_identifier(step.origin), callee_of(step.target))
        args = ", ".join(self.text(a) for a in step.args)
        keywords = "".join(f", {_checked(k)}={self.text(v)}" for k, v in step.kwargs.items())
        targets = ", ".join(self.name(b) for b in step.results)
        if step.several:
            targets = f"({targets},)"
        call = f"{function}({(args + keywords).removeprefix(', ')})"
        self.lines.append(f"{targets} = {call}" if step.results else call)

    def source(self) -> str:
        """The text of the function `call(args)`."""
        inputs = [self.name(b) if b is not None else "_" for b in self.program.inputs]
        head = [f"{', '.join(inputs)}, = expected(args)"] if inputs else []
        if self.empties:
            head.append("args.clear()")
        if self.plan.size:
            head.append(f"arena = empty_bytes({self.number(self.plan.size)})")
        for buffer, tensor in self.program.constants:
            self.objects[self.name(buffer)] = tensor
        body = [*head, *self.lines, f"return {self.text(self.program.outputs)}"]
        return "def call(args):\n" + "\n".join("    " + line for line in body) + "\n"

    def function(self, namespace: dict[str, Any]) -> Callable[[Any], Any]:
        """The function itself."""
        source = self.source()  # names the constants too
        scope = {**namespace, **self.objects}
        exec(compile(source, "<facula wrapper>", "exec"), scope)
        return scope["call"]

    def factory(self, namespace: dict[str, Any], names: Sequence[str]) -> Callable[..., Any]:
        """A function from the values of symbols to the function itself."""
        inner = self.source()
        layouts = function_of([layout_of(b) for b in self.program.inputs], names)
        expected: Any = core.InputLayouts
        sizes = [f"{name} = {text}" for text, name in self.hoisted.items()]
        given = ", ".join(names)
        body = [*sizes, f"expected = layouts({given})", *inner.splitlines(), "return call"]
        source = f"def at({given}):\n" + "\n".join("    " + line for line in body) + "\n"
        scope = {**namespace, **self.objects, "layouts": lambda *values: expected(layouts(*values))}
        exec(compile(source, "<facula wrapper>", "exec"), scope)
        return scope["at"]


def layout_of(buffer: Buffer | None) -> Any:
    """What the core checks of an input, or allocates."""
    if buffer is None:
        return None
    return buffer.shape, buffer.strides, DTYPES[buffer.code]


def _covers(view: View) -> bool:
    """Whether a view shows all of a buffer's memory, in the buffer's dtype."""
    own = view.buffer
    return (
        view.offset == 0
        and view.code in ("", own.code)
        and math.prod(view.shape) == math.prod(own.shape)
        and _extent(view.shape, view.strides) == _extent(own.shape, own.strides)
    )


def _extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How many elements of memory sizes and strides reach over."""
    return 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))


def direct_launch(
    program: Program,
    plan: memory.Plan,
    slots: Sequence[Buffer | None],
    driver: Any,
    numbers: Sequence[int],
) -> tuple[Any, ...] | None:
    """What `core.GraphLaunch` takes to be the same as the wrapper in one call of the core, where
    results are whole tensors; else None."""
    if not isinstance(program.outputs, tuple):
        return None
    made = [b for step in plan.allocate for b in step]
    constants = [b for b, _ in program.constants]
    kinds: dict[Buffer | None, tuple[int, int]] = {None: (3, 0)}
    groups: tuple[Sequence[Buffer | None], ...] = (program.inputs, made, constants)
    for kind, group in enumerate(groups):
        kinds |= {b: (kind, k) for k, b in enumerate(group) if b is not None}
    kinds |= {b: kinds[target] for b, target in plan.aliases.items()}
    results: list[tuple[int, Any]] = []
    layouts = [layout_of(b) for b in made]
    shown = [view.buffer for view in views_in(program.outputs)]
    for item in program.outputs:
        if isinstance(item, View):
            kind, number = kinds[item.buffer]
            if kind > 1:
                return None
            if not item.whole:
                if kind != 1 or not _covers(item) or shown.count(item.buffer) > 1:
                    return None
                layouts[number] = (item.shape, item.strides, DTYPES[item.buffer.code])
            results.append((kind, number))
        elif any(True for _ in views_in(item)):
            return None
        else:
            results.append((2, item))
    return (
        driver, [layout_of(b) for b in program.inputs], layouts,
        [kinds[b] for b in slots], numbers, [t for _, t in program.constants], plan.size, results,
    )  # fmt: skip


def _identifier(name: str) -> str:
    """A name like that of an operator."""
    plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in name) + "_"
    return f"_{plain}" if plain[0].isdigit() else plain


def _checked(name: str) -> str:
    """A name that becomes code."""
    if not name.isidentifier() or iskeyword(name):
        fail(
            ValueError,
            "inductor",
            "an identifier was required as a name in the wrapper",
            got=repr(name),
            hint="rename the argument of the operator, or leave the operator out of compiled code",
        )
    return name
