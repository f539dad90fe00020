"""The operator table: the decorators that define an operator, and the table they fill.

Takes: a schema and a body (a function or a class), as `docs/architecture.md` describes.
Gives: for each definition one callable `core.Op`, stored in `TABLE` by name and in `F` as an attribute, with the places
where it appears in the public API.
Keeps true: an operator is defined once; everything else that names it is derived from this table.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from facula import core
from facula.core.errors import fail
from facula.ops.schema import Schema, parse

if TYPE_CHECKING:
    import inspect  # brings in a dozen modules, and is needed for documentation only

#: every operator by name
TABLE: dict[str, core.Op] = {}

#: the same operators as attributes: the way in which formulas call each other (`F.gather(x, 0, index)`)
F = SimpleNamespace()


#: where operators appear: module path below facula ("" is facula itself, "Tensor" the class) -> name -> callable
PLACES: dict[str, dict[str, Any]] = {}


class Definition:
    """What was written about one operator; `core.Op` runs it."""

    kind = "operator"
    has_inplace = False
    has_out = True
    result_of: Callable[..., Any] | None = None
    nondifferentiable: tuple[int, ...] = ()
    out_cast = False
    #: whether an elementwise result is written to an `out=` of its own dtype only
    out_exact = False
    ties = False  # gradients that are linear count as functions of the arguments, as PyTorch's do
    copied: tuple[str, ...] = ()  # the places ("", "Tensor.") of the form `name_copy`
    #: the floating-point operations of a call with these arguments, as profiles estimate them
    flops: Callable[..., int] | None = None
    #: why the gradient is not the derivative of the value, where a convention says so
    convention = ""
    #: whether 16-bit floats are taken, or the name of the one that is; what calls an internal operator
    #: without them casts
    takes_16_bits: bool | str = True
    #: whether two calls with the same arguments give different results: those that take a generator
    random = False
    #: whether what a call allocates and launches may be kept and done again without Python: it must follow
    #: from shapes, dtypes and the other arguments alone (`core/replay.pxi`)
    keeps = False
    #: PyTorch's name of the overload where `ops.overloads` would give another; "dim=dim_IntList" is the
    #: name where the argument `dim` is given
    overload: str | None = None
    #: what autocast does (`autograd.autocast`): "lower", "float32", "widest" or "unchanged", after "cpu" or
    #: "accelerator" on these only
    autocast: str | None = None
    #: other spellings of arguments that are taken as keywords: spelling -> argument
    keyword_aliases: dict[str, str] | None = None
    samples: Callable[..., Any] | None = None
    errors: Callable[..., Any] | None = None
    #: the gradient as a formula over operators; kinds that derive it have none
    backward: Callable[..., Any] | None = None
    #: the rule for a batch: the name of a general one (`autograd.transforms.batch_rules`) or a function
    vmap: str | Callable[..., Any] | None = None
    #: the rule that a program registered instead: `rule(info, in_dims, *args)` gives results and their dims
    batching: Callable[..., Any] | None = None
    #: whether `dim` names dimensions that the results lack, of an operator without `keepdim`
    reduces = False
    #: the tangent: "linear", "multilinear" or a function; None derives it
    jvp: str | Callable[..., Any] | None = None
    #: the arguments that are images: read fastest where they lie channels last
    images: tuple[str, ...] = ()
    #: of several results, those that an operator with the same arguments gives alone, and faster
    alone: Mapping[int, str] = MappingProxyType({})

    def __init__(self, schema: Schema, body: Any, fields: dict[str, Any]) -> None:
        self.schema = schema
        self.name = schema.name
        self.body = body
        names = fields.pop("names", None)
        self.names = tuple(names) if names is not None else (self.name, "Tensor." + self.name)
        self.inplace = fields.pop("inplace", self.has_inplace)
        self.out = fields.pop("out", self.has_out)
        self.random = any(p.type == "generator" for p in schema.parameters)
        if "::" in self.name:  # from outside the package: what its Python code does may be meant
            self.keeps = False
        for key, value in fields.items():
            setattr(self, key, value)

    @property
    def doc(self) -> str:
        """The docstring of the body, with the schema above it."""
        import inspect

        return f"{self.schema.text}\n\n{inspect.cleandoc(self.body.__doc__ or '')}"

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

    def signature(self, inplace: bool = False) -> inspect.Signature:
        """The signature that `inspect` shows, with PyTorch's argument names."""
        import inspect

        parameters = []
        empty, later = inspect.Parameter.empty, False
        called_as_function = bool(self.names) and not self.names[0].startswith("Tensor.")
        # special functions call their first argument x, and PyTorch's pages call it input
        first = ("self", "x") if self.public_module.endswith(".special") else ("self",)
        for p in self.schema.parameters:
            name = "input" if p.name in first and called_as_function else p.name
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


def own_operators() -> dict[str, core.Op]:
    """facula's operators by name, without those that a program added (`library::name`)."""
    return {name: operator for name, operator in TABLE.items() if "::" not in name}


def _same(value: Any, default: Any) -> bool:
    return value is default or (
        type(value) is type(default) and not isinstance(value, core.Tensor) and value == default
    )


def place(definition: Definition, operator: core.Op) -> None:
    """Enter an operator, and its in-place form, where it appears in the public API."""
    for name in definition.names:
        module, _, last = name.rpartition(".")
        PLACES.setdefault(module, {})[last] = operator
        if definition.inplace and not last.startswith("__"):
            PLACES[module][last + "_"] = operator.inplace


def register(definition: Definition) -> core.Op:
    """Make the callable of a definition and enter it into the table.

    Raises:
        ValueError: an operator of that name exists.
    """
    if definition.name in TABLE:
        fail(
            ValueError,
            definition.name,
            "an operator is defined once",
            "a second definition (it exists already)",
            hint="give the new one another name",
        )
    operator = core.Op(definition)
    definition.complete(operator)
    TABLE[definition.name] = operator
    setattr(F, definition.name, operator)
    place(definition, operator)
    return operator


def _decorator(
    kind: type[Definition], schema: str, fields: dict[str, Any]
) -> Callable[[Any], core.Op]:
    def decorate(body: Any) -> core.Op:
        return register(kind(parse(schema), body, dict(fields)))

    return decorate


def _elements(*args: Any) -> int:
    """How many elements the broadcast of all tensors among the arguments has."""
    shapes = [tuple(a.shape) for a in args if isinstance(a, core.Tensor)]
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return math.prod(
        max(sizes, key=lambda n: n != 1 and n + 1) for sizes in zip(*padded, strict=True)
    )


class Pointwise(Definition):
    """Elementwise: the body builds a scalar expression (`ops.scalar`)."""

    kind = "pointwise"
    has_inplace = True
    flops = staticmethod(_elements)
    result = "same"
    dtypes = "bool int float complex"
    compute: dict[str, str] | None = None
    domain: tuple[float | None, float | None] | dict[str, tuple[float, float]] | None = None
    reference: Any = None
    differentiable = True
    prebuilt: tuple[Any, ...] = ()
    strict: tuple[str, ...] = ()
    refuses_bools = False  # one bool among the operands is an error, where others would be promoted
    nonzero_divisor = False
    nonnegative_exponent = False
    check: Callable[..., None] | None = None
    explicit_backward: Callable[..., Any] | None = None

    def complete(self, operator: core.Op) -> None:
        core.prepare_pointwise(operator)


class View(Definition):
    """Index arithmetic: `geometry` names a function of the core, or is one that gives the view."""

    kind = "view"
    has_out = False
    copied = ("",)
    geometry: Any = None

    def __init__(self, schema: Schema, body: Any, fields: dict[str, Any]) -> None:
        for key in ("names", "inplace", "copied", "jvp", "vmap"):
            if key in vars(body):
                fields.setdefault(key, vars(body)[key])
        super().__init__(schema, body, fields)
        self.geometry = _function(body, "geometry")
        self.backward = _function(body, "backward")
        self.samples = _function(body, "samples")
        self.errors = _function(body, "errors")

    def complete(self, operator: core.Op) -> None:
        formula = core.make_formula(operator, self.backward) if self.backward else None
        operator.set_impl(self.geometry if callable(self.geometry) else None, formula)


class Operator(Definition):
    """A structured primitive: meta, kernels and formulas stand in a class."""

    kind = "operator"
    dynamic = False
    keeps = True

    def __init__(self, schema: Schema, body: Any, fields: dict[str, Any]) -> None:
        own = {k: v for k, v in vars(body).items() if not k.startswith("__") and not callable(v)}
        for key, value in own.items():
            if not isinstance(value, staticmethod):
                fields.setdefault(key, value)
        super().__init__(schema, body, fields)
        self.meta = _function(body, "meta")
        self.cpu = _function(body, "cpu")
        self.cpu_inplace = _function(body, "cpu_inplace")
        self.backward = _function(body, "backward")
        self.jvp = _function(body, "jvp")
        self.vmap = _function(body, "vmap")
        self.samples = _function(body, "samples")
        self.errors = _function(body, "errors")
        self.reference = _function(body, "reference")
        self.flops = _function(body, "flops")
        self.wrap_results = _result_type(self.schema)
        self.keeps = self.keeps and not self.dynamic

    def complete(self, operator: core.Op) -> None:
        formula = core.make_formula(operator, self.backward) if self.backward else None
        operator.set_impl(self._dynamic() if self.dynamic else self._static(), formula)

    def _static(self) -> Callable[..., Any]:
        meta, cpu, wrap = _given(self.meta), _given(self.cpu), self.wrap_results

        def run(*args: Any) -> Any:
            out = meta(*args)
            if isinstance(out, tuple):
                if not out:  # no pieces of nothing
                    return out
                first = out[0]
            else:
                first = out
            if not first.is_meta:
                cpu(out, *args)
            return wrap(out) if wrap is not None else out

        return run

    def _dynamic(self) -> Callable[..., Any]:
        name, cpu, meta, wrap = self.name, _given(self.cpu), self.meta, self.wrap_results

        def run(*args: Any) -> Any:
            if any(isinstance(a, core.Tensor) and a.is_meta for a in args):
                core.errors.fail(
                    NotImplementedError,
                    name,
                    "tensors with data were required, since the result's shape depends on them",
                    got="a meta tensor",
                )
            if meta is not None:
                meta(*args)
            out = cpu(*args)
            return wrap(out) if wrap is not None and isinstance(out, tuple) else out

        return run


class Composite(Definition):
    """A Python function over other operators."""

    kind = "composite"
    keeps = True

    def __init__(self, schema: Schema, body: Any, fields: dict[str, Any]) -> None:
        super().__init__(schema, body, fields)
        self.wrap_results = _result_type(self.schema)

    def complete(self, operator: core.Op) -> None:
        operator.set_impl(self.body if self.wrap_results is None else self._named(), None)

    def _named(self) -> Callable[..., Any]:
        """The body, with its results in the named tuple."""
        body, wrap = self.body, _given(self.wrap_results)

        def run(*args: Any) -> Any:
            results = body(*args)
            return wrap(results) if isinstance(results, tuple) else results

        return run


#: the named tuples of operators with named results: `facula.return_types`
RETURN_TYPES: dict[str, type] = {}


def _result_type(schema: Schema) -> Callable[[tuple[Any, ...]], Any] | None:
    """The constructor of a named tuple when all of several results have names."""
    if len(schema.results) < 2 or not all(schema.results):
        return None
    return_type = return_type_of(schema.name, schema.results)
    return lambda values: return_type(*values)


def return_type_of(name: str, fields: tuple[str, ...]) -> type:
    """The named tuple `return_types.name` with the given fields, made once."""
    if name not in RETURN_TYPES:
        made = namedtuple(name.rpartition("::")[2], fields, module="facula.return_types")  # type: ignore[misc]
        made.__repr__ = _return_type_text  # type: ignore[method-assign]
        RETURN_TYPES[name] = made
    return RETURN_TYPES[name]


def _return_type_text(self: Any) -> str:
    body = ",\n".join(f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True))
    return f"{core.DTYPE_PREFIX[0]}.return_types.{type(self).__name__}(\n{body})"


def _function(body: Any, name: str) -> Callable[..., Any] | None:
    value = vars(body).get(name)
    return value.__func__ if isinstance(value, staticmethod) else value


def _given(function: Callable[..., Any] | None) -> Callable[..., Any]:
    """A function that this kind of definition has to have."""
    assert function is not None
    return function


def pointwise(schema: str, **fields: Any) -> Callable[[Any], core.Op]:
    """Define an elementwise operator. Fields: see `Pointwise` and `docs/kernel_interfaces.md`."""
    return _decorator(Pointwise, schema, fields)


def view(schema: str, **fields: Any) -> Callable[[Any], core.Op]:
    """Define a view by its index arithmetic."""
    return _decorator(View, schema, fields)


def operator(schema: str, **fields: Any) -> Callable[[Any], core.Op]:
    """Define a structured operator."""
    return _decorator(Operator, schema, fields)


def composite(schema: str, **fields: Any) -> Callable[[Any], core.Op]:
    """Define an operator as a Python function over others."""
    return _decorator(Composite, schema, fields)
