"""PyTorch's ways to define and complete an operator: `custom_op`, `define`, `impl`, `Library`, ...

Takes qualified names (`namespace::name`), schemas and functions. Gives operators in the table.
Keeps true: what is registered for an operator takes effect at the next call; registering twice for
one device replaces nothing silently.
"""

from __future__ import annotations

import contextlib
import logging
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from facula import core, devices, ops
from facula.autograd.autocast import DEFAULT_DTYPES
from facula.core.errors import fail
from facula.ops import REFUSED_LIBRARIES
from facula.ops.table.registry import TABLE, F
from facula.ops.table.tags import Tag, as_tags
from facula.utils.backend_registration import privateuse1_name

from .custom import EVERY_DEVICE, CustomOperator, find, make
from .schemas import infer_schema

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "impl", "register_autograd", "register_fake",
    "register_kernel", "register_torch_dispatch", "register_vmap",
]  # fmt: skip

#: PyTorch's dispatch keys -> device types; the rest are handled by name in `_register`
_DEVICE_OF_KEY = {"CPU": "cpu", "CUDA": "cuda", "MPS": "mps", "XPU": "xpu", "Meta": "meta"}
_EVERY_KEY = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "default")
_IMPLICIT_KEY = "CompositeImplicitAutograd"
#: functions for operators that nobody has defined yet, with their keys: entered once somebody does
_WAITING: dict[str, list[tuple[str, Callable[..., Any]]]] = {}


def _device_of(key: str) -> str:
    if key == "PrivateUse1":
        return privateuse1_name()
    return _DEVICE_OF_KEY.get(key, key)


def _register(definition: CustomOperator, key: str, function: Callable[..., Any]) -> None:
    """Enters a function of an operator under a dispatch key or a device type."""
    if key in (_IMPLICIT_KEY, ""):
        definition.composite = function
        definition.set_gradient()
    elif key.startswith("Autograd"):
        definition.gradient, definition.autograd_key = None, key
        definition.operator.autograd = lambda *args: definition.call(function, args)
    else:
        device = EVERY_DEVICE if key in _EVERY_KEY else _device_of(key)
        if device != EVERY_DEVICE:
            core.device(device)  # says which devices there are
        if device in definition.kernels:
            _refuse_second(definition, device)
        definition.kernels[device] = function
        definition.explicit |= key.startswith("CompositeExplicit")
    definition.origin = definition.origin or function


def _refuse_second(definition: CustomOperator, device: str) -> None:
    """Raises: a function of that device is there."""
    own = "Meta" if device == "meta" else device
    code = getattr(definition.kernels[device], "__code__", None)
    first = f" at {code.co_filename}:{code.co_firstlineno}" if code is not None else ""
    required = (
        f"one kernel for '{device}' was required (already a kernel registered{first}: the operator "
        f"already has a DispatchKey::{own} implementation)"
    )
    hint = "replace the function in the first registration"
    fail(RuntimeError, definition.name, required, "another", hint)


def _refuse_keyword_tensors(definition: CustomOperator, what: str) -> None:
    """Raises where tensors may be passed by keyword only, of which gradients and batches know nothing."""
    named = [p.name for p in definition.schema.parameters if p.keyword_only and p.is_tensor]
    if named:
        required = "tensors as positional arguments were required (kwarg-only Tensor args)"
        fail(NotImplementedError, what, required, ", ".join(named), "put them in front of the *")


class CustomOpDef:
    """An operator made by `custom_op`: callable, with methods that register its other parts.

    ``register_fake`` gives shapes, ``register_autograd`` the gradient, ``register_kernel`` other
    devices, ``register_vmap`` batches.

    Args:
        definition: its definition
        function: what it runs

    Example:
        >>> @facula.library.custom_op("docs::doubled2", mutates_args=())
        ... def doubled(x: facula.Tensor) -> facula.Tensor:
        ...     return x.clone() * 2
        >>> type(doubled).__name__
        'CustomOpDef'
    """

    def __init__(self, definition: CustomOperator, function: Callable[..., Any]) -> None:
        self._definition = definition
        self._init_fn = function
        self._operator = definition.operator
        self.__name__ = definition.name.rpartition("::")[2]
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.__wrapped__ = function

    @property
    def _qualname(self) -> str:
        return self._definition.name

    @property
    def _opoverload(self) -> Any:
        space, _, name = self._definition.name.partition("::")
        return getattr(getattr(ops, space), name).default

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return self._operator(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def register_kernel(
        self,
        device_types: str | Sequence[str] | None,
        fn: Callable[..., Any] | None = None,
        /,
    ) -> Any:
        """Registers a function for some device types (None: all); usable as a decorator."""
        return register_kernel(self, device_types, fn)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Registers the function that gives results without data for arguments without data."""
        return register_fake(self, fn)

    register_meta = register_fake

    def register_autograd(
        self,
        backward: Callable[..., Any],
        /,
        *,
        setup_context: Callable[..., Any] | None = None,
    ) -> None:
        """Registers the gradient, see `facula.library.register_autograd`."""
        register_autograd(self, backward, setup_context=setup_context)

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """Registers the rule for `vmap`: `func(info, in_dims, *args)` gives results and their dims."""
        return register_vmap(self, func)

    def register_autocast(self, device_type: str, cast_inputs: core.dtype) -> None:
        """Registers the dtype that autocast gives to inputs, see `facula.library.register_autocast`."""
        register_autocast(self, device_type, cast_inputs)

    def register_torch_dispatch(
        self, torch_dispatch_class: type, fn: Callable[..., Any] | None = None, /
    ) -> Any:
        """Registers what a dispatch class or mode does with the operator."""
        return register_torch_dispatch(self, torch_dispatch_class, fn)

    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Any:
        """A block in which, or after which, the kernel of a device type is used or not."""
        return _KernelSwitch(self._definition, device_type, enabled)


class _KernelSwitch:
    """Takes effect when made, and is undone at the end of a block."""

    def __init__(self, definition: CustomOperator, device: str, enabled: bool) -> None:
        self.disabled, self.device = definition.disabled, device
        self.before = device in self.disabled
        note = (
            f"already {'enabled' if enabled else 'disabled'}" if self.before is not enabled else ""
        )
        if device not in definition.kernels:
            note = "no kernel was registered for this device type"
        if note:
            # as PyTorch tells it, under the name that the program knows this module by
            log = logging.getLogger(f"{core.DTYPE_PREFIX[0]}._library.custom_ops")
            log.warning("%s: set_kernel_enabled(%r): %s", definition.name, device, note)
        (self.disabled.discard if enabled else self.disabled.add)(device)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        (self.disabled.add if self.before else self.disabled.discard)(self.device)


#: what `custom_op` made, by name
_BY_FUNCTION: dict[str, CustomOpDef] = {}


def _forget(qualname: str) -> None:
    """Take an operator out of the table."""
    TABLE.pop(qualname, None)
    vars(F).pop(qualname, None)
    _BY_FUNCTION.pop(qualname, None)


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Sequence[Any] | None = None,
) -> Any:
    """Makes a function an operator, which transforms and the compiler do not look into.

    Args:
        name: ``namespace::name``
        fn: the function; without it, the result is a decorator
        mutates_args: names of the tensors that it writes to, or 'unknown'
        device_types: for which it is; None for all
        schema: None for that of the annotations
        tags: words about it

    Returns:
        a `CustomOpDef`.

    Raises:
        ValueError: annotations say no schema.

    Example:
        >>> @facula.library.custom_op("docs::doubled1", mutates_args=())
        ... def doubled(x: facula.Tensor) -> facula.Tensor:
        ...     return x.clone() * 2
        >>> doubled(facula.ones(2))
        tensor([2., 2.])
    """

    def decorate(function: Callable[..., Any]) -> CustomOpDef:
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema
        if _BY_FUNCTION.pop(name, None) is not None:  # a second custom_op takes the first's place
            _forget(name)
        definition = make(name, text)
        if not definition.mutated:  # what writes has no gradient anyway
            try:
                _refuse_keyword_tensors(definition, "custom_op")
            except NotImplementedError:
                _forget(name)
                raise
        definition.tags = (Tag.pt2_compliant_tag, *as_tags(tags))
        definition.checks_results = True
        definition.set_gradient()
        made = _BY_FUNCTION[name] = CustomOpDef(definition, function)
        made.register_kernel(device_types, function)
        return made

    return decorate if fn is None else decorate(fn)


def define(
    qualname: str, schema: str | None = None, *, lib: object = None, tags: Any = ()
) -> Callable[..., Any] | None:
    """Defines an operator by its schema.

    Args:
        qualname: ``namespace::name``
        schema: ``(Tensor x) -> Tensor``
        lib: a `Library`; None for one that stays
        tags: words about it

    Example:
        >>> facula.library.define("docs::negated", "(Tensor x) -> Tensor")
        >>> _ = facula.library.impl("docs::negated", "default", lambda x: -x)
        >>> facula.ops.docs.negated(facula.ones(1))
        tensor([-1.])
    """
    if schema is None or callable(schema):
        fail(
            ValueError,
            "define",
            "a schema '(Tensor x) -> Tensor' was required",
            repr(schema),
            hint="for example define('mylib::scale', '(Tensor x, float factor) -> Tensor')",
        )
    if not schema.lstrip().startswith("("):
        fail(
            ValueError,
            "define",
            "a schema '(Tensor x) -> Tensor' was required (expected schema to look like e.g. "
            '"(Tensor x) -> Tensor")',
            repr(schema),
            hint="the name stands in the first argument",
        )
    if isinstance(lib, Library):  # whose namespace it is, whatever the name says
        name = qualname.rpartition("::")[2]
        qualname = f"{lib.ns}::{name}"
        _own(lib, name)
    _make(qualname, schema, tags)
    return None


def _decorator(function: Callable[..., Any] | None, enter: Callable[[Any], Any]) -> Any:
    def decorate(given: Callable[..., Any]) -> Callable[..., Any]:
        enter(given)
        return given

    return decorate if function is None else decorate(function)


def impl(
    qualname: Any,
    types: str | Sequence[str],
    func: Callable[..., Any] | None = None,
    *,
    lib: object = None,
) -> Any:
    """Registers a function for device types or dispatch keys of an operator; also a decorator.

    The operator may be defined later; until then nothing calls the function.

    Args:
        qualname: ``namespace::name``; or, in the older form, a library
        types: 'cpu', 'default' for all, or a dispatch key
        func: the function
        lib: a `Library`; None for one that stays

    Example:
        >>> facula.library.define("docs::halved", "(Tensor x) -> Tensor")
        >>> @facula.library.impl("docs::halved", "cpu")
        ... def halved(x):
        ...     return x / 2
        >>> facula.ops.docs.halved(facula.ones(1))
        tensor([0.5000])
    """
    if isinstance(qualname, Library):
        library, name, key = qualname, types, func if isinstance(func, str) else ""
        return _decorator(None, lambda function: library.impl(name, function, key))
    keys = [types] if isinstance(types, str) else list(types)

    def enter(function: Callable[..., Any]) -> None:
        for key in keys:
            _implement(str(qualname) if isinstance(qualname, str) else qualname, key, function)

    return _decorator(func, enter)


def _implement(qualname: str, key: str, function: Callable[..., Any]) -> None:
    """Registers for a user's operator, or for one of facula's on a device of a package."""
    if isinstance(qualname, str) and qualname.partition("::")[0] == "aten":
        name = qualname.partition("::")[2].partition(".")[0]
        if name not in TABLE:
            fail(
                RuntimeError,
                "impl",
                "the name of an operator was required",
                repr(qualname),
                hint="facula.ops.TABLE has the names",
            )
        device = _device_of(key)
        if device in ("cpu", "meta", "default", "") or key.startswith(("Composite", "Autograd")):
            hint = "define an operator of your own, or use a TorchDispatchMode"
            required = f"a device that a package adds was required for '{qualname}'"
            fail(NotImplementedError, "impl", required, repr(key), hint)
        _backend_for(device).implement(name, function)
        return
    if _needs_nothing(qualname):
        return
    if isinstance(qualname, str) and _plain(qualname) not in TABLE:
        _WAITING.setdefault(_plain(qualname), []).append((key, function))
    else:
        _register(find(qualname), key, function)


def _plain(qualname: str) -> str:
    return qualname.removesuffix(".default")


def _make(qualname: str, schema: str, tags: Any) -> None:
    """Defines an operator, with what was registered for it before."""
    definition = make(qualname, schema)
    definition.tags = as_tags(tags)
    for key, function in _WAITING.pop(_plain(qualname), ()):
        _register(definition, key, function)


def _backend_for(device: str) -> Any:
    """The device's backend; one in host memory is made where there is none."""
    if device not in devices.registered() and not devices.load(device):
        devices.register(device, {})
    backend = devices.get(device)
    if not hasattr(backend, "implement"):
        required = f"a backend that takes single kernels was required for '{device}'"
        fail(
            NotImplementedError,
            "impl",
            required,
            type(backend).__name__,
            hint="give the backend a method implement(name, function)",
        )
    return backend


def register_kernel(
    op: object,
    device_types: str | Sequence[str] | None,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: object = None,
) -> Any:
    """Registers a function for some device types of an operator.

    Args:
        op: an operator, or its name
        device_types: 'cpu' and others; None for all
        func: the function; without it, the result is a decorator
        lib: a `Library`; None for one that stays

    Example:
        >>> @facula.library.custom_op("docs::doubled6", mutates_args=(), device_types="meta")
        ... def doubled(x: facula.Tensor) -> facula.Tensor:
        ...     return facula.empty_like(x)
        >>> _ = facula.library.register_kernel("docs::doubled6", "cpu", lambda x: x * 2)
        >>> doubled(facula.ones(2))
        tensor([2., 2.])
    """
    definition = find(op)
    if device_types is None:
        device_types = EVERY_DEVICE
    keys = [device_types] if isinstance(device_types, str) else list(device_types)

    def register(function: Callable[..., Any]) -> None:
        for key in keys:
            _register(definition, key, function)

    return _decorator(func, register)


def _needs_nothing(op: CustomOpDef | str) -> bool:
    """Whether nothing is registered for an operator: it would stand in a compiled library that could
    not be loaded, or in one that facula serves by definitions of its own, which are complete."""
    name = op if isinstance(op, str) else getattr(op, "_qualified_op_name", "")
    namespace, name = name.partition("::")[0], name.partition(".")[0]
    if namespace in REFUSED_LIBRARIES and name not in TABLE:
        return True
    return name in TABLE and TABLE[name].definition.serves


def register_fake(
    op: Any,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: object = None,
    _stacklevel: int = 1,
    allow_override: bool = False,
) -> Any:
    """Registers the function that gives results without data for arguments without data
    (`register_fake`).

    Args:
        op: an operator, or its name
        func: the function; without it, the result is a decorator
        lib: a `Library`; None for one that stays
        allow_override: whether one may be there

    Example:
        >>> @facula.library.custom_op("docs::doubled4", mutates_args=())
        ... def doubled(x: facula.Tensor) -> facula.Tensor:
        ...     return x.clone() * 2
        >>> @facula.library.register_fake("docs::doubled4")
        ... def _(x):
        ...     return facula.empty_like(x)
        >>> doubled(facula.ones(2, device="meta")).shape
        facula.Size([2])
    """
    if _needs_nothing(op):
        return _decorator(func, lambda function: None)
    definition = find(op)

    def enter(function: Callable[..., Any]) -> None:
        if allow_override:
            definition.kernels.pop("meta", None)
        elif definition.composite is not None:
            required = "an operator without a CompositeImplicitAutograd implementation was required"
            hint = (
                "what it is made of says shapes already; register under CompositeExplicitAutograd"
            )
            fail(RuntimeError, "register_fake", required, definition.name, hint)
        _register(definition, "meta", function)

    return _decorator(func, enter)


impl_abstract = register_fake


def register_autograd(
    op: Any,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: object = None,
) -> None:
    """Registers the gradient of an operator.

    Args:
        op: an operator, or its name
        backward: ``backward(ctx, *grads)`` gives one gradient for each positional argument
        setup_context: ``setup_context(ctx, inputs, output)`` keeps what that needs
        lib: a `Library`; None for one that stays

    Example:
        >>> @facula.library.custom_op("docs::doubled5", mutates_args=())
        ... def doubled(x: facula.Tensor) -> facula.Tensor:
        ...     return x.clone() * 2
        >>> facula.library.register_autograd("docs::doubled5", lambda ctx, grad: grad * 2)
        >>> x = facula.ones(2, requires_grad=True)
        >>> doubled(x).sum().backward()
        >>> x.grad
        tensor([2., 2.])
    """
    if _needs_nothing(op):
        return
    definition = find(op)
    if definition.mutated:
        required = "an operator that writes to no argument was required (must be functional)"
        fail(
            RuntimeError,
            "register_autograd",
            required,
            definition.name,
            hint="return new tensors instead of writing, and copy_() them outside",
        )
    if definition.views:
        required = "an operator whose results have memory of their own was required"
        got = f"{definition.name}, an operator that returns views"
        fail(RuntimeError, "register_autograd", required, got, "return clones, or use a composite")
    _refuse_keyword_tensors(definition, "register_autograd")
    definition.gradient, definition.setup_context = backward, setup_context
    definition.set_gradient()


def register_vmap(
    op: object, func: Callable[..., Any] | None = None, /, *, lib: object = None
) -> Any:
    """Registers the rule of an operator for `vmap`.

    Args:
        op: an operator, or its name
        func: ``func(info, in_dims, *args)`` gives the result and its batch dimension; without it,
            the result is a decorator
        lib: a `Library`; None for one that stays

    Example:
        >>> @facula.library.custom_op("docs::doubled7", mutates_args=())
        ... def doubled(x: facula.Tensor) -> facula.Tensor:
        ...     return x.clone() * 2
        >>> @facula.library.register_vmap("docs::doubled7")
        ... def _(info, in_dims, x):
        ...     return x * 2, in_dims[0]
        >>> facula.vmap(doubled)(facula.ones(3, 2)).shape
        facula.Size([3, 2])
    """
    definition = find(op)
    _refuse_keyword_tensors(definition, "register_vmap")
    return _decorator(func, lambda function: setattr(definition, "batching", function))


def register_autocast(
    op: object, device_type: str, cast_inputs: core.dtype, /, *, lib: object = None
) -> None:
    """Registers the dtype that autocast gives to an operator's inputs on a type of device.

    Args:
        op: an operator, or its name
        device_type: 'cpu', or that of an accelerator
        cast_inputs: the dtype of floating-point tensors among the inputs; the operator runs with
            autocast off
        lib: a `Library`; None for one that stays

    Raises:
        ValueError: an unknown type of device, or no floating-point dtype

    Example:
        >>> @facula.library.custom_op("docs::doubled9", mutates_args=())
        ... def doubled(x: facula.Tensor) -> facula.Tensor:
        ...     return x.clone() * 2
        >>> facula.library.register_autocast("docs::doubled9", "cpu", facula.bfloat16)
        >>> with facula.autocast("cpu"):
        ...     doubled(facula.ones(1)).dtype
        facula.bfloat16
    """
    definition = find(op)
    if device_type not in DEFAULT_DTYPES:
        fail(ValueError, "register_autocast", "a type of device that autocast knows was required (Unknown device type)",
             repr(device_type), hint="'cpu' or 'cuda'")  # fmt: skip
    if not isinstance(cast_inputs, core.dtype) or not cast_inputs.is_floating_point:
        fail(ValueError, "register_autocast", "a floating-point dtype was required", cast_inputs,
             hint="facula.float16, facula.bfloat16 or facula.float32")  # fmt: skip
    kind = "cpu" if device_type == "cpu" else "accelerator"
    others = [
        part for part in str(definition.autocast).split(", ") if part and not part.startswith(kind)
    ]
    definition.autocast = ", ".join([*others, f"{kind} {str(cast_inputs).rpartition('.')[2]}"])


def register_torch_dispatch(
    op: object,
    torch_dispatch_class: type,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: object = None,
) -> Any:
    """Registers what a dispatch class or mode does at calls of an operator.

    Args:
        op: an operator, or its name
        torch_dispatch_class: a tensor class or a mode
        func: ``func(mode, func, types, args, kwargs)`` (of a mode); without it, the result is a
            decorator
        lib: a `Library`; None for one that stays

    Example:
        >>> from facula.utils._python_dispatch import TorchDispatchMode
        >>> class Mode(TorchDispatchMode):
        ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        ...         return func(*args, **(kwargs or {}))
        >>> @facula.library.custom_op("docs::doubled8", mutates_args=())
        ... def doubled(x: facula.Tensor) -> facula.Tensor:
        ...     return x.clone() * 2
        >>> @facula.library.register_torch_dispatch("docs::doubled8", Mode)
        ... def _(mode, func, types, args, kwargs):
        ...     return args[0] * 20
        >>> with Mode():
        ...     doubled(facula.ones(1))
        tensor([20.])
    """
    operator = find(op).operator
    kind: Any = torch_dispatch_class

    def enter(function: Callable[..., Any]) -> None:
        before = kind.__torch_dispatch__

        def handle(
            self: Any,
            called: object,
            types: object,
            args: object = (),
            kwargs: dict[str, Any] | None = None,
        ) -> Any:
            if getattr(called, "_op", called) is operator:  # an overload is heard
                return function(self, called, types, args, kwargs or {})
            return before(self, called, types, args, kwargs)

        if isinstance(vars(kind).get("__torch_dispatch__"), classmethod):
            before = kind.__torch_dispatch__.__func__
            kind.__torch_dispatch__ = classmethod(handle)
        else:
            kind.__torch_dispatch__ = handle

    return _decorator(func, enter)


class _Kept:
    """As long as it lives, the operators of a library cannot be defined again."""


class Library:
    """A namespace in which operators are defined or completed, as PyTorch's extensions do.

    Args:
        ns: its name
        kind: 'DEF', 'FRAGMENT' or 'IMPL'
        dispatch_key: of 'IMPL' without another key

    Example:
        >>> library = facula.library.Library("docs3", "DEF")
        >>> _ = library.define("triple(Tensor x) -> Tensor")
        >>> library.impl("triple", lambda x: 3 * x, "CompositeExplicitAutograd")
        >>> facula.ops.docs3.triple(facula.ones(1))
        tensor([3.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            fail(
                ValueError,
                "Library",
                "the kind IMPL, DEF or FRAGMENT was required",
                kind,
                hint="'DEF' for a namespace of your own, 'FRAGMENT' to add to it, 'IMPL' for "
                "kernels",
            )
        if ns in ("aten", "prim", "prims") and kind != "IMPL":
            required = f"a namespace of one's own was required for the kind {kind}"
            fail(
                ValueError,
                "Library",
                required,
                f"{ns} is a reserved namespace",
                hint="the kind IMPL adds kernels to operators that exist",
            )
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        #: what keeps the operators: a program that deletes it may define them anew
        self.m: _Kept | None = _Kept()
        self.defined: list[str] = []

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Defines `name(arguments) -> results` in the namespace; gives the name."""
        if self.kind == "IMPL":
            fail(
                RuntimeError,
                "Library",
                "the kind DEF or FRAGMENT was required",
                "IMPL",
                hint="make another Library of the namespace with the kind FRAGMENT",
            )
        name = schema.partition("(")[0].strip()
        _own(self, name)
        _make(f"{self.ns}::{name}", schema, tags)
        return name

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """Registers a function for a dispatch key (the library's, where none is given)."""
        name = op_name if isinstance(op_name, str) else op_name._qualified_op_name
        qualname = name if "::" in name else f"{self.ns}::{name}"
        _implement(qualname, dispatch_key or self.dispatch_key or _IMPLICIT_KEY, fn)

    def fallback(self, fn: Callable[..., Any], dispatch_key: str = "", **options: object) -> None:
        """Not offered: what handles every operator is a `TorchDispatchMode`."""
        hint = "use facula.utils._python_dispatch.TorchDispatchMode"
        fail(NotImplementedError, "Library", "single operators were required", "fallback", hint)

    def _register_torch_dispatch_rule(
        self, op_name: str, torch_dispatch_class: type, fn: Callable[..., Any]
    ) -> None:
        """Registers what a class of tensors, or a mode, does with an operator of the namespace."""
        register_torch_dispatch(f"{self.ns}::{op_name}", torch_dispatch_class, fn)

    def _destroy(self) -> None:
        for name in self.defined:
            _forget(f"{self.ns}::{name}")
        self.defined.clear()
        self.m = None


#: what keeps an operator that a library defined
_OWNERS: dict[str, weakref.ref[_Kept]] = {}


def _own(library: Library, name: str) -> None:
    """Note who defines an operator; one of a library that is gone makes room."""
    qualname = f"{library.ns}::{name}"
    owner = _OWNERS.get(qualname)
    if owner is not None and owner() is None:
        _forget(qualname)
    if qualname not in TABLE and library.m is not None:
        _OWNERS[qualname] = weakref.ref(library.m)
        library.defined.append(name)


@contextlib.contextmanager
def _scoped_library(ns: str, kind: str, dispatch_key: str = "") -> Iterator[Library]:
    """A library whose operators are gone at the end of the block."""
    library = Library(ns, kind, dispatch_key)
    try:
        yield library
    finally:
        library._destroy()
