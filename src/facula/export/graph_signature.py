"""What the inputs and outputs of an exported graph are, under PyTorch's module name; it stands in `signature`."""

from facula.export.signature import (
    ConstantArgument,
    ExportBackwardSignature,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)

__all__ = [
    "ConstantArgument", "ExportBackwardSignature", "ExportGraphSignature", "InputKind", "InputSpec",
    "OutputKind", "OutputSpec", "SymIntArgument", "TensorArgument",
]  # fmt: skip
