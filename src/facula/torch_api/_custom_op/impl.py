"""Operators by PyTorch's first interface: a schema or an annotated function, then an implementation per
device, what is kept
for the gradient, and the gradient by the names of arguments.

Takes: qualified names, schemas, functions. Gives: operators of the one table (`facula.library`).
Keeps true: an operator made here is one that `library.define` makes; only functional ones are taken, as then.
"""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import TABLE

from .._library.utils import is_functional_schema, lookup_op, parse_namespace
from ..library.custom import EVERY_DEVICE, CustomOperator, find, make
from ..library.registration import _forget, register_autograd, register_fake, register_kernel
from ..library.schemas import infer_schema

__all__ = ["CustomOp", "custom_op", "get_ctx", "get_op", "infer_schema"]

SUPPORTED_DEVICE_TYPE_TO_KEY = {"cpu": "CPU", "cuda": "CUDA"}
RESERVED_NS = {"prim", "prims", "aten", "at", "facula", "torch", "pytorch"}
global_registry: dict[str, CustomOp] = {}


def _refuse(kind: type[Exception], op: str, required: str, got: object, hint: str) -> NoReturn:
    fail(kind, op, required, got, hint)


def _check_name(qualname: str) -> tuple[str, str]:
    namespace, name = parse_namespace(qualname)
    if "." in name:
        required = (
            "a name without a dot was required (overloads are not supported by this function)"
        )
        _refuse(ValueError, "custom_op", required, qualname, "give each operator a name of its own")
    if namespace in RESERVED_NS:
        required = f"a namespace of one's own was required ({namespace!r} is a reserved namespace)"
        _refuse(ValueError, "custom_op", required, qualname, "for example 'mylib::scale'")
    if qualname in TABLE:
        required = "a name that is free was required (an operator cannot be defined multiple times)"
        _refuse(RuntimeError, "custom_op", required, qualname, "give the second one another name")
    return namespace, name


def _check_schema(schema: str) -> str:
    text = schema.strip()
    if not (text.startswith("(") and "->" in text):
        required = (
            f"a schema '(Tensor x) -> Tensor' was required (Invalid function schema: foo{text})"
        )
        _refuse(AssertionError, "custom_op", required, schema, "names, types and an arrow")
    if "Tensor self" in text:
        required = "an argument of another name than self was required"
        _refuse(ValueError, "custom_op", required, schema, "call it x")
    if not is_functional_schema(text):
        required = (
            "a schema that writes to nothing and gives something new was required (custom_op only "
            "supports functional operators)"
        )
        _refuse(ValueError, "custom_op", required, schema, "library.custom_op takes mutates_args=")
    return text


class CustomOp:
    """An operator, with decorators that complete it. Made by `custom_op`."""

    def __init__(
        self,
        schema: Any,
        name: Any,
        definition: Any,
        function: Callable[..., Any],
        *private: Any,
        made: bool = False,
    ) -> None:
        if not made:
            required = "a call of custom_op was required (The CustomOp constructor is private)"
            _refuse(RuntimeError, "CustomOp", required, "CustomOp(...)", "use library.custom_op")
        self._schema, self._qualname = schema, name
        self._definition: CustomOperator = definition
        self.__name__ = name.partition("::")[2]
        if function is not None:
            self.__doc__, self.__module__ = function.__doc__, function.__module__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._definition.operator(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<CustomOp(op='{self._qualname}')>"

    def _destroy(self) -> None:
        _destroy(self._qualname)

    def impl(self, device_types: str | Sequence[str], _stacklevel: int = 2) -> Callable[..., Any]:
        """The function for some device types."""
        return implement(self._qualname, device_types)

    def impl_abstract(self, _stacklevel: int = 2) -> Callable[..., Any]:
        """The function for tensors without data."""
        return lambda function: register_fake(self._qualname, function)

    def impl_save_for_backward(self, _stacklevel: int = 2) -> Callable[..., Any]:
        """What is kept for the gradient."""
        return lambda function: save_for_backward(self._qualname, function)

    def impl_backward(
        self, output_differentiability: list[bool] | None = None, _stacklevel: int = 2
    ) -> Callable[..., Any]:
        """The gradient."""
        return lambda function: backward(self._qualname, function, output_differentiability)


def _create(qualname: str, schema: str, function: Any = None) -> CustomOp:
    _check_name(qualname)
    text = _check_schema(schema)
    definition = make(qualname, text)
    made = global_registry[qualname] = CustomOp(text, qualname, definition, function, made=True)
    return made


def custom_op(qualname: str, manual_schema: str | None = None) -> Callable[..., CustomOp]:
    """A decorator that makes a function's name and signature an operator; its body is not run."""

    def decorate(function: Callable[..., Any]) -> CustomOp:
        name = qualname.partition("::")[2]
        if not inspect.isfunction(function):
            required = "a function was required (custom_op(...)(func): Expected `func` to be a Python function)"
            _refuse(ValueError, "custom_op", required, type(function).__name__, "decorate a def")
        if function.__name__ != name:
            required = f"the function's name was required to be the operator's (Expected `func` to have name '{name}')"
            _refuse(ValueError, "custom_op", required, function.__name__, "rename one of both")
        schema = manual_schema
        if schema is None:
            schema = infer_schema(function, mutates_args=())
        else:
            _check_signature(function, schema)
        return _create(qualname, schema, function)

    return decorate


def _names(schema: str) -> tuple[list[str], list[str]]:
    """The names of a schema's positional and keyword-only arguments."""
    inner = schema[schema.index("(") + 1 : schema.rindex(")", 0, schema.index("->"))]
    parts = [part.strip() for part in inner.split(",") if part.strip()]
    at = parts.index("*") if "*" in parts else len(parts)
    named = [part.partition("=")[0].split()[-1] if part != "*" else "*" for part in parts]
    return named[:at], named[at + 1 :]


def _check_signature(function: Callable[..., Any], schema: str) -> None:
    positional, keywords = _names(schema)
    given = inspect.signature(function).parameters.values()
    own = [p.name for p in given if p.kind == p.POSITIONAL_OR_KEYWORD]
    only = [p.name for p in given if p.kind == p.KEYWORD_ONLY]
    if own != positional or only != keywords or len(own) + len(only) != len(list(given)):
        required = (
            "the names of the schema were required (Expected the function signature to match the "
            f"schema {schema})"
        )
        _refuse(
            ValueError,
            "custom_op",
            required,
            str(inspect.signature(function)),
            "write the same names",
        )


def _find(qualname: str) -> CustomOperator:
    if qualname not in TABLE:
        required = (
            "an operator that is defined was required (Could not find the operator "
            f"{qualname}. Please make sure you have already registered the operator)"
        )
        _refuse(RuntimeError, "custom_op", required, qualname, "define it with custom_op first")
    return find(qualname)


def get_op(qualname: str) -> Any:
    """The overload of a qualified name."""
    if qualname not in TABLE:
        _find(qualname)
    return lookup_op(qualname)


def _destroy(qualname: str) -> None:
    """Take an operator away."""
    _forget(qualname)
    global_registry.pop(qualname, None)


def implement(
    qualname: str, device_types: str | Sequence[str], function: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """The function of an operator for device types."""
    wanted = [device_types] if isinstance(device_types, str) else list(device_types)
    for device in wanted:
        if device not in SUPPORTED_DEVICE_TYPE_TO_KEY:
            required = (
                f"device types of {sorted(SUPPORTED_DEVICE_TYPE_TO_KEY)} were required (we only "
                "support device_type in them)"
            )
            _refuse(ValueError, "impl", required, device, "library.register_kernel takes others")
    definition = _find(qualname)

    def decorate(given: Callable[..., Any]) -> Any:
        taken = [d for d in (*wanted, EVERY_DEVICE) if d in definition.kernels]
        if taken or definition.composite is not None:
            required = f"an operator without one was required (it already has an implementation for {wanted})"
            _refuse(RuntimeError, "impl", required, taken or "a composite", "leave one of both out")
        register_kernel(definition.operator, wanted, given)
        return given

    return decorate if function is None else decorate(function)


def abstract(qualname: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of an operator for tensors without data."""
    definition = _find(qualname)
    if definition.composite is not None:
        required = (
            "an operator without an implementation for CompositeImplicitAutograd was required"
        )
        hint = "it runs on tensors without data as it is"
        _refuse(RuntimeError, "impl_abstract", required, qualname, hint)
    if "meta" in definition.kernels:
        required = "an operator without one was required (it already has an DispatchKey::Meta implementation)"
        _refuse(RuntimeError, "impl_abstract", required, qualname, "leave one of both out")
    register_fake(definition.operator, function)
    return function


def _check_gradient(definition: CustomOperator, qualname: str) -> None:
    """Raise where an operator can not get a gradient by names."""
    required = ""
    if definition.mutated:
        required = "a functional operator was required (got a non-functional operator)"
    elif definition.views:
        required = "results of their own were required (got an operator that returns views)"
    elif not definition.schema.results:
        required = "an operator with results was required (it has no returns)"
    elif definition.composite is not None:
        required = (
            "an operator without an implementation for CompositeImplicitAutograd was required"
        )
    elif definition.autograd_key and _OWN not in vars(definition):
        required = (
            f"an operator without an implementation for {definition.autograd_key} was required"
        )
    if required:
        hint = "library.register_autograd takes other operators"
        _refuse(RuntimeError, "impl_backward", required, qualname, hint)


def save_for_backward(qualname: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function(inputs, output)`` gives what the gradient needs; `inputs` has the arguments by name."""
    _parts(qualname)["save"] = function
    return function


def _check_flags(flags: Any, results: int) -> None:
    """`output_differentiability`: a bool for each result."""
    whole = isinstance(flags, (list, tuple)) and all(isinstance(x, bool) for x in flags)
    if not whole or len(flags) != results:
        kind = "a bool for each result" if whole else "a list of bools"
        required = f"{kind} was required as output_differentiability"
        _refuse(RuntimeError, "impl_backward", required, flags, "one for each result")


def backward(
    qualname: str, function: Callable[..., Any], output_differentiability: Any = None
) -> Callable[..., Any]:
    """``function(ctx, saved, *grads)`` gives a dictionary from the names of tensor arguments to gradients."""
    definition = _find(qualname)
    if output_differentiability is not None:
        _check_flags(output_differentiability, len(definition.schema.results))
        _parts(qualname)["flags"] = list(output_differentiability)
    _parts(qualname)["backward"] = function
    return function


#: what is registered for a gradient, on the definition itself
_OWN = "_by_name"


def _parts(qualname: str) -> dict[str, Any]:
    definition = _find(qualname)
    _check_gradient(definition, qualname)
    parts = vars(definition).get(_OWN)
    if parts is None:
        parts = vars(definition)[_OWN] = {}
        register_autograd(
            definition.operator,
            _gradients(definition, parts),
            setup_context=_keep(definition, parts),
        )
    return parts


def _keep(definition: CustomOperator, parts: dict[str, Any]) -> Callable[..., Any]:
    names = [p.name for p in definition.schema.parameters]
    inputs_class: Any = namedtuple("Inputs", names)  # type: ignore[misc] # noqa: PYI024

    def setup_context(
        ctx: Any, inputs: Any, output: core.Tensor, keyword_only_inputs: Any = None
    ) -> None:
        for part, registered_by in (("save", "save_for_backward"), ("backward", "backward")):
            if part not in parts:
                required = (
                    f"a '{registered_by}' function was required (unable to find a '{registered_by}' "
                    "registration; found a partial one)"
                )
                hint = "register both with impl_save_for_backward and impl_backward"
                _refuse(RuntimeError, definition.name, required, "none", hint)
        _mark(definition, ctx, parts.get("flags", ()), output)
        given = inputs_class(*inputs, **(keyword_only_inputs or {}))
        ctx._inputs = list(map(_kind, given))
        ctx.saved = parts["save"](given, output)

    return setup_context


def _mark(definition: CustomOperator, ctx: Any, flags: Sequence[bool], output: Any) -> None:
    """Take results without a gradient out of the history.

    Raises:
        RuntimeError: one that was said to have a gradient is no tensor.
    """
    results = output if isinstance(output, tuple) else (output,)
    for flag, result in zip(flags, results, strict=False):
        parts = result if isinstance(result, (list, tuple)) else (result,)
        if flag and not all(isinstance(part, core.Tensor) for part in parts):
            required = "a tensor was required where output_differentiability is True (a result is not a Tensor)"
            hint = "say False for results that are numbers"
            _refuse(RuntimeError, definition.name, required, type(result).__name__, hint)
        if not flag:
            ctx.mark_non_differentiable(*[part for part in parts if isinstance(part, core.Tensor)])


def _kind(value: object) -> Any:
    """None of a tensor, a length of a list of tensors, or `False` for what has no gradient."""
    if isinstance(value, core.Tensor):
        return None
    if (
        isinstance(value, (list, tuple))
        and value
        and all(isinstance(x, core.Tensor) for x in value)
    ):
        return len(value)
    return False


def _gradients(definition: CustomOperator, parts: dict[str, Any]) -> Callable[..., Any]:
    parameters = definition.schema.parameters
    tensors = [p.name for p in parameters if "Tensor" in str(p.type)]

    def run(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        found = parts["backward"](ctx, ctx.saved, *grads)
        if not isinstance(found, dict):
            required = (
                "a dictionary was required of impl_backward (expected its result to be a dict)"
            )
            _refuse(
                RuntimeError, definition.name, required, type(found).__name__, "names to gradients"
            )
        if set(found) != set(tensors):
            extra = [name for name in found if name not in tensors]
            if any(name in [p.name for p in parameters] for name in extra):
                required = (
                    "gradients of tensors only were required (got one for non-Tensor-like types)"
                )
                _refuse(RuntimeError, definition.name, required, extra, "leave the other names out")
            required = f"a dictionary was required to have keys {set(tensors)}"
            _refuse(
                RuntimeError,
                definition.name,
                required,
                set(found),
                "None where there is no gradient",
            )
        return tuple(
            _checked(definition, p.name, found.get(p.name), kind)
            for p, kind in zip(parameters, ctx._inputs, strict=True)
            if not p.keyword_only
        )

    return run


def _checked(definition: CustomOperator, name: str, grad: Any, kind: object) -> Any:
    """A gradient that fits its argument."""
    if kind is False or grad is None and kind is None:
        return grad
    if kind is None:
        if not isinstance(grad, core.Tensor):
            required = f"a gradient of '{name}' was required to be either None or a Tensor"
            _refuse(
                RuntimeError,
                definition.name,
                required,
                type(grad).__name__,
                "return the tensor itself",
            )
        return grad
    if not isinstance(grad, (list, tuple)):
        required = f"a gradient of '{name}' was required to be a list (of gradients)"
        _refuse(RuntimeError, definition.name, required, type(grad).__name__, "one for each tensor")
    if len(grad) != kind:
        required = f"a gradient of '{name}' was required to be a list of {kind} gradients"
        _refuse(RuntimeError, definition.name, required, len(grad), "one for each tensor")
    for part in grad:
        if part is not None and not isinstance(part, core.Tensor):
            required = f"gradients of '{name}' were required to be None or Tensor objects"
            _refuse(
                RuntimeError,
                definition.name,
                required,
                type(part).__name__,
                "None where there is none",
            )
    return list(grad)


def get_ctx() -> Any:
    """What a function for tensors without data asks for sizes that depend on data: see `library.get_ctx`."""
    # lazily: most operators have no such results
    from ..library.context import get_ctx as current

    return current()
