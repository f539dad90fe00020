"""The records of PyTorch's file of an exported program (`models/model.json`), by their names in the file.

Takes nothing. Gives: a class for each record; a `Union` holds exactly one of its fields.
Keeps true: names, numbers and order are the format's, so that files are read by PyTorch and PyTorch's here; a field
with a default may be missing in a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from facula.export.pt2.union import Union, union_record

#: the version that is written, (major, minor): files of another major version are refused
SCHEMA_VERSION = (8, 20)
TREESPEC_VERSION = 1
#: the version of PyTorch whose format this is
TORCH_VERSION = "2.13.0"


class ScalarType(IntEnum):
    """A dtype."""

    UNKNOWN = 0
    BYTE = 1
    CHAR = 2
    SHORT = 3
    INT = 4
    LONG = 5
    HALF = 6
    FLOAT = 7
    DOUBLE = 8
    COMPLEXHALF = 9
    COMPLEXFLOAT = 10
    COMPLEXDOUBLE = 11
    BOOL = 12
    BFLOAT16 = 13
    UINT16 = 28
    FLOAT8E4M3FN = 29
    FLOAT8E5M2 = 30
    FLOAT8E4M3FNUZ = 31
    FLOAT8E5M2FNUZ = 32
    FLOAT8E8M0FNU = 33
    UINT32 = 34
    UINT64 = 35


class Layout(IntEnum):
    """A layout."""

    Unknown = 0
    SparseCoo = 1
    SparseCsr = 2
    SparseCsc = 3
    SparseBsr = 4
    SparseBsc = 5
    _mkldnn = 6
    Strided = 7


class MemoryFormat(IntEnum):
    """A memory format."""

    Unknown = 0
    ContiguousFormat = 1
    ChannelsLast = 2
    ChannelsLast3d = 3
    PreserveFormat = 4


class ArgumentKind(IntEnum):
    """How an argument is given."""

    UNKNOWN = 0
    POSITIONAL = 1
    KEYWORD = 2


@dataclass
class Device:
    """A device."""

    type: str
    index: int | None = None


# ------------------------------------------------------------------ numbers that depend on sizes


@union_record
class SymExprHint(Union):
    """The value of an expression for the example."""

    as_int: int
    as_bool: bool
    as_float: float


@dataclass
class SymExpr:
    """An expression, as `expressions` writes it."""

    expr_str: str
    hint: SymExprHint | None = None


@union_record
class SymInt(Union):
    """A whole number."""

    as_expr: SymExpr
    as_int: int


@union_record
class SymFloat(Union):
    """A float."""

    as_expr: SymExpr
    as_float: float


@union_record
class SymBool(Union):
    """A condition."""

    as_expr: SymExpr
    as_bool: bool


@union_record
class SymIntArgument(Union):
    """A whole number as an argument: that of a node, or itself."""

    as_name: str
    as_int: int


@union_record
class SymFloatArgument(Union):
    """A float as an argument."""

    as_name: str
    as_float: float


@union_record
class SymBoolArgument(Union):
    """A condition as an argument."""

    as_name: str
    as_bool: bool


# ------------------------------------------------------------------ tensors


@dataclass
class TensorMeta:
    """A tensor without its elements."""

    dtype: ScalarType
    sizes: list[SymInt]
    requires_grad: bool
    device: Device
    strides: list[SymInt]
    storage_offset: SymInt
    layout: Layout


@dataclass
class TensorArgument:
    """A tensor, by the name of its node."""

    name: str


@dataclass
class TokenArgument:
    """A token, which orders effects."""

    name: str


@union_record
class OptionalTensorArgument(Union):
    """A tensor, or None."""

    as_tensor: TensorArgument
    as_none: bool


# ------------------------------------------------------------------ graphs


@dataclass
class GraphArgument:
    """The graph of a function that an operator takes."""

    name: str
    graph: Graph


@dataclass
class CustomObjArgument:
    """An object of a class of scripts."""

    name: str
    class_fqn: str


@dataclass
class ComplexValue:
    """A complex number."""

    real: float
    imag: float


@union_record
class Argument(Union):
    """What a node takes or gives."""

    as_none: bool
    as_tensor: TensorArgument
    as_tensors: list[TensorArgument]
    as_int: int
    as_ints: list[int]
    as_float: float
    as_floats: list[float]
    as_string: str
    as_strings: list[str]
    as_sym_int: SymIntArgument
    as_sym_ints: list[SymIntArgument]
    as_scalar_type: ScalarType
    as_memory_format: MemoryFormat
    as_layout: Layout
    as_device: Device
    as_bool: bool
    as_bools: list[bool]
    as_sym_bool: SymBoolArgument
    as_sym_bools: list[SymBoolArgument]
    as_graph: GraphArgument
    as_optional_tensors: list[OptionalTensorArgument]
    as_custom_obj: CustomObjArgument
    as_operator: str
    as_sym_float: SymFloatArgument
    as_sym_floats: list[SymFloatArgument]
    as_optional_tensor: OptionalTensorArgument
    as_complex: ComplexValue
    as_nested_tensors: list[list[TensorArgument]]
    as_int_lists: list[list[int]]
    as_string_to_argument: dict[str, Argument]
    as_float_lists: list[list[float]]


@dataclass
class NamedArgument:
    """An argument with its name in the operator's schema."""

    name: str
    arg: Argument
    kind: ArgumentKind | None = None


@dataclass
class Node:
    """A call; what it gives has the names of the nodes that read it."""

    target: str
    inputs: list[NamedArgument]
    outputs: list[Argument]
    metadata: dict[str, str]
    is_hop_single_tensor_return: bool | None = None
    name: str | None = None


@dataclass
class Graph:
    """A graph."""

    inputs: list[Argument]
    outputs: list[Argument]
    nodes: list[Node]
    tensor_values: dict[str, TensorMeta]
    sym_int_values: dict[str, SymInt]
    sym_bool_values: dict[str, SymBool]
    is_single_tensor_return: bool = False
    custom_obj_values: dict[str, CustomObjArgument] = field(default_factory=dict)
    sym_float_values: dict[str, SymFloat] = field(default_factory=dict)


# ------------------------------------------------------------------ signatures


@dataclass
class UserInputSpec:
    """An input of the user's."""

    arg: Argument


@union_record
class ConstantValue(Union):
    """The value of an input that is the same in every call."""

    as_none: bool
    as_int: int
    as_float: float
    as_string: str
    as_bool: bool


@dataclass
class InputToConstantInputSpec:
    """An input that is the same in every call."""

    name: str
    value: ConstantValue


@dataclass
class InputToParameterSpec:
    """A parameter."""

    arg: TensorArgument
    parameter_name: str


@dataclass
class InputToBufferSpec:
    """A buffer."""

    arg: TensorArgument
    buffer_name: str
    persistent: bool


@dataclass
class InputToTensorConstantSpec:
    """A tensor that the program holds besides."""

    arg: TensorArgument
    tensor_constant_name: str


@dataclass
class InputToCustomObjSpec:
    """An object of a class of scripts."""

    arg: CustomObjArgument
    custom_obj_name: str


@dataclass
class InputTokenSpec:
    """A token."""

    arg: TokenArgument


@union_record
class InputSpec(Union):
    """What an input stands for."""

    user_input: UserInputSpec
    parameter: InputToParameterSpec
    buffer: InputToBufferSpec
    tensor_constant: InputToTensorConstantSpec
    custom_obj: InputToCustomObjSpec
    token: InputTokenSpec
    constant_input: InputToConstantInputSpec


@dataclass
class UserOutputSpec:
    """A result."""

    arg: Argument


@dataclass
class LossOutputSpec:
    """The loss."""

    arg: TensorArgument


@dataclass
class BufferMutationSpec:
    """New elements of a buffer."""

    arg: TensorArgument
    buffer_name: str


@dataclass
class ParameterMutationSpec:
    """New elements of a parameter."""

    arg: TensorArgument
    parameter_name: str


@dataclass
class GradientToParameterSpec:
    """The gradient of a parameter."""

    arg: TensorArgument
    parameter_name: str


@dataclass
class GradientToUserInputSpec:
    """The gradient of an input."""

    arg: TensorArgument
    user_input_name: str


@dataclass
class UserInputMutationSpec:
    """New elements of an input."""

    arg: TensorArgument
    user_input_name: str


@dataclass
class OutputTokenSpec:
    """A token."""

    arg: TokenArgument


@union_record
class OutputSpec(Union):
    """What an output stands for."""

    user_output: UserOutputSpec
    loss_output: LossOutputSpec
    buffer_mutation: BufferMutationSpec
    gradient_to_parameter: GradientToParameterSpec
    gradient_to_user_input: GradientToUserInputSpec
    user_input_mutation: UserInputMutationSpec
    token: OutputTokenSpec
    parameter_mutation: ParameterMutationSpec


@dataclass
class GraphSignature:
    """What inputs and outputs stand for."""

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]


# ------------------------------------------------------------------ programs


@dataclass
class RangeConstraint:
    """The values of a symbol; None: no bound."""

    min_val: int | None
    max_val: int | None


@dataclass
class ModuleCallSignature:
    """What a module of the program is called with, and gives."""

    inputs: list[Argument]
    outputs: list[Argument]
    in_spec: str
    out_spec: str
    forward_arg_names: list[str] | None = None


@dataclass
class ModuleCallEntry:
    """A module of the program."""

    fqn: str
    signature: ModuleCallSignature | None = None


@dataclass
class NamedTupleDef:
    """The fields of a named tuple."""

    field_names: list[str]


@dataclass
class GraphModule:
    """A graph with its signature."""

    graph: Graph
    signature: GraphSignature
    module_call_graph: list[ModuleCallEntry]
    metadata: dict[str, str] = field(default_factory=dict)
    treespec_namedtuple_fields: dict[str, NamedTupleDef] = field(default_factory=dict)


@dataclass
class SchemaVersion:
    """The version of the format that a file has."""

    major: int
    minor: int


@dataclass
class ExportedProgram:
    """A program without its tensors."""

    graph_module: GraphModule
    opset_version: dict[str, int]
    range_constraints: dict[str, RangeConstraint]
    schema_version: SchemaVersion
    verifiers: list[str] = field(default_factory=list)
    torch_version: str = "<=2.4"
    guards_code: list[str] = field(default_factory=list)


@dataclass
class PayloadMeta:
    """Where the elements of a tensor stand."""

    path_name: str
    is_param: bool
    use_pickle: bool
    tensor_meta: TensorMeta | None = None


@dataclass
class PayloadConfig:
    """Where the elements of all tensors stand."""

    config: dict[str, PayloadMeta]


#: in which names of annotations are looked up
NAMES = {name: value for name, value in globals().items() if not name.startswith("__")}
