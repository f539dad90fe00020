"""The level of `functionalize`: programs without writes.

Takes calls of operators, in-place forms and methods.  Gives the same results from operators that
write nothing: a write makes a new value, and what shares memory with the written tensor gets its
elements from that value when it is next read.
Keeps true: a tensor object of the program stays what it was made as; its elements are looked up
here (`value_of`).  Memory that the level saw being made needs no writing back; what was written of
other memory is in `written()`.  Gradients follow the values, as the tape would follow the writes; what the
tape kept for them is what the tensors were when it was kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from facula import core
from facula.autograd.function import _SingleLevelFunction
from facula.autograd.transforms import wrapped
from facula.autograd.transforms.aliases import Alias, Memory, restrided
from facula.autograd.transforms.levels import (
    BatchedTensor,
    Level,
    Suspended,
    memory_of,
    wrap,
)
from facula.autograd.transforms.reverse import bottom
from facula.autograd.transforms.view_inverses import DETACH, ViewStep, reaches_beyond
from facula.core.errors import fail
from facula.ops.random.draws import draw
from facula.ops.table.registry import TABLE, F

Tensor = core.Tensor


class ViewCopies(Level):
    """Runs the copies of views in place of views."""

    def process(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A view by its copy; anything else as it is."""
        if type(function) is core.Op and function.definition.kind == "view":
            function = TABLE.get(f"{function.name}_copy", function)
        return self.call_below(function, args, kwargs)


class FunctionalLevel(Level):
    """One `functionalize` at work.

    `views`: whether views become copies too. `random`: a function that gives the elements of a draw
    `(tensor, kind, a, b, generator)`, in place of filling memory; it may have `state(generator,
    device)`, which then gives random states too.
    """

    decomposes = False
    #: the core tells of fresh memory, and of what is else no transform's business
    rewrites = True

    def __enter__(self) -> FunctionalLevel:
        super().__enter__()
        if self.views:
            copies = ViewCopies()
            copies.below = self.below
            self.working = [*self.below, copies]
        else:
            self.working = self.below
        return self

    def __init__(self, views: bool = False, random: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self.views = views
        self.random = random
        self.made: set[int] = set()
        self.memories: dict[int, Alias] = {}

    # ---------------------------------------------------------------- what tensors stand for

    def fresh(self, tensor: Tensor) -> None:
        """Memory that was made under this level."""
        self.made.add(memory_of(tensor))

    def value_of(self, x: Any) -> Any:
        """The elements of `x` as a tensor that nobody writes to."""
        if not isinstance(x, Tensor):
            return x
        run = core.current_graph_task_id()
        entries = x._aliases
        if entries is not None:
            found = entries.get(self.number)
            if found is not None:
                # what the tape kept are the elements from before all writes: the object's own
                return self._current(found) if run in (-1, found.run) else x
        if run == -1 and self.memories and memory_of(x) in self.memories:
            return self._current(self.alias_of(x))
        return x

    def _current(self, alias: Alias) -> Tensor:
        if alias.generation == alias.memory.generation:
            return alias.value
        with Suspended(self.working):
            return alias.current()

    def values(self, args: Iterable[Any]) -> list[Any]:
        """`value_of` of all arguments, one level of lists included."""
        # the lists of a graph's nodes are lists of a class of their own
        return [
            (list if isinstance(a, list) else tuple)([self.value_of(b) for b in a])
            if isinstance(a, (list, tuple))
            else self.value_of(a)
            for a in args
        ]

    def alias_of(self, x: core.Tensor) -> Alias:
        """What `x` shows of its memory."""
        entries = x._aliases
        found = None if entries is None else entries.get(self.number)
        if found is None:
            found = self._first_alias(x)
            self.set_alias(x, found)
        return found

    def set_alias(self, x: core.Tensor, alias: Alias) -> None:
        """Say what `x` shows of which memory."""
        if x._aliases is None:
            x._aliases = {self.number: alias}
        else:
            x._aliases[self.number] = alias

    def shows_too(self, made: Tensor, x: Tensor) -> None:
        """Note that `made`, with a history of its own, shows what `x` shows."""
        parent = self.alias_of(x)
        step = ViewStep(DETACH, (), None, core.TensorMeta(x))
        self.set_alias(made, Alias(parent.memory, made, parent, step))

    def _first_alias(self, x: Tensor) -> Alias:
        key = memory_of(x)
        if key in self.made:
            return Alias(Memory(x, False), x)
        # a view of all of it has a gradient, or a tangent, of its own: transforms make such
        base = x._base
        alone = base is None or self.below or _same_geometry(core.TensorMeta(base), x)
        whole = x if alone else base
        root = self.memories.get(key)
        if root is None:
            root = self.memories[key] = Alias(Memory(whole, True), whole)
            if whole is not x:
                self.set_alias(whole, root)
        geometry = root.memory.geometry
        if x is root.memory.tensor:
            return root
        place = (tuple(x.shape), tuple(x.stride()), x.storage_offset())
        alias = Alias(root.memory, x, root, ViewStep(F.as_strided, place, None, geometry))
        alias.generation = 0
        return alias

    def written(self) -> Iterator[Memory]:
        """The memories that were found and written to, in the order in which they were found."""
        for alias in self.memories.values():
            if alias.memory.generation:
                yield alias.memory

    # ---------------------------------------------------------------- calls

    def process(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call without writes."""
        kind = type(function)
        owner = getattr(function, "__self__", None)
        if owner is not None and hasattr(owner, "_run"):
            return self._custom(owner, args, kwargs)
        if wrapped.concerns((*args, *kwargs.values())):
            return self._of_outer(function, args, kwargs)
        if kind is core.Op:
            return self._operator(function, args, kwargs)
        if kind is core.InplaceOp:
            return self._in_place(function, args, kwargs)
        if function is draw:
            return self._draw(*args)
        handler = _METHODS.get(function.__name__)
        if handler is not None:
            return handler(self, function, args, kwargs)
        return self._plain(function, args, kwargs)

    def _below(
        self, function: Callable[..., Any], args: Iterable[Any], kwargs: dict[str, Any]
    ) -> Any:
        stack = core.swap_interpreters(self.below)
        try:
            return function(*args, **kwargs)
        finally:
            core.swap_interpreters(stack)

    def _of_outer(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call on tensors that are made of others: their class's calls come here again."""
        if type(function) is core.Op and function.definition.kind == "composite":
            bound, out = core.bind_arguments(function, args, kwargs)
            if out is None and not makes_tensors(function.definition):
                return core.run_implementation(function, bound)
        words = dict(zip(kwargs, self.values(kwargs.values()), strict=True))
        return wrapped.called(self.working, function, self.values(args), words)

    def _plain(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A call that writes nothing; a result that is an argument stays that argument."""
        values = self.values(args)
        if kwargs:
            kwargs = dict(zip(kwargs, self.values(kwargs.values()), strict=True))
        result = self._below(function, values, kwargs)
        if isinstance(result, Tensor):
            if values and result is values[0]:
                return args[0]
            self.made.add(memory_of(result))
        elif isinstance(result, (tuple, list)):
            self.made.update(memory_of(r) for r in result if isinstance(r, Tensor))
        return result

    def _operator(self, op: core.Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        definition = op.definition
        bound, out = core.bind_arguments(op, args, kwargs)
        if out is not None:
            return self._store_out(op, bound, out)
        if definition.mutated:
            return self._writing(op, bound)
        state_of = getattr(self.random, "state", None)
        if definition.random and op is F._philox_state and state_of is not None:
            return self._below(state_of, bound, {})
        if definition.kind == "composite":
            if makes_tensors(definition):
                return self._plain(op, args, kwargs)
            return core.run_implementation(op, bound)
        if definition.kind == "pointwise" or not bound or not isinstance(bound[0], Tensor):
            return self._plain(op, args, kwargs)
        if op is F.basic_index:
            return simple_views(*bound)
        if op is F.as_strided:
            return self._strided(*bound)
        return self._maybe_view(op, bound, args, kwargs)

    def _writing(self, op: Any, bound: tuple[Any, ...]) -> Any:
        """An operator of the user's that writes: what it would write becomes results."""
        written = op.definition.mutated
        functional = op.definition.functional()
        result = self._operator(functional, *op.definition.trim(bound))
        pieces = result if isinstance(result, tuple) else (result,)
        count = len(pieces) - len(written)
        names = [parameter.name for parameter in op.definition.schema.parameters]
        for name, value in zip(written, pieces[count:], strict=True):
            self.assign(op.name, bound[names.index(name)], value)
        return pieces[:count] if count > 1 else pieces[0] if count else None

    def _maybe_view(
        self, op: core.Op, bound: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        x = bound[0]
        value = self.value_of(x)
        others = self.values(bound[1:])
        positional, keywords = op.definition.trim((value, *others))
        copied = TABLE.get(f"{op.name}_copy") if self.views else None
        result = self._below(copied or op, positional, keywords)
        key = memory_of(value)
        if isinstance(result, Tensor):
            if copied is not None or memory_of(result) == key:
                return self._view(x, result, ViewStep(op, tuple(others), None, core.TensorMeta(x)))
            self.made.add(memory_of(result))
            return result
        meta = None
        for number, piece in enumerate(result):
            if not isinstance(piece, Tensor):
                continue
            if copied is not None or memory_of(piece) == key:
                meta = core.TensorMeta(x) if meta is None else meta
                self._view(x, piece, ViewStep(op, tuple(others), number, meta))
            else:
                self.made.add(memory_of(piece))
        return result

    def _strided(
        self, x: Tensor, size: tuple[Any, ...], stride: tuple[Any, ...], offset: int | None
    ) -> Tensor:
        """`as_strided`: a view of the tensor that owns the memory, since it may reach beyond `x`."""
        alias = self.alias_of(x)
        memory, detached = alias.memory, alias.detached
        offset = x.storage_offset() if offset is None else offset
        if self.views or memory.tensor.dtype is not x.dtype or (detached and x.requires_grad):
            if reaches_beyond(core.TensorMeta(x), size, stride, offset):
                memory.reach(x, size, stride, offset)
            bound = (x, size, stride, offset)
            return self._maybe_view(F.as_strided, bound, bound, {})
        if reaches_beyond(memory.geometry, size, stride, offset):
            memory.reach(memory.tensor, size, stride, offset)
        root = alias.root()
        step = ViewStep(F.as_strided, (size, stride, offset), None, memory.geometry)
        if x.requires_grad and not memory.generation:  # its gradient is one of `x`
            memory.beside |= reaches_beyond(core.TensorMeta(x), size, stride, offset)
            value = self.value_of(x)
            first = value.storage_offset() + offset - x.storage_offset()
            made = self._below(F.as_strided, (value, size, stride, first), {})
        else:
            made = self._below(step.apply, (self._current(root),), {})
        shown = Alias(memory, made, root, step)
        if detached:
            step = ViewStep(DETACH, (), None, core.TensorMeta(made))
            made = self._below(made.detach, (), {})
            shown = Alias(memory, made, shown, step)
        elif made._aliases is not None and self.number in made._aliases:
            made = self._below(made.expand, (made.shape,), {})  # somebody else's object
        self.set_alias(made, shown)
        return made

    def _view(self, x: Tensor, view: Tensor, step: ViewStep) -> Tensor:
        """Remember that `view` shows a part of `x`."""
        parent = self.alias_of(x)
        if view._aliases is not None and self.number in view._aliases:
            # somebody else's object: the tensor itself, say
            view = view.as_strided(view.shape, view.stride(), view.storage_offset())
        self.set_alias(view, Alias(parent.memory, view, parent, step))
        return view

    # ---------------------------------------------------------------- writes

    def assign(self, name: str, target: Tensor, result: object, replaces: bool = False) -> Tensor:
        """Make the elements of `result` those of `target`.

        replaces: they do not depend on those that `target` has.
        """
        value = self.value_of(result)
        if value.shape != target.shape:
            fail(
                RuntimeError,
                name,
                "a result of the shape of self was required: output with shape "
                f"{list(target.shape)} doesn't match the broadcast shape {list(value.shape)}",
                hint="use the form without the underscore, which returns a new tensor",
            )
        if value.dtype != target.dtype:
            if value.dtype.kind > target.dtype.kind:
                fail(
                    RuntimeError,
                    name,
                    f"a result that self can hold was required: result type "
                    f"{value.dtype} can't be cast to the desired output type {target.dtype}",
                    hint=f"convert self with .to({value.dtype}) first",
                )
            value = self._below(value.to, (target.dtype,), {})
        _check_places(name, target)
        _check_leaf(name, target)
        self.alias_of(target).renew()
        with Suspended(self.working):
            value = restrided(value, core.TensorMeta(target))
            value = _in_the_place_of(value, self.value_of(target), replaces)
            alias = self.alias_of(target)
            alias.store(value)
            self._show_history(target, alias)
        return target

    def _show_history(self, target: Tensor, alias: Alias) -> None:
        """Let the program see that a tensor of its own got a history."""
        if not alias.memory.external and not target.requires_grad and core.is_grad_enabled():
            value = alias.current()
            if value.requires_grad:
                core.adopt_history(target, value)

    def _in_place(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        op = function.op
        bound, _ = core.bind_arguments(op, args, kwargs)
        kind, target = op.definition.kind, bound[0]
        if kind == "view":
            return self._new_geometry(function, bound)
        if kind == "composite":
            result = core.run_implementation(op, bound)
        else:
            self.alias_of(target).renew()
            positional, keywords = op.definition.trim(tuple(self.values(bound)))
            result = self._below(op, positional, keywords)
        result = result[0] if isinstance(result, tuple) else result
        return self.assign(f"{op.name}_", target, result)

    def _new_geometry(self, function: Any, bound: tuple[Any, ...]) -> Tensor:
        """`t_`, `squeeze_`, ...: the object shows a view of what it showed before."""
        target, rest = bound[0], bound[1:]
        old = self.alias_of(target)
        step = ViewStep(function.op, rest, None, core.TensorMeta(target))
        with Suspended(self.working):
            if old.value is target:
                # the object is about to change: another one shows what it showed
                old.value = target.expand(target.shape)
            value = step.apply(old.current())
        recording = core.set_grad_enabled(False)
        try:
            with Suspended([]):
                core.undispatched(function, target, *rest)
        finally:
            core.set_grad_enabled(recording)
        self.set_alias(target, Alias(old.memory, value, old, step))
        return target

    def _store_out(self, op: Any, bound: tuple[Any, ...], out: object) -> Any:
        result = self._operator(op, *op.definition.trim(bound))
        outs = tuple(out) if isinstance(out, (tuple, list)) else (out,)
        results = result if isinstance(result, tuple) else (result,)
        for target, value in zip(outs, results, strict=True):
            if target.shape != value.shape:
                self._resize(target, value)
            self.assign(op.name, target, value)
        if isinstance(result, tuple):
            return type(result)(*outs) if hasattr(result, "_fields") else outs
        return out

    def _resize(self, target: Tensor, value: Tensor) -> None:
        """A tensor given as `out=` takes the shape of the result, as it does eagerly."""
        shape = target.shape
        recording = core.set_grad_enabled(False)
        try:
            with Suspended([]):
                core.undispatched(target.resize_, tuple(value.shape))
        finally:
            core.set_grad_enabled(recording)
        alias = self.alias_of(target)
        if alias.parent is not None:
            fail(
                RuntimeError,
                "out",
                "a view of the shape of the result was required as out=",
                hint="give a tensor of its own, and copy_() it into the view",
            )
        if alias.memory.external:
            fail(
                NotImplementedError,
                "out",
                "an input of the shape of the result was required as out= in a traced program",
                list(shape),
                hint="give a tensor that needs no resizing",
            )
        alias.memory.geometry = core.TensorMeta(target)

    # ---------------------------------------------------------------- what is no operator

    def _draw(
        self, tensor: Tensor, kind: str, a: object, b: object, generator: core.Generator | None
    ) -> Tensor:
        a = self.value_of(a)
        if self.random is not None:
            result = self._below(self.random, (tensor, kind, a, b, generator), {})
        else:
            result = self._below(draw, (tensor, kind, a, b, generator), {})
        self.made.add(memory_of(result))
        return result

    def _custom(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A custom function: its forward and backward run under this level as anything else."""
        separate = cls.setup_context is not _SingleLevelFunction.setup_context
        given = tuple(self.values(args))
        results = cls._run(given, kwargs, separate)[0]
        several = isinstance(results, tuple)
        made = [self._custom_result(x, args, given) for x in (results if several else (results,))]
        return tuple(made) if several else made[0]

    def _custom_result(self, x: Any, args: tuple[Any, ...], given: tuple[Any, ...]) -> Any:
        """A result of a custom function; an input that it wrote to has the elements and the history."""
        written = [arg for arg, value in zip(args, given, strict=True) if value is x]
        if not written or not isinstance(x, Tensor):
            self._join_history(x)
            return x
        value = self.value_of(x)
        with Suspended(self.working):
            if x.requires_grad:
                value = core.adopt_history(value.detach(), x)
            alias = self.alias_of(written[0])
            alias.store(value)
            self._show_history(written[0], alias)
        return written[0]

    def _join_history(self, x: object) -> None:
        """Let the elements of a result that was written to before it got a history have it too."""
        if not isinstance(x, Tensor) or not x.requires_grad:
            return
        value = self.value_of(x)
        if value is x or value.requires_grad:
            return
        with Suspended(self.working):
            value = core.adopt_history(value.detach(), x)
        self.set_alias(x, Alias(Memory(x, False), value))

    def copy_(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Tensor:
        """`target.copy_(source)`."""
        target, source = args[0], args[1]
        value = self.value_of(source)
        with Suspended(self.working):
            if not isinstance(value, Tensor):
                value = F.full_like(target, value)
            if value.dtype != target.dtype or value.device != target.device:
                value = value.to(target.device, target.dtype)
            if value.shape != target.shape:
                value = value.expand(target.shape)
        return self.assign("copy_", target, value, replaces=True)

    def fill_(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Tensor:
        """`target.fill_(value)`."""
        target, value = args[0], self.value_of(args[1])
        if isinstance(value, Tensor):
            return self.copy_(function, (target, value), kwargs)
        with Suspended(self.working):
            shape = tuple(target.shape)
            value = F.full(shape, value, dtype=target.dtype, device=target.device)
        if _overlaps(target):  # each place gets one element, so any order will do
            part = target
            for d, (n, step) in enumerate(zip(target.shape, target.stride(), strict=True)):
                if step == 0 and n > 1:
                    part = self._operator(F.slice, (part, d, 0, 1, 1), {})
            self.fill_(function, (part, args[1]), kwargs)
            return target
        return self.assign("fill_", target, value)

    def detach(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Tensor:
        """`x.detach()`, a view."""
        result = self._below(function, self.values(args), kwargs)
        return self._view(args[0], result, ViewStep(DETACH, (), None, core.TensorMeta(args[0])))

    def detach_(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Tensor:
        """`x.detach_()`: the object has no history from here on."""
        target = args[0]
        old = self.alias_of(target)
        step = ViewStep(DETACH, (), None, core.TensorMeta(target))
        value = self._below(old.current().detach, (), {})
        with Suspended([]):
            target.detach_()
        self.set_alias(target, Alias(old.memory, value, old, step))
        return target

    def assign_data(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """`target.data = source`: other elements, the same history."""
        target, source = args
        if target.shape != source.shape or target.dtype != source.dtype:
            fail(
                NotImplementedError,
                "data",
                "data of the same shape and dtype was required where a program is traced",
                f"{list(source.shape)} of {source.dtype}",
                hint="make another tensor instead",
            )
        recording = core.set_grad_enabled(False)
        try:
            self.assign("data", target, source)
        finally:
            core.set_grad_enabled(recording)


_METHODS: dict[str, Callable[..., Any]] = {
    "copy_": FunctionalLevel.copy_,
    "fill_": FunctionalLevel.fill_,
    "detach": FunctionalLevel.detach,
    "detach_": FunctionalLevel.detach_,
    "detach_in_place": FunctionalLevel.detach_,
    "assign_data": FunctionalLevel.assign_data,
}


def _current(item: Any) -> Any:
    """A part of an index, with the numbers that stand for those without an example now."""
    if isinstance(item, slice):
        return slice(_current(item.start), _current(item.stop), _current(item.step))
    env = getattr(item, "env", None)  # of a number that depends on sizes
    return item if env is None else env.current(item)


def _tried(item: Any) -> Any:
    """An index to try in the place of one that is known only where the program runs."""
    return 0 if getattr(getattr(item, "expr", None), "unbacked", None) else item


def simple_views(x: Tensor, index: Any) -> Tensor:
    """A view by ints, slices, None and Ellipsis, as a chain of simple views; never `x` itself."""
    whole = x
    items = tuple(map(_current, index if isinstance(index, tuple) else (index,)))
    core.basic_index(x, tuple(map(_tried, items)))  # raises for what is no such index
    given = sum(1 for i in items if i is not None and i is not Ellipsis)
    dim = 0
    for item in items:
        if item is Ellipsis:
            dim += x.dim() - dim - _remaining(items, item, given)
        elif item is None:
            x = x.unsqueeze(dim)
            dim += 1
        elif isinstance(item, slice):
            if item != slice(None):
                step = 1 if item.step is None else item.step.__index__()
                x = F.slice(x, dim, 0 if item.start is None else item.start, item.stop, step)
            dim += 1
        else:
            x = F.select(x, dim, item.__index__())
    return F.expand(x, x.shape) if x is whole else x


def makes_tensors(definition: Any) -> bool:
    """Whether a composite is a factory, whose elements do not come from random numbers."""
    known = definition.__dict__.get("_makes_tensors")
    if known is None:
        types = {p.type for p in definition.schema.parameters}
        known = "device" in types and "generator" not in types
        definition._makes_tensors = known
    return known


def _remaining(items: tuple[Any, ...], ellipsis: Any, given: int) -> int:
    """How many dimensions the items behind an ellipsis take."""
    position = next(n for n, item in enumerate(items) if item is ellipsis)
    return sum(1 for item in items[position + 1 :] if item is not None)


def _same_geometry(meta: core.TensorMeta, x: Tensor) -> bool:
    return (
        tuple(meta.shape) == tuple(x.shape)
        and tuple(meta.strides) == tuple(x.stride())
        and meta.storage_offset == x.storage_offset()
    )


class _Overwritten(core.Node):
    """The origin of elements that replace others with a history: those have no influence any more."""

    def name(self) -> str:
        """The node's name."""
        return "OverwrittenBackward"

    def apply(self, grad: Tensor) -> tuple[Any, ...]:
        """Zeros."""
        return (None if grad is None else F.zeros_like(grad),)


def _with_history_of(value: Tensor, old: Tensor) -> Tensor:
    """`value` as a tensor that requires grad, where what it replaces did."""
    if not old.requires_grad or not (value.is_floating_point() or value.is_complex()):
        return value
    value = value.detach()
    core.record_function(_Overwritten(), (old,), (value,), ())
    return value


class _Replaced(core.Node):
    """The origin of elements with a history that replace others with one."""

    def name(self) -> str:
        """The node's name."""
        return "CopyBackwards"

    def apply(self, grad: Tensor) -> tuple[Any, ...]:
        """The gradient of what is there now, zeros for what was there."""
        return (grad, None if grad is None else F.zeros_like(grad))


def _in_place_of(value: Tensor, old: Tensor) -> Tensor:
    """`value` with the history of what it replaces behind its own: that one gets zeros."""
    made = value.detach()
    core.record_function(_Replaced(), (value, old), (made,), ())
    return made


def _overlaps(target: Tensor) -> bool:
    """Whether several elements lie at one place."""
    repeats = any(s == 0 and n > 1 for n, s in zip(target.shape, target.stride(), strict=True))
    return repeats and not any(n == 0 for n in target.shape)


def _check_places(name: str, target: Tensor) -> None:
    if _overlaps(target):
        fail(
            RuntimeError,
            name,
            "memory with one element a place was required: unsupported operation: more than one "
            "element of the written-to tensor refers to a single memory location",
            hint="please clone() the (expanded) tensor before performing the operation",
        )


def _in_the_place_of(value: Tensor, old: Tensor, replaces: bool) -> Tensor:
    """`value` as what is written over `old`: a new tensor, neither a leaf nor a view of one."""
    held = bottom(value)
    plain = held is value and bottom(old) is old and not value._tangents and not old._tangents
    if plain and core.is_grad_enabled():
        if not value.requires_grad:
            return _with_history_of(value, old)
        if replaces and old.requires_grad:
            return _in_place_of(value, old)
    if held.requires_grad and (held.is_leaf or held._base is not None):
        return _renewed(value)
    return value


def _renewed(value: Any) -> Any:
    """Another tensor with the elements and the history of `value`, which transforms see as it."""
    made: Any
    if isinstance(value, BatchedTensor):
        made = wrap(_renewed(value.value), value.batch_dim, value.level)
    else:
        with Suspended([]):
            made = core.adopt_history(value.detach(), value)
    made._tangents = dict(value._tangents) if value._tangents else None
    return made


def _check_leaf(name: str, target: Tensor) -> None:
    if not core.is_grad_enabled():
        return
    base = target._base
    held = bottom(target)  # the wrapper of a batch is no part of the history
    if held.requires_grad and held.is_leaf and not getattr(target, "_inner", False):
        fail(
            RuntimeError,
            name,
            "a tensor that is no leaf was required: a leaf Variable that requires grad is being "
            "used in an in-place operation.",
            hint="wrap the update in no_grad(), or work on x.clone()",
        )
    inner = base is None or getattr(base, "_inner", False)
    if not inner and base.requires_grad and base.is_leaf and target.requires_grad:
        fail(
            RuntimeError,
            name,
            "a view of no leaf was required: a view of a leaf Variable that requires grad is being "
            "used in an in-place operation.",
            hint="wrap the update in no_grad(), or work on x.clone()",
        )
