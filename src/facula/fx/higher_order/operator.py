"""Operators that take functions: the base class, and how one call reaches whoever has to deal with it.

Takes: functions and flat operands. Gives: `HigherOrderOperator`, and `ControlFlow`, the base of `cond`,
`while_loop`, `scan`,
`map` and `associative_scan`.
Keeps true: a call goes to the innermost function transform first, then to the tape, to a trace, to stand-ins
without elements,
and at last runs in Python. In a trace the call is one node, and each function a graph module of its own whose
inputs are all
that it reads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.autograd.transforms.functionalization import FunctionalLevel
from facula.core.errors import fail
from facula.core.nested import tensors_in
from facula.fx import _pytree as pytree
from facula.fx.fake_tensor import FakeTensor, FakeTensorMode, detect_fake_mode
from facula.fx.higher_order import capturing
from facula.fx.higher_order.errors import refuse
from facula.fx.names import prefix
from facula.fx.pre_dispatch import ProgramLevel
from facula.fx.proxy_tensor import disable_proxy_modes_tracing, get_proxy_mode

__all__ = ["OPERATORS", "ControlFlow", "HigherOrderOperator"]

Tensor = core.Tensor

#: name -> operator: what `ops.higher_order` has
OPERATORS: dict[str, HigherOrderOperator] = {}


class HigherOrderOperator:
    """An operator that takes functions; subclasses define `__call__`.

    Args:
        name: under which `facula.ops.higher_order` has it
        cacheable: kept for PyTorch's API; graphs with such operators are not kept on disk

    Raises:
        TypeError: the subclass does not define `__call__`.
    """

    namespace = _namespace = "higher_order"

    def __init__(self, name: str, *, cacheable: bool = False) -> None:
        if type(self).__call__ is HigherOrderOperator.__call__:
            fail(
                TypeError,
                type(self).__name__,
                "a subclass that defines __call__ was required",
                type(self).__name__,
                hint="def __call__(self, *args): return super().__call__(*args)",
            )
        self._name = self.__name__ = name
        self.__module__ = f"{prefix()}.ops.higher_order"
        self._rules: dict[Any, Callable[..., Any]] = {}
        OPERATORS[name] = self

    def name(self) -> str:
        """The operator's name."""
        return self._name

    @property
    def _opname(self) -> str:
        return self._name

    @property
    def _qualified_python_name(self) -> str:
        return f"{prefix()}.ops.higher_order.{self._name}"

    def py_impl(self, key: object) -> Callable[..., Any]:
        """A decorator: the function is what a dispatch key, a mode's class or a transform's does."""

        def put(function: Callable[..., Any]) -> Callable[..., Any]:
            self._rules[key] = function
            return function

        return put

    def fallthrough(self, key: object) -> None:
        """Kept for PyTorch's API: keys without a function are passed by."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The rule for the innermost mode that has one, else that for plain tensors."""
        for mode in reversed(core.DISPATCH_MODES):
            rule = self._rules.get(type(mode))
            if rule is not None:
                return rule(mode, *args, **kwargs)
        for key, rule in self._rules.items():
            if str(key).endswith("CompositeExplicitAutograd"):
                return rule(*args, **kwargs)
        return fail(
            NotImplementedError,
            self._name,
            "a rule for plain tensors was required",
            hint="@operator.py_impl(DispatchKey.CompositeExplicitAutograd) gives one",
        )

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"<higher order operator {self._name}>"

    def __deepcopy__(self, memo: object) -> HigherOrderOperator:
        return self

    def __reduce__(self) -> Any:
        return _named, (self._name,)


def _named(name: str) -> HigherOrderOperator:
    return OPERATORS[name]


class ControlFlow(HigherOrderOperator):
    """The base of this package's operators: arguments are numbers, then functions, then groups of operands."""

    #: how many arguments stand before the functions
    before = 0
    #: what their graphs are called in the graph of a trace
    functions: tuple[str, ...] = ()
    #: whether the last group of operands is what functions read from outside; else they are among the operands
    separate = True

    def __call__(self, *args: Any) -> Any:
        stack = core.interpreters()
        if stack:
            return self._under(stack[-1], args)
        mode = get_proxy_mode()
        if mode is not None and mode.enable_tracing:
            if core.is_grad_enabled():
                args = capturing.closed(self, mode, args)
                if any(x.requires_grad for x in tensors_in(args)):
                    return self.recorded(*args)
            return capturing.traced(self, mode, args)
        if is_fake(args):
            return self.faked(args)
        return self.run(*args)

    # ---------------------------------------------------------------- what operators define
    def run(self, *args: Any) -> tuple[Any, ...]:
        """The results, by Python."""
        raise NotImplementedError

    def recorded(self, *args: object) -> tuple[Any, ...]:
        """The results of a trace, with a history; the functions are graphs."""
        raise NotImplementedError

    def inputs_of(self, number: int, args: tuple[Any, ...]) -> list[Any]:
        """What the function of a number is called with, without what it reads from outside."""
        raise NotImplementedError

    def results_of(self, outputs: list[list[Any]], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Stand-ins for the results, from what the functions gave for stand-ins."""
        raise NotImplementedError

    def layouts(self, number: int, results: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Tensors that what a function gives has to lie like; None where any order will do."""
        return None

    # ---------------------------------------------------------------- parts of the arguments
    def functions_of(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The functions among the arguments."""
        return args[self.before : self.before + len(self.functions)]

    def with_functions(self, args: tuple[Any, ...], functions: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments with other functions."""
        return (*args[: self.before], *functions, *args[self.before + len(self.functions) :])

    def with_more(self, args: tuple[Any, ...], more: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments with further values that the functions read."""
        last = args[-1]
        return (*args[:-1], type(last)([*last, *more]) if more else last)

    # ---------------------------------------------------------------- transforms
    def _under(self, level: object, args: tuple[Any, ...]) -> Any:
        if isinstance(level, FunctionalLevel):
            return self._functional(level, args)
        if isinstance(level, ProgramLevel):
            return self._called_in_program(level, args)
        if hasattr(level, "size"):
            return self.mapped(level, args)
        return self.run(*args)

    def mapped(self, level: object, args: tuple[Any, ...]) -> Any:
        """The results under `vmap`: a loop of operators on the whole batch."""
        return self.run(*args)

    def _called_in_program(self, level: ProgramLevel, args: tuple[Any, ...]) -> Any:
        """One node, whose functions are recorded as they call; gradients come from the node."""
        functions = [level.entered_by(f) for f in self.functions_of(args)]
        recording = core.set_grad_enabled(False)
        try:
            return level.call_below(self, self.with_functions(args, functions), {})
        finally:
            core.set_grad_enabled(recording)

    def _functional(self, level: FunctionalLevel, args: tuple[Any, ...]) -> Any:
        functions = [_functionalised(self._name, f, level) for f in self.functions_of(args)]
        given = pytree.tree_map(level.value_of, self.with_functions(args, [None] * len(functions)))
        result = level.call_below(self, self.with_functions(given, functions), {})
        for each in result:
            if isinstance(each, Tensor):
                level.fresh(each)
        return result

    # ---------------------------------------------------------------- stand-ins
    def faked(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Results without elements."""
        outputs = []
        for number, function in enumerate(self.functions_of(args)):
            given = [*self.inputs_of(number, args), *(args[-1] if self.separate else ())]
            outputs.append(list(function(*given)))
        return self.results_of(outputs, args)


class _Nested(FunctionalLevel):
    """The level of a function inside of a functional program: what it reads from outside is read there."""

    def __init__(self, outer: Any) -> None:
        super().__init__(outer.views, outer.random)
        self.outer = outer

    def value_of(self, x: Any) -> Any:
        """The elements of `x`, here or outside."""
        found = super().value_of(x)
        return self.outer.value_of(x) if found is x else found


def _functionalised(name: str, function: Callable[..., Any], outer: FunctionalLevel) -> Any:
    """A function without writes; one that writes to what it is given is refused."""

    def inner(*args: object) -> Any:
        with _Nested(outer) as level:
            outputs = function(*args)
            single = not isinstance(outputs, (tuple, list))
            results = tuple([level.value_of(x) for x in ([outputs] if single else outputs)])
            written = list(level.written())
        if written:
            refuse(
                name,
                "functions that write to none of their inputs were required: "
                f"{capturing.label(function)} might be modifying the input!",
                [list(memory.tensor.shape) for memory in written],
                "work on x.clone()",
            )
        if not inner._may_alias:  # type: ignore[attr-defined]
            capturing.check_memory(name, function, args, results)
        return results[0] if single else results

    inner.__name__ = capturing.label(function)
    inner._single = getattr(function, "_single", False)  # type: ignore[attr-defined]
    inner._may_alias = getattr(function, "_may_alias", False)  # type: ignore[attr-defined]
    return inner


def is_fake(args: tuple[Any, ...]) -> bool:
    if any(isinstance(x, FakeTensor) for x in tensors_in(args)):
        return True
    return any(isinstance(mode, FakeTensorMode) for mode in core.DISPATCH_MODES)


def fresh(like: object, shape: Sequence[Any] | None = None) -> Any:
    """A stand-in like a value, or of another shape, in memory of its own."""
    if not isinstance(like, Tensor):
        return like
    with disable_proxy_modes_tracing():
        mode = detect_fake_mode([like])
        with mode if mode is not None else contextlib.nullcontext():
            if shape is None:
                return like.new_empty_strided(tuple(like.shape), tuple(like.stride()))
            return like.new_empty(tuple(shape))
