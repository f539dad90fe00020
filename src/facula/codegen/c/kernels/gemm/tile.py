"""The translation units of dense products: matrix products and convolutions on one register tile.

Takes an instruction set, or its name; `units` gives `(name, C text)`, one unit per kind of
multiply-add, each with a table of kernels. Keeps true: a unit needs nothing but `facula_abi.h` and
the C library, owns no threads and keeps no state.
"""

from collections.abc import Iterator

from facula.codegen.c.entries import table
from facula.codegen.c.isa import Isa
from facula.codegen.c.isa import isa as isa_of
from facula.codegen.c.kernels.conv.convolution import convolution_entries, convolution_text
from facula.codegen.c.kernels.gemm.gemm import gemm_entries, gemm_text
from facula.codegen.c.kernels.gemm.tile_dot import dot_text
from facula.codegen.c.kernels.gemm.tile_epilogue import epilogue_text
from facula.codegen.c.kernels.gemm.tile_kernel import kernel_text
from facula.codegen.c.kernels.gemm.tile_kind import Kind, configuration, kinds
from facula.codegen.c.kernels.gemm.tile_pack import pack_text
from facula.codegen.c.kernels.gemm.tile_quantized import quantized_entries, quantized_text

__all__ = ["unit", "units"]

# without the variant: a unit that is the same for two variants is compiled once
HEADER = "/* Written by codegen/c/kernels/gemm/tile.py: dense products, %s. */\n"


def unit(isa: Isa, kind: Kind) -> str:
    """One translation unit: every kernel of a kind."""
    parts = [HEADER % kind.name, configuration(isa, kind), kernel_text(kind)]
    parts += [pack_text(kind), epilogue_text(kind), dot_text(kind, isa.registers)]
    parts.append(gemm_text(isa, kind))
    entries = gemm_entries(kind)
    if kind.convolves:
        parts.append(convolution_text(isa, kind))
        entries += convolution_entries(kind)
    if kind.name == "i8":
        parts.append(quantized_text(isa, kind))
        entries += quantized_entries(isa, kind)
    parts.append(table(entries))
    return "\n".join(parts)


def units(variant: str | Isa) -> Iterator[tuple[str, str]]:
    """All units of a variant, by name."""
    isa = isa_of(variant)
    for kind in kinds(isa):
        yield f"tile_{kind.name}", unit(isa, kind)
