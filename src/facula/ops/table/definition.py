"""What may be said of one operator: the fields of a definition, declared once and checked where they are given.

Takes: a schema, a body (a function or a class) and fields by name. Gives: `Definition`, the base of every
kind of definition.
Keeps true: a field is a declared attribute with a type and a comment; a name that is none, or a value of
another type, is an error when the operator is defined, with the nearest name; what is not given is the kind's
default. So nobody has to ask whether a definition has a field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from facula import core
from facula.core.errors import fail
from facula.ops.table.schema import Parameter, Schema

if TYPE_CHECKING:
    import inspect  # brings in a dozen modules, and is needed for documentation only

_TYPES: dict[str, Any] = {
    "bool": bool, "str": str, "tuple": tuple, "dict": dict, "Mapping": Mapping, "Callable": Callable,
    "None": type(None),
}  # fmt: skip


class Definition:
    """What was written about one operator; `core.Op` runs it."""

    kind: ClassVar[str] = "operator"
    #: declared field -> its annotation
    FIELDS: ClassVar[dict[str, str]] = {}

    # ---- the public API ----
    #: where the operator appears: "Tensor.add", "special.erf"; by default its name, as function and method
    names: tuple[str, ...] = ()
    #: whether there is a form that writes to its first argument
    inplace: bool = False
    #: whether that form, and `out=`, refuse arguments that share memory with what is written to
    apart: bool = False
    #: whether that form takes memory with several elements a place, and warns, as PyTorch does
    expanded: bool = False
    #: whether `out=` is taken
    out: bool = True
    #: whether `out=` may have another dtype than the result, which then decides the dtype of the call
    out_cast: bool | str = False
    #: whether such an `out=` must be of a kind that holds the elements: no integers for floats
    out_kind: bool = False
    #: whether an `out=` of as many elements, in whatever shape, keeps its shape
    out_fills: bool = False
    #: whether an elementwise result is written to an `out=` of its own dtype only
    out_exact: bool = False
    #: whether operands are converted to the dtype that they promote to before kernels widen 16-bit floats: what
    #: compares numbers finds those equal that are one element of that dtype, and sums are of such elements
    in_common_dtype: bool = False
    #: whether an elementwise operator takes numbers alone, as tensors without dimensions
    of_numbers: bool = False
    #: other spellings of arguments that are taken as keywords: spelling -> argument
    keyword_aliases: dict[str, str] | None = None
    #: PyTorch's name of the overload where `ops.table.overloads` would give another; "dim=dim_IntList" is the
    #: name where the argument `dim` is given, "dim:int=dim, dim=dims" are two rules, of which the first
    #: that holds counts, and a name without `=` is for all other calls
    overload: str | None = None
    #: what PyTorch's texts call it below the package, where that is not its first public name: "_C._nn.linear"
    home: str = ""
    #: the operator's name in PyTorch's files of programs, where it is another: "index.Tensor"
    file_name: str | None = None
    #: argument -> its name there; "default.start" is that of one overload, "*correction" is given by
    #: keyword, and "dim[]" is a list
    file_arguments: dict[str, str] | None = None
    #: what a call is there, where PyTorch has no such operator: a function of `export.pt2.forms`
    file_form: str = ""
    #: the arguments that always stand there, though they have a default
    file_keeps: tuple[str, ...] = ()
    #: whether overrides hear of a list in the place of the operands in a row as of the operands themselves
    spreads: bool = False
    #: of a composite: whether graphs of programs show the operators in it, as PyTorch's is a Python function
    #: (None: those whose public name is another one)
    inlined: bool | None = None
    #: of such a composite: what graphs of programs show in its place, as a function of its arguments
    graph_form: Callable[..., Any] | None = None
    #: the same by PyTorch's operators, which dispatch modes and subclasses hear of in its place (`ops.table.heard`)
    heard: Callable[..., Any] | None = None
    #: of a form that such listeners hear of: the operator which has PyTorch's name for it, and other arguments
    stands_for: str = ""
    #: the places ("", "Tensor.") of the form `name_copy`
    copied: tuple[str, ...] = ()

    # ---- values ----
    #: the dtype of the result, as a function of the operands' dtypes, where no word says it
    result_of: Callable[..., Any] | None = None
    #: whether the result's shape depends on elements
    dynamic: bool = False
    #: of such an operator: the results, as `meta` allocates them, for a given number of elements
    counted: Callable[..., Any] | None = None
    #: whether two calls with the same arguments give different results: those that take a generator
    random: bool = False
    #: whether 16-bit floats are taken, or the name of the one that is; what calls an internal operator
    #: without them casts
    takes_16_bits: bool | str = True
    #: what autocast does (`autograd.autocast`): "lower", "float32", "widest" or "unchanged", after "cpu" or
    #: "accelerator" on these only
    autocast: str | None = None
    #: the arguments that a program's own operator writes to
    mutated: tuple[str, ...] = ()

    # ---- derivatives ----
    #: the gradient as a formula over operators; kinds that derive it have none
    backward: Callable[..., Any] | None = None
    #: what only the gradient of another argument reads, so that it is kept (and may not be written to) only where
    #: that is asked for, and is given as its `_meta` otherwise: argument -> the other
    kept_for: Mapping[str, str] = MappingProxyType({})
    #: what PyTorch calls the node that a call leaves in the history, where that is not the operator's name with
    #: "Backward0": the name, or a function of a `core.NodeCall`; of a composite, whose last node is called so, of
    #: its result and arguments
    node: str | Callable[..., str | None] | None = None
    #: the arguments whose edges such a node shows in `next_functions`, where those are not all that may have a gradient
    edges: tuple[str, ...] | Callable[..., tuple[str, ...]] = ()
    #: where a number given for a tensor has an edge like one, as PyTorch makes it a tensor first: "right" or on
    #: "both" sides
    wraps_numbers: str = ""
    #: the tangent: "linear", "multilinear" or a function; None derives it
    jvp: str | Callable[..., Any] | None = None
    #: the results that have no gradient
    nondifferentiable: tuple[int, ...] = ()
    #: whether gradients that are linear count as functions of the arguments, as PyTorch's do
    ties: bool = False
    #: what becomes of quantized tensors: "moves" (or compares) elements, so that it runs on their integers; "averages";
    #: gives numbers of the "same range", or of the "unit" or "signed unit" interval (`quantization/rules.py`)
    quantized: str = ""
    #: what those that quantize whole models ("fx", "xnnpack", "x86", and "script" where it differs from "fx") see in a
    #: call: a "layer" with a weight, "arithmetic" of values, values that are "joined", an "activation" that is one with
    #: what stands before it, or a result with parameters of its "own" or that are "shared" with the input
    #: (`quantization/calls.py`)
    quantizers: Mapping[str, str] = MappingProxyType({})
    #: why the gradient is not the derivative of the value, where a convention says so
    convention: str = ""

    # ---- batches ----
    #: the rule for a batch: the name of a general one (`autograd.transforms.batch_rules`) or a function
    vmap: str | Callable[..., Any] | None = None
    #: the rule that a program registered instead: `rule(info, in_dims, *args)` gives results and their dims
    batching: Callable[..., Any] | None = None
    #: of what is no view: whether its results hold elements of its inputs (or zeros), taken by their places alone
    rearranges: bool = False
    #: of what is not pointwise: whether an element of the result follows from the one at its place alone (or
    #: from none), so that it holds for the rows of nested tensors too
    elementwise: bool = False
    #: whether `dim` names dimensions that the results lack, of an operator without `keepdim`
    reduces: bool = False

    # ---- pieces of distributed tensors ----
    #: along which dimensions tensors may be cut (`ops.table.sharding`): an equation "mk,kn->mn", the name of a rule
    #: with what it is given, or a function of the arguments; of an elementwise operator, whether sums may stay
    #: sums: "linear" (in all tensors together), "multilinear" (in each), "first" (in the first); else it gathers
    shards: str | Callable[..., Any] | None = None

    # ---- how it runs ----
    #: whether what a call allocates and launches may be kept and done again without Python: it must follow
    #: from shapes, dtypes and the other arguments alone (`core/dispatch/replay.pxi`)
    keeps: bool = False
    #: the fast path through the core that serves its calls (`core/dispatch/fast_paths.pxi`)
    fast: str | None = None
    #: the function that writes the result over the first argument, of an operator that can do that
    cpu_inplace: Callable[..., Any] | None = None
    #: what a program registered to compute it by other operators
    composite: Callable[..., Any] | None = None
    #: the functions that a program registered, by device
    kernels: dict[str, Callable[..., Any]] | None = None
    #: whether it stands in the place of a compiled operator of another package, whose own registrations for
    #: it (gradient, tensors without data) then have nothing to add
    serves: bool = False
    #: the floating-point operations of a call with these arguments, as profiles estimate them
    flops: Callable[..., int] | None = None
    #: whether to compute it again costs about as much as to read its result
    cheap: bool = False
    #: the arguments that are images: read fastest where they lie channels last
    images: tuple[str, ...] = ()
    #: the arguments that are numbers, for which tensors of one element may be given: these are read
    numbers: tuple[str, ...] = ()
    #: the same by other operators, of one whose kernel is no loop that the compiler knows: it is fused as these
    formula: Callable[..., Any] | None = None
    #: of a product of the first argument, an "image" or "rows", with the second, to which the third is added: which
    weighted: str = ""
    #: "module:function" of a pass over flat graphs without gradients that have such a call; gives how much it changed
    lowers: str = ""
    #: how a call does what follows it, too: a function of what builds calls, its own arguments (nodes of a flat graph),
    #: the operator that follows, its arguments, and the place of the value among them; gives a node or None
    absorbs: Callable[..., Any] | None = None
    #: of several results, those that an operator with the same arguments gives alone, and faster
    alone: Mapping[int, str] = MappingProxyType({})

    # ---- tests and documentation ----
    #: calls to test it with: a function of a source of tensors
    samples: Callable[..., Any] | None = None
    #: calls that must raise, with what they raise
    errors: Callable[..., Any] | None = None
    #: the function of NumPy or SciPy that computes the same: its name, or a function
    reference: str | Callable[..., Any] | None = None

    def __init_subclass__(cls) -> None:
        cls.FIELDS = {**cls.FIELDS, **_declared(cls)}

    def __init__(self, schema: Schema, body: Any, fields: Mapping[str, Any]) -> None:
        self.schema = schema
        self.name = schema.name
        self.body = body
        self.names = (self.name, f"Tensor.{self.name}")
        self.random = any(p.type == "generator" for p in schema.parameters)
        if "::" in self.name:  # from outside the package: what its Python code does may be meant
            self.keeps = False
        for field, value in fields.items():
            self._check(field, value)
            setattr(self, field, value)

    def _check(self, field: str, value: object) -> None:
        """Refuse what is no field of this kind, and a value that the field does not take."""
        annotation = self.FIELDS.get(field)
        if annotation is None:
            self._unknown(field)
        taken = _TAKEN.get(annotation) or _taken(annotation)
        fits = value in taken if annotation.startswith("Literal") else isinstance(value, taken)
        if not fits:
            required = f"the field {field!r} was required to be {annotation}"
            hint = "the kinds of definitions describe their fields (ops/table/definition.py, ops/table/registry.py)"
            fail(TypeError, self.name, required, got=repr(value), hint=hint)

    def _unknown(self, field: str) -> NoReturn:
        # lazily: for an error only
        from difflib import get_close_matches

        near = get_close_matches(field, self.FIELDS, 1)
        required = f"a field of a definition of kind {type(self).__name__} was required"
        hint = f"did you mean {near[0]!r}? " if near else ""
        hint += "fields: " + ", ".join(self.FIELDS)
        fail(TypeError, self.name, required, got=repr(field), hint=hint)

    @property
    def doc(self) -> str:
        """The whole docstring, made when it is asked for."""
        # lazily: importing the package shall not load what only `help` needs
        from facula.ops.table.documentation import documentation

        return documentation(self)

    def result_words(self) -> str:
        """What documentation says of the result beside its type."""
        return "its size depends on the elements" if self.dynamic else ""

    def restrictions(self) -> list[str]:
        """What documentation says first of the arguments, a sentence each."""
        return []

    @property
    def opaque(self) -> bool:
        """Whether function transforms treat a composite as a whole."""
        return self.vmap is not None

    @property
    def public_name(self) -> str:
        """The name under which users know the operator."""
        return self.names[0].rpartition(".")[2] if self.names else self.name.rpartition("::")[2]

    @property
    def public_module(self) -> str:
        """The module in which users find the operator."""
        place = self.names[0].rpartition(".")[0] if self.names else "ops"
        package = core.DTYPE_PREFIX[0]
        return package if place in ("", "Tensor") else f"{package}.{place}"

    @property
    def called(self) -> tuple[str, str]:
        """The module and the name under which texts of programs call the operator."""
        if not self.names:
            return self.public_module, self.public_name
        place, _, name = self.names[0].rpartition(".")
        return core.called(place, name, self.home)

    def shown(self) -> list[tuple[str, Parameter]]:
        """The arguments under the names that users call them by."""
        called_as_function = bool(self.names) and not self.names[0].startswith("Tensor.")
        # special functions call their first argument x, and PyTorch's pages call it input
        first = ("self", "x") if self.public_module.endswith(".special") else ("self",)
        return [
            ("input" if p.name in first and called_as_function else p.name, p)
            for p in self.schema.parameters
        ]

    def signature(self, inplace: bool = False) -> inspect.Signature:
        """The signature that `inspect` shows, with PyTorch's argument names."""
        import inspect

        parameters = []
        empty, later = inspect.Parameter.empty, False
        for name, p in self.shown():
            kind = (
                inspect.Parameter.KEYWORD_ONLY
                if p.keyword_only
                else inspect.Parameter.POSITIONAL_OR_KEYWORD
            )
            later = later or (p.has_default and not p.keyword_only)
            default = (
                p.default if p.has_default else (None if later and not p.keyword_only else empty)
            )
            parameters.append(inspect.Parameter(name, kind, default=default))
        if self.out and not inplace:
            parameters.append(
                inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
            )
        return inspect.Signature(parameters)

    def trim(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments of a call, without trailing defaults."""
        parameters = self.schema.parameters
        positional = [a for a, p in zip(args, parameters, strict=True) if not p.keyword_only]
        last = len(positional)
        while (
            last
            and parameters[last - 1].has_default
            and _same(positional[last - 1], parameters[last - 1].default)
        ):
            last -= 1
        keywords = {
            p.name: a
            for a, p in zip(args, parameters, strict=True)
            if p.keyword_only and not _same(a, p.default)
        }
        return tuple(positional[:last]), keywords

    def complete(self, operator: core.Op) -> None:
        """Give the core what it needs to run the operator."""
        raise NotImplementedError(self.kind)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.schema.text}>"


def parts_of(body: type) -> dict[str, Any]:
    """The fields that stand in the class which is a definition's body."""
    parts = {name: value for name, value in vars(body).items() if name[:2] != "__"}
    for name in [name for name, value in parts.items() if type(value) is staticmethod]:
        parts[name] = parts[name].__func__
    return parts


def _declared(kind: type) -> dict[str, str]:
    """The fields that a class declares, with their annotations."""
    annotations = vars(kind).get("__annotations__", {})
    return {name: a for name, a in annotations.items() if not a.startswith("ClassVar")}


#: annotation -> the types, or words, that it allows
_TAKEN: dict[str, Any] = {}


def _taken(annotation: str) -> Any:
    """The types of a union, without what stands in brackets, or the words of `Literal["a", "b"]`."""
    if annotation.startswith("Literal"):
        found: Any = re.findall(r"'([^']*)'", annotation)
    else:
        bare, before = annotation, ""
        while bare != before:
            bare, before = re.sub(r"\[[^\[\]]*\]", "", bare), bare
        found = tuple(_TYPES[kind] for kind in bare.split(" | "))
    return _TAKEN.setdefault(annotation, found)


def _same(value: object, default: object) -> bool:
    return value is default or (
        type(value) is type(default) and not isinstance(value, core.Tensor) and value == default
    )


Definition.FIELDS = _declared(Definition)
