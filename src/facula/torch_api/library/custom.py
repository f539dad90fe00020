"""Operators that users define by functions: PyTorch's `custom_op` and `Library`.

Takes a schema, functions by device, a function for tensors without data, and a gradient.
Gives `CustomOperator`, a definition in the operator table like any other: reached as
`facula.ops.<namespace>.<name>`, seen by overrides, modes and transforms.
Keeps true: functions run unrecorded and count as one operation; without a registered gradient the
backward pass is an error that says so; what an operator writes to is known to the version counters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from facula import core
from facula.autograd.function import Function
from facula.core.errors import fail
from facula.core.nested import tensors_in
from facula.fx.fake_tensor import UnsupportedOperatorException
from facula.ops.table.definition import Definition
from facula.ops.table.registry import TABLE, register
from facula.ops.table.schema import parse
from facula.ops.table.tags import Tag

from .fallback import unregistered
from .schemas import translate

__all__ = ["CustomOperator", "find", "make"]

_META = "meta"
#: results that share memory with an argument, as a schema says it
_VIEWED = re.compile(r"Tensor\([a-z]")
#: operators whose functions for tensors without data run now, the innermost last
RUNNING: list[str] = []
EVERY_DEVICE = "default"


class _MissingFake(UnsupportedOperatorException):
    """An operator without a function for tensors without data."""

    def __init__(self, text: str) -> None:
        RuntimeError.__init__(self, text)
        self.func = None


class CustomOperator(Definition):
    """The definition of an operator whose parts are registered one by one."""

    kind = "custom"

    def __init__(self, qualname: str, schema: str) -> None:
        text, self.mutated = translate(qualname, schema)
        #: arguments and results as the program wrote them, with the memory that they share
        self.given_schema = schema[schema.index("(") :]
        #: whether the schema says that results are views of arguments
        self.views = bool(_VIEWED.search(schema.rpartition("->")[2]))
        #: whether the function for every device serves tensors without data, too
        self.explicit = False
        super().__init__(
            parse(text), None, {"names": (), "inplace": False, "out": False, "autocast": ""}
        )
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.disabled: set[str] = set()
        self.tags: tuple[Tag, ...] = ()
        #: whether results that share memory with arguments, or each other, are refused
        self.checks_results = False
        self.composite: Callable[..., Any] | None = None
        self.gradient: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None
        self.origin: Callable[..., Any] | None = None
        #: the key under which a function that records itself was registered
        self.autograd_key = ""

    @property
    def doc(self) -> str:
        """The docstring of the first function, with the schema above it."""
        described = (getattr(self.origin, "__doc__", None) or "").strip()
        return f"{self.schema.text}\n\n{described}"

    def complete(self, operator: core.Op) -> None:
        """Give the core what it needs to run the operator."""
        operator.set_impl(self.run, None)
        self.operator = operator
        self.set_gradient()

    def set_gradient(self) -> None:
        """Decides how a recorded call runs: after each registration that bears on it."""
        if self.composite is not None and self.gradient is None:
            self.operator.autograd = lambda *args: self.call(self.composite, args)
            return
        whole = refused(self) if self.mutated else recorded(self)
        falls_back = self.gradient is None and not self.checks_results
        self.operator.autograd = unregistered(self, whole) if falls_back else whole

    def split(
        self, args: tuple[Any, ...], whole: bool = True
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments as the user's functions take them: positional, then keyword-only ones.

        All of them, or without those that are as their (trailing) defaults.
        """
        pairs = list(zip(args, self.schema.parameters, strict=True))
        positional = tuple(self.given(a, p) for a, p in pairs if not p.keyword_only)
        named = {p.name: self.given(a, p) for a, p in pairs if p.keyword_only}
        if whole:
            return positional, named
        told, told_by_name = self.trim(args)
        return positional[: len(told)], {k: v for k, v in named.items() if k in told_by_name}

    def functional(self) -> Any:
        """The operator that writes to copies, and gives them behind its own results.

        Raises:
            NotImplementedError: it writes to a list of tensors, or to what may be None.
        """
        name = (
            f"{self.name}__functional"  # two underscores: a program may have one of the simple name
        )
        if name not in TABLE:
            made = CustomOperator(name, _functional_schema(self))
            register(made)
            for device in (EVERY_DEVICE, _META):
                made.kernels[device] = _on_copies(self)
        return TABLE[name]

    @staticmethod
    def given(value: object, parameter: Any) -> Any:
        """An argument as users expect it: lists as lists."""
        return list(value) if parameter.is_list and isinstance(value, tuple) else value

    def call(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Calls one of the user's functions."""
        positional, keywords = self.split(args)
        return function(*positional, **keywords)

    def run(self, *args: Any) -> Any:
        """Runs the function for the arguments' device."""
        device = self.device_of(args)
        function = self.kernels.get(device)
        if device in self.disabled:
            function = None
        if function is None and (device != _META or self.explicit):
            function = self.kernels.get(EVERY_DEVICE)
        if function is None:
            function = self.composite or self.missing(device)
        if device == _META:
            RUNNING.append(self.name)
            try:
                result = self.call(function, args)
            finally:
                RUNNING.pop()
        else:
            result = self.call(function, args)
            self.count_writes(args)
            if self.checks_results:
                self.refuse_shared(args, result)
        if isinstance(result, list):
            return tuple(result)
        return result

    def device_of(self, args: tuple[Any, ...]) -> str:
        """The device type that decides: of the tensors, else of a device argument, else the CPU."""
        tensors = tensors_in(args)
        types = {"meta" if t.is_meta else t.device.type for t in tensors}
        if not types:
            types = {a.type for a in args if isinstance(a, core.device)}
        if _META in types:
            return _META
        others = types - {"cpu"}
        return others.pop() if others else "cpu"

    def missing(self, device: str) -> Any:
        """Says what has to be registered for a device."""
        if device == _META and not self.schema.results:
            return _nothing  # what only writes has nothing to allocate
        if device == _META:
            required = (
                "a function for tensors without data was required (there was no fake impl or Meta "
                "kernel: no fake impl registered)"
            )
            hint = f"facula.library.register_fake({self.name!r})"
            space, _, name = self.name.partition("::")
            overload = name if "." in name else f"{name}.default"
            got = f"{space}.{overload} with {sorted(self.kernels) or 'none'}"
            fail(_MissingFake, self.name, required, got, hint)
        else:
            tensors = any(p.is_tensor for p in self.schema.parameters)
            inputs = "" if tensors else " and no Tensor inputs"
            required = (
                f"a kernel for the device '{device}' was required: could not run (there was no "
                f"{device} impl registered{inputs})"
            )
            hint = f"facula.library.register_kernel({self.name!r}, {device!r})"
        fail(NotImplementedError, self.name, required, sorted(self.kernels) or "none", hint)

    def refuse_shared(self, args: tuple[Any, ...], result: object) -> None:
        """Raise where a result has the memory of an argument or of another result."""
        seen = {core.storage_key(t) for t in tensors_in(args) if t.numel()}
        for tensor in tensors_in(result):
            key = core.storage_key(tensor) if tensor.numel() else None
            if key in seen:
                fail(
                    RuntimeError,
                    self.name,
                    "results with memory of their own were required (the output of this custom "
                    "operator must not also be an input to it, and may not alias any inputs or "
                    "other returns)",
                    "a result that shares memory",
                    hint="return x.clone() in place of x, or leave the result out",
                )
            if key is not None:
                seen.add(key)

    def count_writes(self, args: tuple[Any, ...]) -> None:
        """Tells the version counters about arguments that were written to."""
        for value, parameter in zip(args, self.schema.parameters, strict=True):
            if parameter.name in self.mutated and value is not None:
                tensors = (value,) if isinstance(value, core.Tensor) else value
                core.increment_version([t for t in tensors if t is not None])


def _functional_schema(definition: CustomOperator) -> str:
    """The schema of the form that writes nothing."""
    parameters = {p.name: p for p in definition.schema.parameters}
    for name in definition.mutated:
        if parameters[name].is_list or parameters[name].optional:
            required = "one tensor was required of every argument that a traced operator writes to"
            got = f"{'a list' if parameters[name].is_list else 'what may be None'} for {name}"
            hint = "write to each tensor by a call of its own"
            fail(NotImplementedError, definition.name, required, got, hint)
    head, _, tail = definition.schema.text.rpartition("->")
    own = tail.strip().removeprefix("(").removesuffix(")").strip()
    results = [own] if own else []
    results += ["Tensor"] * len(definition.mutated)
    listed = ", ".join(results)
    alone = len(definition.schema.results) + len(definition.mutated) == 1
    return f"{head[head.index('(') :]} -> {listed if alone else f'({listed})'}"


def _on_copies(definition: CustomOperator) -> Callable[..., Any]:
    """What the form that writes nothing does: the operator, on copies of what it writes to."""

    def run(*args: Any, **kwargs: Any) -> Any:
        positional = [p.name for p in definition.schema.parameters if not p.keyword_only]
        given = {**dict(zip(positional, args, strict=True)), **kwargs}
        copies = {name: given[name].clone() for name in definition.mutated}
        given |= copies
        operator: Any = definition.operator
        result = operator(*[given.pop(name) for name in positional], **given)
        if len(definition.schema.results) < 2:
            result = (result,) if definition.schema.results else ()
        every = (*result, *copies.values())
        return every if len(every) > 1 else every[0]

    return run


def _nothing(*args: object, **kwargs: object) -> None:
    """What an operator without results gives for tensors without data."""


def _flatten(args: tuple[Any, ...]) -> tuple[list[Any], list[int]]:
    """Arguments with tensor lists spread out, and the length of each list (-1: no list of tensors)."""
    flat: list[Any] = []
    lengths: list[int] = []
    for value in args:
        spread = isinstance(value, (tuple, list)) and bool(tensors_in(value))
        lengths.append(len(value) if spread else -1)
        flat += list(value) if spread else [value]
    return flat, lengths


def _unflatten(flat: tuple[Any, ...], lengths: list[int]) -> list[Any]:
    rest = iter(flat)
    return [
        next(rest) if length < 0 else tuple(next(rest) for _ in range(length)) for length in lengths
    ]


def recorded(definition: CustomOperator) -> Callable[..., Any]:
    """The operator as one node of the history, with the gradient that was registered."""

    def forward(ctx: Any, lengths: list[int], *values: object) -> Any:
        ctx.lengths = lengths
        inputs = tuple(_unflatten(values, lengths))
        positional, keywords = definition.split(inputs)
        result = definition.operator(*positional, **keywords)
        _set_up(definition, ctx, inputs, result)
        return result

    def backward(ctx: Any, *grads: Any) -> Any:
        return None, *_gradients(definition, ctx, grads, ctx.lengths)

    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    function: Any = type(definition.name.replace("::", "_"), (Function,), methods)

    def run(*args: Any) -> Any:
        flat, lengths = _flatten(args)
        return function.apply(lengths, *flat)

    return run


def _set_up(
    definition: CustomOperator, ctx: object, inputs: tuple[Any, ...], result: object
) -> None:
    if definition.setup_context is None:
        return
    positional, keywords = definition.split(inputs)
    if keywords:
        definition.setup_context(
            ctx=ctx, inputs=positional, keyword_only_inputs=keywords, output=result
        )
    else:
        definition.setup_context(ctx=ctx, inputs=positional, output=result)


def _gradients(
    definition: CustomOperator, ctx: object, grads: tuple[Any, ...], lengths: list[int]
) -> tuple[Any, ...]:
    """The user's gradients, one for each argument, lists spread out."""
    if definition.gradient is None:
        required = "a registered gradient was required (no autograd formula was registered)"
        hint = f"facula.library.register_autograd({definition.name!r}, backward)"
        fail(RuntimeError, definition.name, required, "none", hint)
    returns_list = definition.schema.text.rstrip().endswith("[]")
    found = definition.gradient(ctx, *([list(grads)] if returns_list else grads))
    found = found if isinstance(found, tuple) else (found,)
    parameters = definition.schema.parameters
    wanted = sum(not p.keyword_only for p in parameters)
    if len(found) != wanted:
        required = f"{wanted} gradients from the registered backward were required"
        fail(
            RuntimeError,
            definition.name,
            required,
            len(found),
            hint="return None for arguments without a gradient",
        )
    rest = iter(found)
    by_argument = [None if p.keyword_only else next(rest) for p in parameters]
    flat: list[Any] = []
    for gradient, length in zip(by_argument, lengths, strict=True):
        flat += [gradient] if length < 0 else list(gradient or [None] * length)
    return tuple(flat)


def refused(definition: CustomOperator) -> Callable[..., Any]:
    """What becomes of a recorded call of an operator that writes: its effect would have no gradient."""

    def run(*args: Any) -> Any:
        required = (
            "tensors that do not require grad were required, since it writes to its arguments"
        )
        names = ", ".join(definition.mutated)
        got = (
            f"one that does (gradients would be lost, as through an in-place operation on {names})"
        )
        fail(RuntimeError, definition.name, required, got, "call it under no_grad(), or detach()")

    return run


def make(qualname: str, schema: str) -> CustomOperator:
    """Defines an operator without functions.

    Raises:
        ValueError: the name has no namespace, or exists.
    """
    namespace, colons, name = qualname.partition("::")
    base, dot, overload = name.partition(".")
    if dot and overload in ("", "default"):
        qualname = f"{namespace}::{base}"
    words = [namespace, base, overload] if dot and overload else [namespace, base]
    if not colons or not all(word.isidentifier() for word in words):
        required = "a name 'namespace::name' was required (not of the form)"
        fail(ValueError, "library", required, repr(qualname), hint="for example 'mylib::scale'")
    if namespace in ("aten", "prim", "prims", "facula"):
        fail(
            ValueError,
            "library",
            "a namespace of one's own was required",
            repr(namespace),
            hint="for example 'mylib::scale'",
        )
    definition = CustomOperator(qualname, schema)
    register(definition)
    return definition


def find(qualname: object) -> CustomOperator:
    """The definition of an operator given by its name, itself, or its packet.

    Raises:
        RuntimeError: there is no such operator, or it is none of the user's.
    """
    definition = getattr(qualname, "__wrapped_definition__", None)
    definition = definition or getattr(qualname, "_definition", None)
    if definition is None:
        operator = TABLE.get(str(qualname).rpartition(".default")[0] or str(qualname))
        if operator is None:
            hint = "define it first with custom_op or facula.library.define"
            fail(
                RuntimeError, "library", "an operator that is defined was required", qualname, hint
            )
        definition = operator.__wrapped_definition__
    if not isinstance(definition, CustomOperator):
        required = "an operator made by custom_op, define or Library was required"
        fail(
            RuntimeError,
            "library",
            required,
            definition.name,
            hint="operators of facula itself are complete; define one of your own",
        )
    return definition
