"""The exported table of a translation unit, and what its kernels say of their operands.

Takes: for each kernel its name, kind (`m` map, `b` body, `d` driver), C function and operands.
Gives: `operands`, `item`, `group` and (for templates) `declared`, which write the text that the
core checks launches against (docs/kernel_interfaces.md), and `table`, the C of `facula_kernels[]`.
Keeps true: a kernel without the text of its operands is not written.
"""

from __future__ import annotations

from collections.abc import Iterable

from facula.core.errors import fail

#: name, kind, C function, operands
Entry = tuple[str, str, str, str]


def item(mode: str, name: str, dtype: str, extent: str) -> str:
    """One pointer: `r` read, `w` written, `u` both, with `?` where it may be null; a dtype's code,
    `x4` (any dtype of 4 bytes) or `bytes`; how many elements it has at least."""
    return f"{mode} {name} {dtype} {extent.replace(' ', '')}"


def group(count: str, *items: str) -> tuple[str, ...]:
    """Pointers that come `count` times, one after the other; in extents `i` is which time it is."""
    return tuple(f"*{count.replace(' ', '')} {each}" for each in items)


def operands(sizes: int | str, scalars: int | str, *items: str) -> str:
    """The text of a kernel with so many sizes (`n`) and scalars (`s`)."""
    return ";".join([str(sizes).replace(" ", ""), str(scalars).replace(" ", ""), *items])


def declared(text: str, dtype: str = "") -> str:
    """The text of a template, an item a line, for one dtype (`@`)."""
    return ";".join(part.strip() for part in text.split(";")).replace("@", dtype)


def table(entries: Iterable[Entry]) -> str:
    """The ABI's number and the table."""
    rows = []
    for name, kind, function, text in entries:
        if ";" not in text:
            fail(
                ValueError,
                "kernel",
                f"the operands of {name} were required",
                text,
                hint="codegen/c/entries.py writes them",
            )
        rows.append(f'    {{"{name}", \'{kind}\', (void *){function}, "{text}"}},\n')
    return (
        "\nconst int facula_abi = FACULA_ABI;\n"
        f"const fk_entry facula_kernels[] = {{\n{''.join(rows)}    {{0}},\n}};\n"
    )
