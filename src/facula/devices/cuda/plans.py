"""What a call becomes on a CUDA device: the loops of the operator, as kernels.

Takes: operators with arguments; copies; fills. Gives: `plan_of_call`, `plan_of_copy`, `plan_of_fill`: a `Plan`, which
runs on tensors of the same shapes, strides and dtypes; `Number`, the place of a number that may differ from call
to call.
Keeps true: what is computed comes from the operator's own definition, lowered to loops as for `facula.compile`; a
call that is no loops (`NotLoops`), or has a function that Triton does not have (`Unprintable`), has no plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from facula import core
from facula.codegen.triton import kernels
from facula.codegen.triton.kernels import Kernel
from facula.devices.cuda import scattering
from facula.lower.loops import elementwise, ir
from facula.lower.loops.graph import alive
from facula.lower.loops.lowering import Lowering
from facula.lower.loops.program import DTYPES
from facula.lower.loops.recording import meta_like
from facula.lower.loops.values import NotLoops, Value
from facula.ops.expr.node import node

__all__ = [
    "Geometry",
    "Number",
    "Plan",
    "plan_of_call",
    "plan_of_copy",
    "plan_of_fill",
    "without_elements",
]


class Geometry(NamedTuple):
    """A tensor among arguments: how it lies, and its number among the call's tensors."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    code: str
    number: int


class Number(NamedTuple):
    """A number among arguments that is told at the launch: its dtype, and its place among such numbers."""

    code: str
    number: int


class _CallLowering(Lowering):
    """Lowers one call, whose numbers may be arguments of kernels.

    Args:
        op: the operator
        arguments: in the order of its schema, with values where tensors stand
    """

    def __init__(self, op: Any = None, arguments: Sequence[Any] = ()) -> None:
        super().__init__()
        self.op, self.arguments = op, arguments

    def takes_launch(self, name: str) -> bool:
        """Whether a kernel is among those of `scattering`."""
        return scattering.rule_of(name) is not None

    def take_launch(
        self, name: str, values: Sequence[Any], ints: Sequence[int], target: Any
    ) -> Value | None:
        """A check of indices, or elements added where indices say."""
        rule = scattering.rule_of(name)
        assert rule is not None
        return rule(self, values, ints, target)

    def _pointwise(self, op: core.Op, args: Sequence[Any], result: core.Tensor) -> Value:
        if not any(isinstance(a, Number) for a in args):
            return super()._pointwise(op, args, result)
        if isinstance(result, (tuple, list)):
            raise NotLoops(f"{op.name} with several results")
        metas = [_meta(a) for a in args]
        given = [_as_value(a) if isinstance(a, Number) else a for a in args]
        code = result.dtype.code
        places = {p.name: a for p, a in zip(op.definition.schema.parameters, args, strict=True)}

        def attribute(name: str, value: Any, dtype: str) -> Any:
            place = places[name]
            if not isinstance(place, Number):
                return value
            # weak, as numbers are: it takes the dtype that it meets
            leaf = node("input", (), place.code, ir.Named("number", -1, place.number), True)
            return leaf if place.code == dtype else node("cast", (leaf,), dtype, None, True)

        rule = elementwise.pointwise(op, given, metas, code, self.equal_rounding, attribute)
        return Value(result.shape, result.stride(), code, rule=rule)


def _leaf(place: Number) -> Any:
    return ir.leaf(ir.Named("number", -1, place.number), place.code)


def _as_value(place: Number) -> Value:
    return Value((), (), place.code, rule=lambda positions: _leaf(place))


def _meta(given: Any) -> Any:
    """An argument without elements; a number that stands for all others of its kind."""
    if isinstance(given, Value):
        return meta_like(given)
    if isinstance(given, Number):
        return 2.75 if given.code == "f64" else 3
    return given


class Step(NamedTuple):
    """Kernels or a call, in a plan."""

    kernels: list[tuple[Any, list[int]]]
    call: ir.Extern | None


class Plan:
    """Kernels in order, with the memory that they work on.

    `inputs` are the buffers of the call's tensors; `made` those that are allocated, with shape, strides and dtype;
    `results` are their numbers in the structure of the call's results; `several` whether that is a tuple.
    """

    def __init__(self, inputs: Sequence[ir.Buffer], several: bool) -> None:
        self.places = {buffer: k for k, buffer in enumerate(inputs)}
        self.given, self.several = len(inputs), several
        self.made: list[tuple[tuple[int, ...], tuple[int, ...], Any]] = []
        self.steps: list[Step] = []
        self.results: list[int] = []
        #: results that are views of arguments: number of the tensor, shape, strides, offset
        self.views: list[Any] | None = None
        #: of a graph: its results as views, in whatever structure they have
        self.outputs: Any = None

    def place(self, buffer: ir.Buffer) -> int:
        """The number of a buffer, which is to be allocated if it is new."""
        found = self.places.get(buffer)
        if found is None:
            found = self.places[buffer] = self.given + len(self.made)
            self.made.append((buffer.shape, buffer.strides, DTYPES[buffer.code]))
        return found

    def add(self, printed: Sequence[Kernel], ready: Callable[[Kernel], Any]) -> None:
        """Kernels of one step."""
        found = []
        for kernel in printed:
            slots = [self.place(buffer) for buffer in kernel.buffers]
            found.append((ready(kernel), slots))
        self.steps.append(Step(found, None))

    def fill_in(self, steps: Sequence[Any], ready: Callable[[Kernel], Any]) -> Plan:
        """Print the steps of a lowered call."""
        for step in steps:
            if isinstance(step, ir.Extern):
                for buffer in step.results:
                    self.place(buffer)
                self.steps.append(Step([], step))
            elif isinstance(step, ir.Reduction):
                self.add(kernels.reduction(step), ready)
            elif step.variable.extent:
                self.add([kernels.elementwise(step, isinstance(step, scattering.Adding))], ready)
        return self


def _inputs(build: Lowering, given: Any, found: dict[int, ir.Buffer]) -> Any:
    """Arguments with values where tensors stand."""
    if isinstance(given, Geometry):
        if given.code not in ir.REGISTER:
            raise NotLoops(f"the dtype {given.code}")
        buffer = found.get(given.number)
        if buffer is None:
            buffer = build.buffer(given.code, given.shape, given.strides, "input")
            found[given.number] = buffer
        view = ir.View(buffer, given.shape, given.strides, 0, given.code)
        return Value(given.shape, given.strides, given.code, view=view)
    if isinstance(given, Number):
        return given
    if isinstance(given, (tuple, list)):
        return type(given)(_inputs(build, item, found) for item in given)
    if isinstance(given, core.device):
        return core.device("meta")
    return given


def without_elements(given: Any) -> Any:
    """Arguments as tensors without elements, and numbers."""
    if isinstance(given, Geometry):
        dtype = DTYPES[given.code]
        return core.empty_strided(given.shape, given.strides, dtype=dtype, device="meta")
    if isinstance(given, Number):
        return _meta(given)
    if isinstance(given, (tuple, list)):
        return type(given)(without_elements(item) for item in given)
    if isinstance(given, core.device):
        return core.device("meta")
    return given


def plan_of_call(
    op: core.Op, given: tuple[Any, ...], count: int, ready: Callable[[Kernel], Any]
) -> Plan:
    """The plan of an operator's call.

    Args:
        op: the operator
        given: its arguments in the order of the schema, `Geometry` where tensors stand, `Number` where numbers may
            differ
        count: how many tensors there are
        ready: prepares a kernel

    Raises:
        NotLoops, Unprintable: there is none.
    """
    definition = op.definition
    if definition.dynamic or definition.random:
        raise NotLoops(f"{op.name}: results that depend on more than shapes")
    positional, keywords = definition.trim(without_elements(given))
    metas = op(*positional, **keywords)
    build, found = _CallLowering(op), {}  # type: ignore[var-annotated]
    arguments = build.arguments = _inputs(build, given, found)
    views = _views(metas, positional, given)
    if views is not None:
        plan = Plan([], isinstance(metas, (tuple, list)))
        plan.views = views
        return plan
    try:
        values = _called(build, op, arguments, metas)
    except NotLoops as reason:
        if _LOOKED not in str(reason):
            raise
        values = _in_double(build, op, given, arguments)
    several = isinstance(metas, (tuple, list))
    pairs = list(zip(values, metas, strict=True)) if several else [(values, metas)]
    views = [_stored(build, value, meta) for value, meta in pairs]
    inputs = [found.get(k) or ir.Buffer(f"unread{k}", "u8", (), (), "input") for k in range(count)]
    plan = Plan(inputs, several)
    plan.fill_in(alive(build.steps, tuple(views)), ready)
    plan.results = [plan.place(view.buffer) for view in views]
    return plan


def _views(metas: Any, positional: Sequence[Any], given: Any) -> list[Any] | None:
    """Results that are views of an argument, as (its number, shape, strides, offset); None where they are not."""
    results = list(metas) if isinstance(metas, (tuple, list)) else [metas]
    if not results or not all(isinstance(m, core.Tensor) and m._is_view() for m in results):
        return None
    numbers = {
        id(a): g.number
        for a, g in zip(positional, given, strict=False)
        if isinstance(a, core.Tensor) and isinstance(g, Geometry)
    }
    found = [(numbers.get(id(m._base)), m.shape, m.stride(), m.storage_offset()) for m in results]
    return None if any(number is None for number, *_ in found) else found


#: what a function says that looks at its own results, whether float32 was wide enough for them
_LOOKED = "[passed]"


def _called(build: Lowering, op: core.Op, arguments: Any, metas: Any) -> Any:
    positional, named = op.definition.trim(arguments)
    return build.call(op, positional, named, metas)


def _in_double(build: Lowering, op: core.Op, given: Any, arguments: Any) -> Any:
    """A call in float64, where nothing needs to be looked at; float32 costs no more to read."""
    narrow = [isinstance(g, Geometry) and g.code in ("f32", "bf16") for g in given]
    wide_given = tuple(
        g._replace(code="f64") if n else g for g, n in zip(given, narrow, strict=True)
    )
    wide = tuple(
        build.cast_like(value, without_elements(g)) if n else value
        for value, g, n in zip(arguments, wide_given, narrow, strict=True)
    )
    positional, named = op.definition.trim(without_elements(wide_given))
    metas = op(*positional, **named)
    values = _called(build, op, wide, metas)
    positional, named = op.definition.trim(without_elements(given))
    wanted = op(*positional, **named)
    if isinstance(wanted, (tuple, list)):
        return tuple(build.cast_like(v, m) for v, m in zip(values, wanted, strict=True))
    return build.cast_like(values, wanted)


def _stored(build: Lowering, value: Any, meta: Any) -> ir.View:
    """A result in memory of its own, in the order that it has on the processor."""
    if not isinstance(value, Value) or value.shape != tuple(meta.shape):
        raise NotLoops("a result of another shape")
    if value.code != meta.dtype.code:
        raise NotLoops("a result of another dtype")
    view = value.stored()
    own = view is not None and view.whole and view.buffer.role == "result"
    if not own or (value.numel and value.strides != tuple(meta.stride())):
        fresh = Value(meta.shape, meta.stride(), value.code, rule=value.read)
        if not fresh.dense:
            raise NotLoops("a result with gaps in memory")
        return build.realize(fresh)
    assert view is not None
    return view


def plan_of_copy(target: Geometry, source: Geometry, ready: Callable[[Kernel], Any]) -> Plan:
    """The plan that copies elements into a tensor: tensors are the target and the source."""
    build, found = _CallLowering(), {}  # type: ignore[var-annotated]
    into, value = _inputs(build, target, found), _inputs(build, source, found)
    meta = without_elements(target)
    build.store_into(build.cast_like(value, meta), into.view.buffer, target.strides, 0)
    return Plan([found[0], found[1]], False).fill_in(build.steps, ready)


def plan_of_fill(target: Geometry, number: Any, ready: Callable[[Kernel], Any]) -> Plan:
    """The plan that sets all elements of a tensor to a number, or to one that is told at the launch."""
    build, found = _CallLowering(), {}  # type: ignore[var-annotated]
    into = _inputs(build, target, found)
    if isinstance(number, Number):
        element = elementwise.converted(_leaf(number), target.code)
    else:
        element = elementwise.number(number, target.code)
    value = Value(target.shape, target.strides, target.code, rule=lambda positions: element)
    build.store_into(value, into.view.buffer, target.strides, 0)
    return Plan([found[0]], False).fill_in(build.steps, ready)
