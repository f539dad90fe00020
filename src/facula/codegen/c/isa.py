"""Instruction-set variants as the templates see them.

Takes a variant's name; gives an `Isa`: vector width, number of vector registers, compiler flags and
the few instructions that templates ask about. Keeps true: a template that reads only these fields
writes C that runs on every processor of the variant.
"""

from dataclasses import dataclass

__all__ = ["ISAS", "Isa", "isa"]


@dataclass(frozen=True)
class Isa:
    """One variant: `features` holds `fma`, `f16c`, `bf16` (pairwise dot), `vnni` (8-bit dot) and
    `amx` (8-bit products of matrices in registers)."""

    name: str
    vector_bytes: int
    registers: int
    flags: tuple[str, ...]
    features: frozenset[str] = frozenset()
    architecture: str = "x86_64"

    def has(self, feature: str) -> bool:
        """Whether the variant has an instruction group."""
        return feature in self.features


_WIDE = "-mprefer-vector-width=512"

ISAS: dict[str, Isa] = {
    variant.name: variant
    for variant in (
        Isa("v2", 16, 16, ("-march=x86-64-v2",)),
        Isa("v3", 32, 16, ("-march=x86-64-v3",), frozenset({"fma", "f16c"})),
        Isa("v4", 64, 32, ("-march=x86-64-v4", _WIDE), frozenset({"fma", "f16c"})),
        Isa(
            "v4x",
            64,
            32,
            ("-march=x86-64-v4", "-mavx512bf16", "-mavx512vnni", _WIDE),
            frozenset({"fma", "f16c", "bf16", "vnni"}),
        ),
        Isa(
            "v4a",
            64,
            32,
            (
                "-march=x86-64-v4",
                "-mavx512bf16",
                "-mavx512vnni",
                "-mamx-tile",
                "-mamx-int8",
                _WIDE,
            ),
            frozenset({"fma", "f16c", "bf16", "vnni", "amx"}),
        ),
        Isa("neon", 16, 32, ("-march=armv8-a",), frozenset({"fma", "f16c"}), "aarch64"),
    )
}


def isa(variant: "str | Isa") -> Isa:
    """The variant of that name; an `Isa` is given back as it is."""
    return variant if isinstance(variant, Isa) else ISAS[variant]
