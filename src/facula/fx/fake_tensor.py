"""Tensors without elements that stand for tensors on any device.

Takes real tensors (`FakeTensorMode.from_tensor`) and operators on fake ones.  Gives fake tensors with
the shape, strides, dtype, device and history that the real ones would have.
Keeps true: no memory is taken and no kernel runs; views share storage as theirs do; what would need
elements raises `DataDependentOutputException` or `DynamicOutputShapeException`.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from facula import core
from facula.autograd.transforms import wrapped
from facula.core.errors import fail
from facula.fx import _pytree as pytree
from facula.fx.dispatch_mode import TorchDispatchMode
from facula.fx.experimental.symbolic_shapes import give_symbols
from facula.fx.fake_constants import Constants
from facula.fx.symbolic_run import run_symbolic
from facula.fx.symbols import SymInt, expr_of
from facula.fx.unbacked import integer_range
from facula.nn.parameter import Parameter
from facula.ops.table.overloads import METHOD_NAMES, overload_of

Tensor = core.Tensor


class UnsupportedFakeTensorException(RuntimeError):
    """Something that a fake tensor can not stand for."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _OperatorException(RuntimeError):
    """An operator that needs elements."""

    required = ""

    def __init__(self, func: Any) -> None:
        super().__init__(f"[{func}] {self.required}")
        self.func = func


class DynamicOutputShapeException(_OperatorException):
    """An operator whose result's shape depends on elements."""

    required = (
        "a shape that follows from shapes was required, not a data-dependent shape: the result's shape "
        "depends on the elements, which a fake tensor does not have\n"
        "hint: keep this operator out of the traced function"
    )


class DataDependentOutputException(_OperatorException):
    """An operator whose result is a number read from elements."""

    required = (
        "elements were required: a fake tensor has none, so a number cannot be read from it\n"
        "hint: keep `.item()`, `bool(tensor)` and the like out of the traced function, or compute with "
        "the tensor itself, for example where()"
    )


class UnsupportedOperatorException(_OperatorException, NotImplementedError):
    """An operator that cannot say what its result looks like."""

    required = "an operator that knows the shape of its result was required"


def _fixed(value: bool) -> property:
    return property(lambda self: value)


class FakeTensor(Tensor):
    """A tensor without elements: `fake_device` says where the tensor is that it stands for."""

    _is_fake = True
    hears_own_operators = True
    __torch_function__ = core._core._disabled_torch_function_impl

    fake_device: Any
    fake_mode: Any
    #: expressions for sizes, strides and offset, where some of them are symbols
    _symbolic: Any = None
    #: the real tensor, of a constant of the program (`fake_constants`)
    constant: Any = None

    @staticmethod
    def __new__(
        cls, fake_mode: object, elem: Tensor, device: object, *args: object, **kwargs: object
    ) -> FakeTensor:
        """Make one out of a tensor on the meta device.

        Args:
            fake_mode: the mode that it belongs to.
            elem: has the shape, strides and dtype.
            device: where the tensor is that it stands for.
        """
        if not elem.is_meta:
            fail(
                AssertionError,
                "FakeTensor",
                "a tensor on the meta device was required",
                elem.device,
                hint="FakeTensorMode().from_tensor(x) converts any tensor",
            )
        made = core.fake_tensor(cls, elem, fake_mode, core.device(device))
        made.requires_grad_(elem.requires_grad)
        return made

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    @property
    def device(self) -> Any:
        """Where the tensor is that this one stands for."""
        return self.fake_device

    @property
    def is_cpu(self) -> bool:
        """Whether that is the CPU."""
        return self.fake_device.type == "cpu"

    @property
    def is_cuda(self) -> bool:
        """Whether that is a CUDA device."""
        return self.fake_device.type == "cuda"

    @property
    def is_meta(self) -> bool:
        """Whether that is a meta tensor."""
        return self.fake_device.type == "meta"

    is_fake = _fixed(True)

    @property
    def data(self) -> Any:
        """The tensor without history, as fake as it is."""
        return self.detach()

    @data.setter
    def data(self, other: object) -> None:
        vars(Tensor)["data"].__set__(self, other)

    @classmethod
    def from_tensor(cls, t: Tensor, fake_mode: FakeTensorMode) -> FakeTensor:
        """A fake tensor that stands for `t`."""
        return fake_mode.from_tensor(t)

    @classmethod
    def __torch_dispatch__(
        cls, func: object, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if any(map(wrapped.is_made_of_tensors, types)):
            return NotImplemented
        mode = _mode_of(args) or _mode_of((kwargs or {}).values())
        return mode.dispatch(func, args, kwargs or {})

    def tolist(self) -> Any:
        """Numbers without an example where sizes are symbols, and those of a constant; else raises."""
        if self.constant is not None:
            with _Undisturbed():
                return self.constant.tolist()
        if self.fake_mode.shape_env is None:
            raise DataDependentOutputException("tolist")
        if self.dim() == 0:
            return self.item()
        return [part.tolist() for part in self.unbind(0)]

    def numpy(self, *, force: bool = False) -> Any:
        """Raises: there are no elements, unless it is a constant."""
        if self.constant is not None:
            with _Undisturbed():
                return self.constant.numpy(force=force)
        raise DataDependentOutputException("numpy")

    def __repr__(self) -> str:
        place = f"device='{self.fake_device}', " if self.fake_device.type != "cpu" else ""
        shown = f"{place}size={tuple(self.shape)}"
        if self.dtype is not core.get_default_dtype():
            shown += f", dtype={self.dtype}"
        if self.grad_fn is not None:
            shown += f", grad_fn=<{self.grad_fn.name().rpartition('::')[2]}>"
        elif self.requires_grad:
            shown += ", requires_grad=True"
        return f"FakeTensor(..., {shown})"

    def __deepcopy__(self, memo: dict[int, Any]) -> FakeTensor:
        made = core.fake_like(type(self), self, self.fake_mode)
        made.requires_grad_(self.requires_grad)
        memo[id(self)] = made
        return made


class SymbolicFakeTensor(FakeTensor):
    """A fake tensor of a mode with symbols: its sizes may be numbers that know their expressions."""

    @property
    def shape(self) -> Any:
        """The sizes."""
        if self._symbolic is None:
            return Tensor.size(self)
        return core.Size(self._numbers(self._symbolic[0]))

    def _numbers(self, expressions: Any) -> list[Any]:
        env = self.fake_mode.shape_env
        return [env.number_of(e) for e in expressions]

    def size(self, dim: Any = None) -> Any:
        """The sizes, or one of them."""
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: Any = None) -> Any:
        """The strides, or one of them."""
        if self._symbolic is None:
            return Tensor.stride(self, dim)
        strides = tuple(self._numbers(self._symbolic[1]))
        return strides if dim is None else strides[dim]

    def storage_offset(self) -> Any:
        """The place of the first element."""
        if self._symbolic is None:
            return Tensor.storage_offset(self)
        return self._numbers(self._symbolic[2:])[0]

    def numel(self) -> Any:
        """The number of elements."""
        return self.shape.numel()

    nelement = numel

    def __len__(self) -> int:
        if self._symbolic is None or not self.dim():
            return Tensor.__len__(self)
        return int(self.shape[0])


def _leaves(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    """Arguments, and those in lists."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, (tuple, list)):
            yield from value
        else:
            yield value


def _mode_of(values: Any) -> Any:
    for value in values:
        if isinstance(value, FakeTensor):
            return value.fake_mode
        if isinstance(value, (tuple, list)):
            found = _mode_of(value)
            if found is not None:
                return found
    return None


class FakeTensorMode(TorchDispatchMode):
    """A block in which new tensors are fake; and what fake tensors belong to."""

    hears_own_operators = True

    #: what the results of operators are
    tensor_class: type[FakeTensor] = FakeTensor

    def __init__(
        self,
        *,
        allow_fallback_kernels: bool = True,
        allow_non_fake_inputs: bool = False,
        shape_env: Any = None,
        static_shapes: bool | None = None,
        export: bool = False,
    ) -> None:
        """Make a mode.

        Args:
            allow_non_fake_inputs: operators take real tensors too, which are treated as fake ones.
            shape_env: where symbols for sizes are made; None keeps sizes as numbers.
            static_shapes: keep sizes as numbers in spite of `shape_env`.
            allow_fallback_kernels, export: kept for PyTorch's API, they change nothing.
        """
        self.allow_fallback_kernels = allow_fallback_kernels
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.shape_env = shape_env
        self.static_shapes = shape_env is None if static_shapes is None else static_shapes
        self.export = export
        if shape_env is not None:
            self.tensor_class = SymbolicFakeTensor
        #: hears of the result of every operator
        self.observer: Any = None
        self._entered: list[bool] = []
        self.constants = Constants()
        #: the elements of an example, where the program is tried on them (`real_examples`)
        self.examples: Any = None
        #: id of a real tensor -> (weak reference to it, its fake tensor)
        self._known: dict[int, tuple[Any, FakeTensor]] = {}
        #: storage of a real tensor -> (weak reference to a tensor on it, bytes on the meta device)
        self._storages: dict[int, tuple[Any, Tensor]] = {}
        #: id of a fake tensor -> (weak reference to it, its version, the number that was read from it)
        self.numbers: dict[int, tuple[Any, int, Any]] = {}
        #: without symbols: a size that depends on elements, and whether one was asked for
        self.count: int | None = None
        self.counted = False

    def __enter__(self) -> FakeTensorMode:
        inside = bool(core.DISPATCH_MODES) and core.DISPATCH_MODES[-1] is self
        self._entered.append(not inside)
        if not inside:
            core.push_dispatch_mode(self)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._entered.pop():
            core.pop_dispatch_mode()

    # ---------------------------------------------------------------- operators

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        for value in _leaves(args, kwargs or {}):
            if isinstance(value, FakeTensor) and value.fake_mode is not self:
                fail(AssertionError, str(func), "fake tensors of one mode were required: Mixing fake modes "
                     "NYI", got="one of another mode", hint="use one mode for the whole program")  # fmt: skip
        if any(map(wrapped.is_made_of_tensors, types)):
            return wrapped.handled(self, func, types, args, kwargs or {})
        return self.dispatch(func, args, kwargs or {})

    def dispatch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of an operator: fake tensors."""
        env = self.shape_env
        if env is not None and env.unbacked.ranges:
            args, kwargs = pytree.tree_map_only(SymInt, env.current, (args, kwargs))
        plan = _PLANS.get(func)
        if plan is None:
            plan = _PLANS[func] = _plan_of(func)
        if self.constants and self.constants.concern(args, kwargs):
            known = None
            if plan is not _run_directly:
                with _Undisturbed():
                    known = (self.examples or self.constants).known(func, args, kwargs)
            if known is not None and plan is _read and self.examples is None:
                return known
            found = self._by_plan(plan, func, args, kwargs, known)
            self.constants.keep(found, known)
        else:
            found = plan(self, func, args, kwargs)
        if kwargs and kwargs.get("requires_grad") is True and isinstance(found, Tensor):
            found.requires_grad_()
        if self.observer is not None:
            self.observer(found)
        return found

    def _by_plan(self, plan: Any, func: Any, args: Any, kwargs: Any, known: Any) -> Any:
        """The result of an operator whose arguments have elements, `known` what it is for these."""
        if self.examples is None or known is None:
            return plan(self, func, args, kwargs)
        try:
            found = plan(self, func, args, kwargs)
        except UnsupportedOperatorException:
            return self.examples.inferred(func, known)
        if plan is _read:
            self.examples.read(found, known)
        return found

    def admit(self, t: Tensor) -> Any:
        """What an operator does with a tensor that is not fake (the core asks)."""
        if self.allow_non_fake_inputs:
            return self.from_tensor(t, static_shapes=True)
        return fail(
            AssertionError,
            "FakeTensorMode",
            "fake tensors were required: Please convert all Tensors to FakeTensors first or "
            "instantiate FakeTensorMode with 'allow_non_fake_inputs'",
            got=f"a real tensor of shape {tuple(t.shape)} and dtype {t.dtype}",
            hint="mode.from_tensor(tensor) gives one",
        )

    def mixed_devices(self, one: object, other: object) -> None:
        """Raise for tensors on two devices (the core asks)."""
        fail(
            RuntimeError,
            "FakeTensorMode",
            "tensors on one device were required: Unhandled FakeTensor Device Propagation, found two "
            f"different devices {one}, {other}",
            hint="move one with .to(device)",
        )

    # ---------------------------------------------------------------- making fake tensors

    def from_tensor(
        self,
        tensor: Tensor,
        *,
        static_shapes: bool | None = None,
        source: object = None,
        symbolic_context: Any = None,
        trace: bool = True,
    ) -> FakeTensor:
        """A fake tensor that stands for a real one; the same one for the same tensor.

        Args:
            tensor: gives strides, dtype, device, `requires_grad`, and what it is a view of.
            static_shapes: keep sizes as numbers; default as the mode says.
            source: what the tensor is called, in names of symbols.
            symbolic_context: says which sizes become symbols: has `dynamic_sizes`, booleans.
            trace: kept for PyTorch's API.
        """
        if isinstance(tensor, FakeTensor) and tensor.fake_mode is self:
            return tensor
        known = self._known.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return known[1]
        if isinstance(tensor, FakeTensor):
            made = self._of_another_mode(tensor)
        else:
            with _Undisturbed():
                made = self._made(tensor)
            if not (self.static_shapes if static_shapes is None else static_shapes):
                give_symbols(made, self.shape_env, source, symbolic_context)
        self._keep(tensor, made)
        return made

    def _keep(self, tensor: Tensor, made: FakeTensor) -> None:
        """Remember a tensor's fake one for as long as the tensor lives."""
        known, key = self._known, id(tensor)

        def forget(reference: object) -> None:
            if key in known and known[key][0] is reference:
                del known[key]

        known[key] = (weakref.ref(tensor, forget), made)

    def _of_another_mode(self, tensor: FakeTensor) -> FakeTensor:
        """A fake tensor of this mode with the geometry of one of another mode, symbols too."""
        if tensor._symbolic is not None and tensor.fake_mode.shape_env is not self.shape_env:
            fail(AssertionError, "from_tensor", "a fake tensor of this mode, or of one with the same symbols, "
                 "was required: Mixing fake modes NYI", got="symbols of another ShapeEnv",
                 hint="use one mode, or one ShapeEnv, for the whole program")  # fmt: skip
        with _Undisturbed():
            made: Any = core.fake_like(self.tensor_class, tensor, self)
            made.requires_grad_(tensor.requires_grad)
        made.fake_device = tensor.fake_device
        made._symbolic = tensor._symbolic
        return made

    @property
    def fake_tensor_converter(self) -> FakeTensorConverter:
        """What makes this mode's fake tensors, and remembers them."""
        return FakeTensorConverter(self)

    def with_geometry(self, elem: Tensor, shape: Any, strides: Any, offset: object) -> Any:
        """A fake tensor on a meta tensor's memory, with numbers that may depend on sizes."""
        made: Any = core.fake_tensor(self.tensor_class, elem, self, core.device("cpu"))
        numbers = (*shape, *strides, offset)
        if any(isinstance(n, SymInt) for n in numbers):
            exprs = tuple(map(expr_of, shape)), tuple(map(expr_of, strides)), expr_of(offset)
            made._symbolic = exprs
        return made

    def _made(self, tensor: Tensor) -> FakeTensor:
        if getattr(tensor, "_facula_holds_tensors", False):  # of a class as that of nested ones
            fail(NotImplementedError, "from_tensor", "a tensor with elements of its own was required",
                 got=type(tensor).__name__, hint="convert the tensors that it holds")  # fmt: skip
        base = tensor._base if tensor._is_view() else None
        if base is not None and base.dtype is tensor.dtype:
            whole = self.from_tensor(base, static_shapes=True)
            recorded = tensor.requires_grad and base.requires_grad
            with _Recording(recorded):
                made: Any = whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
            if tensor.requires_grad and not made.requires_grad:
                made.requires_grad_()
            return made
        made = core.fake_tensor(self.tensor_class, self._on_storage(tensor), self, tensor.device)
        if tensor.requires_grad:
            made.requires_grad_()
            if not tensor.is_leaf:
                with _Recording(True):
                    made = made.clone()
        if getattr(tensor, "_is_param", False) or type(tensor).__name__ == "Parameter":
            made._is_param = True
        grad = tensor.grad if tensor.is_leaf and tensor.requires_grad else None
        if grad is not None and grad.layout is core.strided:
            made.grad = self.from_tensor(grad, static_shapes=True)
        return made

    def _on_storage(self, tensor: Tensor) -> Tensor:
        """A meta tensor of the same geometry, on one storage with those of the same real storage."""
        shape, strides = tuple(tensor.shape), tuple(tensor.stride())
        place = core.storage_place(tensor)
        known = self._storages.get(place)
        if known is None or known[0]() is None:
            nbytes = tensor.untyped_storage().nbytes()
            whole = core.empty((nbytes,), dtype=core.uint8, device="meta")
            known = self._storages[place] = (weakref.ref(tensor), whole)
        offset = tensor.storage_offset() * tensor.element_size()
        return core.view_dtype(known[1], tensor.dtype, shape, strides, offset)


class FakeTensorConverter:
    """Makes fake tensors for real ones, the same for the same: PyTorch's name for that part of a mode.

    Args:
        mode: whose memory it shows; None for the mode of each call
    """

    def __init__(self, mode: FakeTensorMode | None = None) -> None:
        self._mode = None if mode is None else weakref.ref(mode)
        self._used: weakref.WeakSet[FakeTensorMode] = weakref.WeakSet()

    @property
    def tensor_memo(self) -> dict[int, Any]:
        """What is remembered, by the real tensor's identity; gone with the tensor."""
        modes = self._used if self._mode is None else [self._mode()]
        return {key: found[1] for m in modes if m is not None for key, found in m._known.items()}

    def from_real_tensor(self, fake_mode: FakeTensorMode, t: Tensor, **options: Any) -> FakeTensor:
        """The fake tensor of a mode for a tensor."""
        self._used.add(fake_mode)
        return fake_mode.from_tensor(t, **options)

    def from_meta_and_device(
        self, fake_mode: FakeTensorMode, t: Tensor, device: object
    ) -> FakeTensor:
        """The fake tensor for a tensor on the meta device that stands for one elsewhere."""
        self._used.add(fake_mode)
        known = fake_mode._known.get(id(t))
        if known is not None and known[0]() is t:
            return known[1]
        made = FakeTensor(fake_mode, t, device)
        fake_mode._keep(t, made)
        return made


class _Undisturbed:
    """A block without dispatch modes and transforms."""

    def __enter__(self) -> None:
        self.stack = core.swap_interpreters([])
        self.keys = core.suspend_dispatch()

    def __exit__(self, *exception: object) -> None:
        core.set_thread_keys(self.keys)
        core.swap_interpreters(self.stack)


class _Recording:
    """A block with the tape on, or off."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        self.before = core.set_grad_enabled(self.mode)

    def __exit__(self, *exception: object) -> None:
        core.set_grad_enabled(self.before)


# ------------------------------------------------------------------ how operators run


def _call(mode: FakeTensorMode, function: Any, args: Any, kwargs: Any) -> Any:
    if mode.shape_env is None:
        return core.run_fake(function, args, kwargs, mode)
    return run_symbolic(mode, function, args, kwargs)


#: of running functions for results without data: the sizes that they get where they ask for some
SIZES: list[Iterator[Any]] = []


class WantedSize(DynamicOutputShapeException):
    """A function for results without data asks for one more size that depends on elements."""

    low: float = 0
    high: float = math.inf


def _with_sizes(function: Callable[..., Any]) -> Callable[..., Any]:
    """An operator as a function of the sizes that it asks for, and of its arguments."""

    def run(sizes: tuple[Any, ...], *args: Any, **kwargs: Any) -> Any:
        SIZES.append(iter(sizes))
        try:
            return function(*args, **kwargs)
        finally:
            SIZES.pop()

    return run


def _run(mode: FakeTensorMode, func: Callable[..., Any], args: Any, kwargs: dict[Any, Any]) -> Any:
    function = getattr(func, "_op", func)
    try:
        return _call(mode, function, args, kwargs)
    except WantedSize as wanted:
        env = mode.shape_env
        if not (mode.count is not None if env is None else env.allow_dynamic_output_shape_ops):
            raise
        bounds = [(wanted.low, wanted.high)]
    mode.counted = True
    while True:
        if env is None:
            count: Any = mode.count
            sizes = tuple([min(max(count, low), high) for low, high in bounds])
        else:
            sizes = tuple([env.create_unbacked_symint(low, high) for low, high in bounds])
        try:
            return _call(mode, _with_sizes(function), (sizes, *args), kwargs)
        except WantedSize as wanted:
            bounds.append((wanted.low, wanted.high))


def _placed(mode: FakeTensorMode, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    if mode.shape_env is None or not any(getattr(x, "_is_symbolic", False) for x in args[2:]):
        return _run(mode, func, args, kwargs)
    # lazily: for programs with places that change
    from facula.fx.unknown_places import viewed

    return viewed(_run, mode, func, args, kwargs)


def _run_inplace(mode: FakeTensorMode, func: Callable[..., Any], args: Any, kwargs: object) -> Any:
    _call(mode, getattr(func, "_op", func), args, kwargs)
    return args[0]


def _run_reshape(mode: FakeTensorMode, func: Any, args: Any, kwargs: Any) -> Any:
    """`t_`, `squeeze_`, ...: the tensor takes the geometry of its view."""
    function = getattr(func, "_op", func)
    core.take_geometry(args[0], _call(mode, function.op, args, kwargs))
    return args[0]


def _run_directly(mode: FakeTensorMode, func: object, args: Any, kwargs: object) -> Any:
    """A method that changes the memory of its tensor, which a fake one has like others."""
    mode.constants.forget(args[0])
    core.undispatched(getattr(func, "_function", getattr(func, "_op", func)), *args)
    return args[0]


def _counted(mode: FakeTensorMode, func: Any, args: Any, kwargs: Any) -> Any:
    """An operator whose result's size depends on elements: the size is a number without an example."""
    env = mode.shape_env
    function = getattr(func, "_op", func)
    counted = function.definition.counted
    allowed = mode.count is not None if env is None else env.allow_dynamic_output_shape_ops
    if not allowed or counted is None:
        raise DynamicOutputShapeException(func)
    bound, _ = core.bind_arguments(function, args, kwargs)
    if function.definition.meta is not None:
        function.definition.meta(*bound)
    mode.counted = True
    count = mode.count if env is None else env.create_unbacked_symint(low=0)
    return _call(mode, counted, (count, *bound), {})


def _read(mode: FakeTensorMode, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A number that is read from elements: one without an example."""
    env, t = mode.shape_env, args[0]
    if env is None or not env.allow_scalar_outputs or t.dtype.is_complex:
        raise DataDependentOutputException(func)
    if (known := mode.numbers.get(id(t))) and known[0]() is t and known[1] == t._version:
        return known[2]
    if t.dtype is core.bool_:
        made: Any = env.create_unbacked_symbool()
    elif t.dtype.is_floating_point:
        made = env.create_unbacked_symfloat()
    else:
        made = env.create_unbacked_symint(*integer_range(t.dtype))
    mode.numbers[id(t)] = weakref.ref(t), t._version, made
    return made


def _convert(mode: FakeTensorMode, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    if not isinstance(args[0], FakeTensor):
        args = (mode.admit(args[0]), *args[1:])
    if "device" in kwargs:  # another device is other memory
        kwargs = {**kwargs, "copy": True}
        if args[0].fake_device.type == "meta":  # nothing is copied: any device may be stood for
            source: Any = core.fake_like(type(args[0]), args[0], mode)
            source.fake_device = core.device(kwargs["device"])
            args = (source, *args[1:])
    return _call(mode, Tensor.to, args, kwargs)


def _lift(mode: FakeTensorMode, func: Callable[..., Any], args: Any, kwargs: object) -> Any:
    """A constant of the program: the one place where a real tensor becomes fake unasked."""
    t = args[0]
    if isinstance(t, FakeTensor):
        return t
    made = core.fake_like(mode.tensor_class, t, mode)
    if type(t) is Tensor and not t.is_meta and not t.requires_grad:
        mode.constants.keep(made, t)
    return made


def _lift_copy(mode: FakeTensorMode, func: Callable[..., Any], args: Any, kwargs: object) -> Any:
    """The same, in memory of its own where it is fake already."""
    t = args[0]
    if not isinstance(t, FakeTensor):
        return _lift(mode, func, args, kwargs)
    made: Any = core.fake_like(mode.tensor_class, t, mode)
    made.fake_device, made._symbolic = t.fake_device, t._symbolic
    return made


def _plan_of(func: Callable[..., Any]) -> Any:
    overload = overload_of(func)
    function = getattr(overload, "_op", overload)
    name = getattr(overload, "_opname", "")
    special = _SPECIAL.get(METHOD_NAMES.get(name, name))
    if special is not None:
        return special
    definition = getattr(function, "definition", None)
    if isinstance(function, core.InplaceOp):
        return _run_reshape if function.op.definition.kind == "view" else _run_inplace
    if definition is None and getattr(function, "__name__", "").endswith("_"):
        return _run_inplace
    if definition is not None and definition.dynamic:
        return _counted
    return _run


_SPECIAL = {
    "_to_copy": _convert,
    "_local_scalar_dense": _read,
    "lift_fresh_copy": _lift_copy,
    "resize_": _run_directly,
    "set_": _run_directly,
    "slice": _placed,
    "select": _placed,
}
_PLANS: dict[Any, Any] = {}


class FakeCopyMode:
    """A block in which `copy.deepcopy` of tensors gives fake ones."""

    def __init__(self, fake_mode: FakeTensorMode) -> None:
        self.fake_mode = fake_mode

    def __enter__(self) -> FakeCopyMode:
        mode = self.fake_mode
        self.before = [(kind, vars(kind)["__deepcopy__"]) for kind in (Tensor, Parameter)]

        def fake_copy(t: Tensor, memo: dict[int, Any]) -> Any:
            memo[id(t)] = made = mode.from_tensor(t, static_shapes=True)
            return made

        for kind, _ in self.before:
            core.set_type_attribute(kind, "__deepcopy__", fake_copy)
        return self

    def __exit__(self, *exception: object) -> None:
        for kind, own in self.before:
            core.set_type_attribute(kind, "__deepcopy__", own)


def is_fake(x: object) -> bool:
    """Whether something is a fake tensor."""
    return isinstance(x, FakeTensor)


def maybe_get_fake_mode(t: Any) -> Any:
    """The mode of a fake tensor; None for anything else."""
    return t.fake_mode if isinstance(t, FakeTensor) else None


def unset_fake_temporarily() -> Any:
    """A block without the active fake mode."""
    return _Undisturbed()


def detect_fake_mode(inputs: object = None) -> FakeTensorMode | None:
    """The mode of fake tensors among nested inputs, else the active one; None where there is neither.

    Raises:
        AssertionError: fake tensors of several modes.
    """
    found = [leaf.fake_mode for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, FakeTensor)]
    found += [mode for mode in core.DISPATCH_MODES if isinstance(mode, FakeTensorMode)]
    for mode in found[1:]:
        if mode is not found[0]:
            fail(
                AssertionError,
                "detect_fake_mode",
                "fake tensors of one mode were required",
                got="several",
                hint="convert all inputs with the same mode",
            )
    return found[0] if found else None
