"""`while_loop`: a function applied to a state as long as a condition holds.

Takes: two functions of the state, and the state. Gives: the last state; `while_loop_stack_output` gives the
states of all rounds.
Keeps true: the state keeps its structure, shapes and dtypes; in a trace condition and body are graphs of one node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.autograd import Function
from facula.core.errors import fail
from facula.fx import _pytree as pytree
from facula.fx.fake_tensor import FakeTensorMode
from facula.fx.higher_order.errors import refuse
from facula.fx.higher_order.operator import ControlFlow, fresh
from facula.fx.higher_order.slices import check_callable, stacked
from facula.fx.higher_order.trees import Flat, differentiable, gradient_of
from facula.ops.table.registry import F

__all__ = ["while_loop", "while_loop_op", "while_loop_stack_output"]

Tensor = core.Tensor


class WhileLoopOp(ControlFlow):
    """The operator of `while_loop`: condition, body, carried inputs, what both read besides."""

    functions = ("while_loop_cond_graph", "while_loop_body_graph")

    def __call__(
        self, cond_fn: Any, body_fn: Any, carried_inputs: Any, additional_inputs: Any = ()
    ) -> Any:
        carried, more = carried_inputs, additional_inputs
        _check_arguments(cond_fn, body_fn, carried, more)
        if not isinstance(cond_fn, _Condition):
            cond_fn = _Condition(cond_fn)
        return super().__call__(cond_fn, body_fn, tuple(carried), tuple(more))

    def run(self, cond_fn: Any, body_fn: Any, carried: Any, more: Any = ()) -> tuple[Any, ...]:
        """The last state."""
        state = tuple(carried)
        while _holds(cond_fn(*state, *more)):
            state = _next(state, body_fn(*state, *more))
        return state

    def inputs_of(self, number: int, args: tuple[Any, ...]) -> list[Any]:
        """The state; numbers in it are unknown while the loop runs."""
        env = _environment(args)
        given = []
        for x in args[2]:
            if not isinstance(x, Tensor) and x is not None and type(x) is not bool:
                if env is None:
                    _numbers(x)
                x = env.create_unbacked_symint()
            given.append(x)
        return given

    def results_of(self, outputs: list[list[Any]], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """A state like the first."""
        state = args[2]
        made = outputs[1]
        _check_state(state, made)
        found = []
        for x in state:
            if isinstance(x, Tensor):
                found.append(fresh(x))
            else:
                found.append(_environment(args).create_unbacked_symint())
        return tuple(found)

    def recorded(self, *args: Any) -> tuple[Any, ...]:
        """The gradient is a loop over the states of all rounds, last first."""
        cond_fn, body_fn, carried, more = args
        result = _LoopGradient.apply(self, cond_fn, body_fn, len(carried), *carried, *more)
        return result if isinstance(result, tuple) else (result,)

    def layouts(self, number: int, results: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The body gives a state like the first."""
        return results if number == 1 else None


class StackedLoopOp(WhileLoopOp):
    """`while_loop` that gives the states of all rounds, stacked."""

    def run(self, cond_fn: Any, body_fn: Any, carried: Any, more: Any = ()) -> tuple[Any, ...]:
        """The states of all rounds."""
        state, rows = tuple(carried), []
        while _holds(cond_fn(*state, *more)):
            state = _next(state, body_fn(*state, *more))
            rows.append(state)
        return stacked(rows) if rows else tuple([x.new_empty((0, *x.shape)) for x in state])

    def results_of(self, outputs: list[list[Any]], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """As many rows as there will be rounds."""
        found = super().results_of(outputs, args)
        env = _environment(args)
        if env is None:
            refuse(self.name(), "sizes that may be unknown were required in a trace of all rounds",
                   "a trace without symbols", "trace with tracing_mode='symbolic'")  # fmt: skip
        rounds = env.create_unbacked_symint(0)
        return tuple([fresh(x, (rounds, *x.shape)) for x in found])

    def layouts(self, number: int, results: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Any order will do."""
        return None


while_loop_op = WhileLoopOp("while_loop")
while_loop_stack_output = StackedLoopOp("while_loop_stack_output")


def _environment(args: tuple[Any, ...]) -> Any:
    """The symbols of a trace; None where it has none."""
    modes = [getattr(x, "fake_mode", None) for x in pytree.tree_leaves(args[2:])]
    active = [mode for mode in core.DISPATCH_MODES if isinstance(mode, FakeTensorMode)]
    found = [getattr(mode, "shape_env", None) for mode in (*modes, *active)]
    return next((env for env in found if env is not None), None)


class _Condition:
    """A condition as a function that gives one result."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self._single = True
        self.__name__ = getattr(function, "__name__", "cond_fn")

    def __call__(self, *args: Any) -> Any:
        found = self.function(*args)
        if isinstance(found, (tuple, list)) and len(found) == 1:
            found = found[0]
        if isinstance(found, Tensor) and (found.dtype is not core.bool_ or found.numel() != 1):
            _no_condition(found)
        return found


class _LoopGradient(Function):
    """`while_loop` on the tape of a trace."""

    @staticmethod
    def forward(ctx: Any, op: core.Op, cond_fn: Any, body_fn: Any, count: int, *values: Any) -> Any:
        """The last state; the states before each round are kept."""
        carried, more = values[:count], values[count:]
        rows = while_loop_stack_output(cond_fn, body_fn, carried, more)
        ctx.save_for_backward(*[x for x in (*values, *rows) if isinstance(x, Tensor)])
        ctx.rest = cond_fn, body_fn, count, values
        at = F.full((1,), rows[0].shape[0], dtype=core.int64)
        states = [F.cat([x.unsqueeze(0), y], 0) for x, y in zip(carried, rows, strict=True)]
        last = [x.index_select(0, at).squeeze(0) for x in states]
        ctx.mark_non_differentiable(*[x for x in last if not differentiable(x)])
        return tuple(last)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """A loop back through the rounds."""
        _, body_fn, count, values = ctx.rest
        saved = ctx.saved_tensors
        carried, more, rows = saved[:count], saved[count : len(values)], saved[len(values) :]
        states = [F.cat([x.unsqueeze(0), y], 0) for x, y in zip(carried, rows, strict=True)]
        wanted = [differentiable(x) for x in values]
        pull = gradient_of(body_fn, wanted)
        first = [g for g, w in zip(grads, wanted, strict=False) if w]
        sums = [F.zeros_like(x) for x, w in zip(more, wanted[count:], strict=True) if w]
        at = F.full((), rows[0].shape[0] - 1, dtype=core.int64)

        def condition(at: Tensor, *state: object) -> Any:
            return at >= 0

        def body(at: Tensor, *state: Any) -> Any:
            given, more_of = state[: len(first)], state[len(first) : len(first) + len(sums)]
            rest = state[len(first) + len(sums) :]
            round_ = [x.index_select(0, at.reshape(1)).squeeze(0) for x in rest[:count]]
            found = pull(*round_, *rest[count:], *given)
            added = [a + b for a, b in zip(more_of, found[len(first) :], strict=True)]
            return (at - 1, *found[: len(first)], *added)

        result = iter(while_loop_op(condition, body, (at, *first, *sums), (*states, *more))[1:])
        return (None, None, None, None, *[next(result) if w else None for w in wanted])


def while_loop(
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    carried_inputs: tuple | list,
    additional_inputs: tuple = (),
) -> Any:
    """``state = body_fn(*state)`` while ``cond_fn(*state)`` holds.

    Args:
        cond_fn: takes the state, gives a bool or a tensor with one
        body_fn: takes the state, gives the next one
        carried_inputs: the first state
        additional_inputs: what both functions are given behind it

    Raises:
        RuntimeError: the condition is no bool, or the state no tuple.

    Example:
        >>> facula.while_loop(lambda x: x < 20, lambda x: (x * 2,), (facula.tensor(3),))
        (tensor(24),)
    """
    _check_arguments(cond_fn, body_fn, carried_inputs, additional_inputs)
    count = len(pytree.tree_leaves(tuple(carried_inputs)))
    leaves, spec = pytree.tree_flatten((*carried_inputs, *additional_inputs))
    condition, body = Flat(cond_fn, spec, single=True), Flat(body_fn, spec)
    state_spec = pytree.tree_structure(tuple(carried_inputs))

    def checked(*state: object) -> tuple[Any, ...]:
        result = body(*state)
        if isinstance(body.made.type, type) and body.made.type is list:
            body.made = pytree.tree_structure(tuple(pytree.tree_unflatten(list(result), body.made)))
        if body.made != state_spec:
            _other_state(body.made, state_spec)
        return result

    checked.__name__ = getattr(body_fn, "__name__", "body_fn")
    state = while_loop_op(condition, checked, tuple(leaves[:count]), tuple(leaves[count:]))
    return pytree.tree_unflatten(list(state), state_spec)


def _check_arguments(cond_fn: object, body_fn: object, carried: object, more: object) -> None:
    check_callable("while_loop", cond_fn, "cond_fn")
    check_callable("while_loop", body_fn, "body_fn")
    for name, value in (("carried_inputs", carried), ("additional_inputs", more)):
        if not isinstance(value, (tuple, list)):
            fail(
                RuntimeError,
                "while_loop",
                f"a tuple of inputs was required ({name} must be a tuple or list)",
                type(value).__name__,
                hint="pass (x,) for a single one",
            )


def _next(state: tuple[Any, ...], made: tuple[Any, ...]) -> tuple[Any, ...]:
    if not isinstance(made, (tuple, list)) or len(made) != len(state):
        got = len(made) if isinstance(made, (tuple, list)) else type(made).__name__
        fail(
            RuntimeError,
            "while_loop",
            f"{len(state)} values were required of body_fn (body_fn should return a tuple of the "
            "carried inputs)",
            got,
            hint="return one for each input, changed or not",
        )
    return tuple(made)


def _other_state(got: object, wanted: Any) -> None:
    fail(
        RuntimeError,
        "while_loop",
        f"{wanted.num_leaves} values were required of body_fn, in the containers of the state (body_fn "
        "should return a tuple of the carried inputs)",
        got,
        hint="return one for each input, changed or not",
    )


def _check_state(state: tuple[Any, ...], made: list[Any]) -> None:
    if len(state) != len(made):
        refuse("while_loop", f"{len(state)} values were required of body_fn (body_fn should return a tuple of the "
               "carried inputs)", len(made), "return one for each input, changed or not")  # fmt: skip
    for number, (a, b) in enumerate(zip(state, made, strict=True)):
        tensors = isinstance(a, Tensor) and isinstance(b, Tensor)
        if (
            tensors
            and a.dtype is b.dtype
            and a.dim() == b.dim()
            and tuple(a.shape) == tuple(b.shape)
        ):
            continue
        if not isinstance(a, Tensor) and not isinstance(b, Tensor):
            continue
        refuse(
            "while_loop",
            f"a state like the one before was required of body_fn for input {number} (Expected carried_inputs and "
            "body_output to have same metadata but found)",
            [getattr(x, "dtype", type(x).__name__) for x in (a, b)]
            + [list(x.shape) for x in (a, b) if isinstance(x, Tensor)],
            "convert what body_fn returns",
        )


def _numbers(x: object) -> None:
    refuse(
        "while_loop",
        "tensors were required as state in a trace without symbols (carried ints become unbacked sizes)",
        x,
        "pass tensor(number), or trace with symbols",
    )


def _holds(condition: Tensor) -> Any:
    """The condition, as Python takes it."""
    if isinstance(condition, (tuple, list)) and len(condition) == 1:
        condition = condition[0]
    fits = isinstance(condition, bool) or not isinstance(condition, int)
    if isinstance(condition, Tensor):
        fits = condition.dtype is core.bool_ and condition.numel() == 1
    if not fits:
        _no_condition(condition)
    return condition


def _no_condition(condition: Tensor) -> None:
    fail(
        RuntimeError,
        "while_loop",
        "a bool, or a tensor with one, was required of cond_fn (cond_fn must return a boolean scalar tensor)",
        condition,
        hint="compare, or reduce with any() or all()",
    )
