"""Parameters and buffers computed from others: parametrizations.

Takes a module, the name of one of its tensors and a module that computes it.  Gives the module with
the tensor as a property, computed at every access from `parametrizations.<name>.original`.
Keeps true: the module's class is replaced by a subclass of its own, which holds the properties; the
original class comes back when the last parametrization goes.
"""

from __future__ import annotations

import collections
import copyreg
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from facula import core
from facula.autograd.grad_mode import no_grad
from facula.core.errors import fail
from facula.nn.modules.container import Module, ModuleDict, ModuleList
from facula.nn.parameter import Parameter

__all__ = """cached ParametrizationList register_parametrization is_parametrized
remove_parametrizations type_before_parametrizations transfer_parametrizations_and_params""".split()

_cache_enabled = 0
_cache: dict[tuple[int, str], Any] = {}


@contextmanager
def cached() -> Iterator[None]:
    """A block in which every parametrized tensor is computed once.

    Example:
        >>> class Symmetric(facula.nn.Module):
        ...     def forward(self, x):
        ...         return x.triu() + x.triu(1).T
        >>> layer = facula.nn.Linear(2, 2)
        >>> _ = facula.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
        >>> with facula.nn.utils.parametrize.cached():
        ...     layer.weight is layer.weight
        True
    """
    global _cache, _cache_enabled
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache = {}


def _set(module: Module, name: str, tensor: Parameter) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _maybe_set(tensor: core.Tensor, value: core.Tensor) -> None:
    """Set data, unless that is what is there already."""
    if tensor is not value and not (
        tensor.shape == value.shape
        and tensor.dtype == value.dtype
        and tensor.device == value.device
        and core.storage_key(tensor) == core.storage_key(value)
        and tensor.stride() == value.stride()
        and tensor.storage_offset() == value.storage_offset()
    ):
        tensor.data = value


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, and what they start from: ``original``, or ``original0`` and
    so on.

    Args:
        modules: the parametrizations, the first one first
        original: the tensor
        unsafe: whether shape, dtype and inverse are not checked

    Example:
        >>> class Symmetric(facula.nn.Module):
        ...     def forward(self, x):
        ...         return x.triu() + x.triu(1).T
        >>> layer = facula.nn.Linear(2, 2)
        >>> _ = facula.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
        >>> type(layer.parametrizations.weight).__name__, len(layer.parametrizations.weight)
        ('ParametrizationList', 1)
    """

    original: Any
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Any, unsafe: bool = False) -> None:
        if len(modules) == 0:
            fail(
                ValueError,
                "ParametrizationList",
                "ParametrizationList requires one or more modules.",
                hint="register_parametrization(module, name, parametrization) makes the list",
            )
        super().__init__(modules)
        self.unsafe = unsafe
        original_shape, original_dtype = original.shape, original.dtype
        with no_grad():
            new: Any = original
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    continue
                try:
                    new = module.right_inverse(new)
                except NotImplementedError:
                    pass
        if not isinstance(new, core.Tensor) and not isinstance(new, collections.abc.Sequence):
            fail(
                ValueError,
                "register_parametrization",
                (
                    "'right_inverse' must return a Tensor or a Sequence of tensors. Got "
                    f"{type(new).__name__}"
                ),
                hint="return a tensor, or a list of them",
            )
        self.is_tensor = isinstance(new, core.Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            self._keep_single(original, new)
        else:
            self._keep_several(original, new)
        if not unsafe:
            self._check_round_trip(original, original_shape, original_dtype)

    def _keep_single(self, original: Any, new: Any) -> None:
        if original.dtype != new.dtype:
            fail(
                ValueError,
                "register_parametrization",
                (
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {new.dtype}"
                ),
                hint="value.to(x.dtype) in right_inverse keeps it",
            )
        if original.device != new.device:
            fail(
                ValueError,
                "register_parametrization",
                (
                    "When `right_inverse` outputs one tensor, it may not change the device.\n"
                    f"original.device: {original.device}\nright_inverse(original).device: "
                    f"{new.device}"
                ),
                hint="value.to(x.device) in right_inverse keeps it",
            )
        with no_grad():
            _maybe_set(original, new)
        _set(self, "original", original)

    def _keep_several(self, original: Any, new: Any) -> None:
        for i, tensor in enumerate(new):
            if not isinstance(tensor, core.Tensor):
                fail(
                    ValueError,
                    "register_parametrization",
                    (
                        "'right_inverse' must return a Tensor or a Sequence of tensors. Got element "
                        f"{i} of the sequence with type {type(tensor).__name__}."
                    ),
                    hint="return a tensor, or a list of them",
                )
            if isinstance(original, Parameter):
                tensor = Parameter(tensor, original.requires_grad)
            tensor.requires_grad_(original.requires_grad)
            _set(self, f"original{i}", tensor)

    def _check_round_trip(
        self, original: core.Tensor, shape: Sequence[int], dtype: core.dtype
    ) -> None:
        z = self()
        if not isinstance(z, core.Tensor):
            fail(
                ValueError,
                "register_parametrization",
                f"A parametrization must return a tensor. Got {type(z).__name__}.",
                hint="return the new value from forward",
            )
        if z.dtype != dtype:
            fail(
                ValueError,
                "register_parametrization",
                (
                    "Registering a parametrization may not change the dtype of the tensor, "
                    f"unless `unsafe` flag is enabled.\nunparametrized dtype: {dtype}\nparametrized "
                    f"dtype: {z.dtype}"
                ),
                hint="unsafe=True skips the check",
            )
        if z.shape != shape:
            fail(
                ValueError,
                "register_parametrization",
                (
                    "Registering a parametrization may not change the shape of the tensor, "
                    f"unless `unsafe` flag is enabled.\nunparametrized shape: {shape}\nparametrized "
                    f"shape: {z.shape}"
                ),
                hint="unsafe=True skips the check",
            )

    def _originals(self) -> list[Any]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: object) -> None:
        """Set the originals so that the parametrized tensor becomes ``value``."""
        with no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    fail(
                        RuntimeError,
                        "right_inverse",
                        f"parametrization {type(module).__name__} does not implement right_inverse.",
                        hint="define right_inverse to make the tensor assignable",
                    )
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, core.Tensor):
                    fail(
                        ValueError,
                        "right_inverse",
                        f"`right_inverse` should return a tensor. Got {type(value).__name__}",
                        hint="right_inverse gives back what forward made the value of",
                    )
                if value.dtype != self.original.dtype:
                    fail(
                        ValueError,
                        "right_inverse",
                        (
                            f"The tensor returned by `right_inverse` has dtype {value.dtype} while "
                            f"`original` has dtype {self.original.dtype}"
                        ),
                        hint="value.to(dtype) in right_inverse converts it",
                    )
                _maybe_set(self.original, value)
                return
            self._set_several(value)

    def _set_several(self, value: object) -> None:
        if not isinstance(value, collections.abc.Sequence):
            fail(
                ValueError,
                "right_inverse",
                (f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}."),
                hint="return a list, one tensor for each original",
            )
        if len(value) != self.ntensors:
            fail(
                ValueError,
                "right_inverse",
                (
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. "
                    f"Got a sequence of length {len(value)}."
                ),
                hint="return a list, one tensor for each original",
            )
        for i, tensor in enumerate(value):
            original = getattr(self, f"original{i}")
            if not isinstance(tensor, core.Tensor):
                fail(
                    ValueError,
                    "right_inverse",
                    (
                        f"`right_inverse` must return a sequence of tensors. Got element {i} of type "
                        f"{type(tensor).__name__}"
                    ),
                    hint="return a list, one tensor for each original",
                )
            if original.dtype != tensor.dtype:
                fail(
                    ValueError,
                    "right_inverse",
                    (
                        f"Tensor {i} returned by `right_inverse` has dtype {tensor.dtype} while "
                        f"`original{i}` has dtype {original.dtype}"
                    ),
                    hint="value.to(dtype) in right_inverse converts it",
                )
            _maybe_set(original, tensor)

    def forward(self) -> Any:
        """The parametrized tensor."""
        modules = iter(self)
        x = next(modules)(*self._originals())
        for module in modules:
            x = module(x)
        return x


def _inject_new_class(module: Module) -> None:
    """Give the module a class of its own, to hold properties."""
    cls = module.__class__

    def default_deepcopy(self: Any, memo: dict) -> Any:
        existing = memo.get(id(self))
        if existing is not None:
            return existing
        replica = self.__new__(self.__class__)
        memo[id(self)] = replica
        replica.__dict__ = deepcopy(self.__dict__, memo)
        for slot in copyreg._slotnames(self.__class__):  # type: ignore[attr-defined]
            if hasattr(self, slot):
                setattr(replica, slot, deepcopy(getattr(self, slot), memo))
        return replica

    def getstate(self: Any) -> Any:
        fail(
            RuntimeError,
            "parametrize",
            ("Serialization of parametrized modules is only supported through state_dict()."),
            hint="save module.state_dict(), or call remove_parametrizations() first",
        )

    members: dict[str, Any] = {"__getstate__": getstate}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = default_deepcopy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), members)


def _inject_property(module: Module, tensor_name: str) -> None:
    """Make the tensor a property of the module's own class."""
    if hasattr(module, tensor_name):
        fail(
            AssertionError,
            "parametrize",
            f"{tensor_name} is still an attribute of the module",
            hint="delete the attribute first",
        )

    def get(self: Any) -> Any:
        parametrization = self.parametrizations[tensor_name]
        if not _cache_enabled:
            return parametrization()
        key = (id(self), tensor_name)
        if key not in _cache:
            _cache[key] = parametrization()
        return _cache[key]

    def set_original(self: Any, value: object) -> None:
        _cache.pop((id(self), tensor_name), None)
        self.parametrizations[tensor_name].right_inverse(value)

    setattr(module.__class__, tensor_name, property(get, set_original))


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Computes a tensor of a module by another module, at every access.

    The tensor becomes a property; what it is computed from is
    ``module.parametrizations.<name>.original``, which is learned and stored. Several apply one
    after the other. A ``right_inverse`` of the parametrization, where it has one, is called when
    the tensor is assigned.

    Args:
        module: whose tensor it is
        tensor_name: a parameter or buffer
        parametrization: a module of one tensor
        unsafe: whether shape, dtype and inverse are not checked

    Returns:
        the module.

    Raises:
        ValueError: there is no such tensor, or the parametrization changes its shape or dtype.

    Example:
        >>> class Symmetric(facula.nn.Module):
        ...     def forward(self, x):
        ...         return x.triu() + x.triu(1).T
        >>> layer = facula.nn.Linear(2, 2)
        >>> _ = facula.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
        >>> bool(layer.weight[0, 1] == layer.weight[1, 0])
        True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        _append_parametrization(module, tensor_name, parametrization, unsafe)
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        parametrizations = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = parametrizations
    else:
        fail(
            ValueError,
            "register_parametrization",
            (
                f"Module '{module}' does not have a parameter, a buffer, or a parametrized "
                f"element with name '{tensor_name}'"
            ),
            hint="named_parameters() and named_buffers() list the names",
        )
    return module


def _append_parametrization(module: Module, name: str, new: Module, unsafe: bool) -> None:
    existing = module.parametrizations[name]
    if not unsafe:
        y = getattr(module, name)
        x = new(y)
        if not isinstance(x, core.Tensor):
            fail(
                ValueError,
                "register_parametrization",
                "A parametrization must return a tensor",
                type(x).__name__,
                hint="forward() makes the tensor out of the parameters",
            )
        for attribute in ("dtype", "shape"):
            if getattr(x, attribute) != getattr(y, attribute):
                fail(
                    ValueError,
                    "register_parametrization",
                    (
                        f"Registering a parametrization may not change the {attribute} of the tensor, "
                        f"unless the `unsafe` flag is enabled.\nmodule.{name}.{attribute}: "
                        f"{getattr(y, attribute)}\nparametrization(module.{name}).{attribute}: "
                        f"{getattr(x, attribute)}"
                    ),
                    hint="unsafe=True skips the check",
                )
        if hasattr(new, "right_inverse"):
            _check_right_inverse(new, name, x, y)
    existing.append(new)
    existing.unsafe |= unsafe


def _check_right_inverse(new: Module, name: str, x: core.Tensor, y: core.Tensor) -> None:
    """Refuse an inverse that gives another kind of tensor than the parameter `y` is."""
    try:
        z = new.right_inverse(x)
    except NotImplementedError:
        return
    for attribute in ("dtype", "shape"):
        wanted = getattr(y, attribute)
        if z is not None and (not isinstance(z, core.Tensor) or getattr(z, attribute) != wanted):
            fail(
                ValueError,
                "register_parametrization",
                (
                    f"parametrization.right_inverse must return a tensor of the same {attribute}, "
                    f"unless the `unsafe` flag is enabled: both must have the same {attribute}.\n"
                    f"module.{name}.{attribute}: {wanted}"
                ),
                hint="unsafe=True skips the check",
            )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrizations.

    Args:
        module: which
        tensor_name: of this tensor; None for any

    Example:
        >>> facula.nn.utils.parametrize.is_parametrized(facula.nn.Linear(2, 2), "weight")
        False
    """
    parametrizations = getattr(module, "parametrizations", None)
    if parametrizations is None or not isinstance(parametrizations, ModuleDict):
        return False
    if tensor_name is None:
        return len(parametrizations) > 0
    return tensor_name in parametrizations


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Makes a parametrized tensor an ordinary one again.

    Args:
        module: whose tensor it is
        tensor_name: which
        leave_parametrized: whether it keeps its present value; False for the original's

    Returns:
        the module.

    Raises:
        ValueError: the tensor is not parametrized.

    Example:
        >>> class Symmetric(facula.nn.Module):
        ...     def forward(self, x):
        ...         return x.triu() + x.triu(1).T
        >>> layer = facula.nn.Linear(2, 2)
        >>> _ = facula.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
        >>> _ = facula.nn.utils.parametrize.remove_parametrizations(layer, "weight")
        >>> sorted(name for name, _ in layer.named_parameters())
        ['bias', 'weight']
    """
    if not is_parametrized(module, tensor_name):
        fail(
            ValueError,
            "remove_parametrizations",
            f"Module {module} does not have a parametrization on {tensor_name}",
            hint="parametrize.is_parametrized(module, name) asks before",
        )
    held: Any = module.parametrizations[tensor_name]
    if held.is_tensor:
        original = held.original
        if leave_parametrized:
            with no_grad():
                value = getattr(module, tensor_name)
                if type(original) in (core.Tensor, Parameter):
                    original.data = value
                else:
                    original.set_(value)
    else:
        if not leave_parametrized:
            fail(
                ValueError,
                "remove_parametrizations",
                (
                    "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
                    "parametrized in terms of a sequence of tensors."
                ),
                hint="leave_parametrized=True keeps the present value",
            )
        value = getattr(module, tensor_name)
        grads = any(t.requires_grad for t in held._originals())
        original = Parameter(value.detach(), grads) if grads else value.detach()
    delattr(module.__class__, tensor_name)
    del module.parametrizations[tensor_name]
    _set(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = module.__class__.__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class of a module without the one that parametrizations put in.

    Args:
        module: which

    Example:
        >>> class Symmetric(facula.nn.Module):
        ...     def forward(self, x):
        ...         return x.triu() + x.triu(1).T
        >>> layer = facula.nn.Linear(2, 2)
        >>> _ = facula.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
        >>> type(layer).__name__, facula.nn.utils.parametrize.type_before_parametrizations(layer).__name__
        ('ParametrizedLinear', 'Linear')
    """
    return module.__class__.__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Gives a module the parametrizations of another, and the values of their originals.

    Args:
        from_module: which has them
        to_module: of the same class
        tensor_name: of this tensor; None for all

    Returns:
        ``to_module``.

    Example:
        >>> class Symmetric(facula.nn.Module):
        ...     def forward(self, x):
        ...         return x.triu() + x.triu(1).T
        >>> layer = facula.nn.Linear(2, 2)
        >>> _ = facula.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
        >>> other = facula.nn.Linear(2, 2)
        >>> _ = facula.nn.utils.parametrize.transfer_parametrizations_and_params(layer, other)
        >>> facula.equal(other.weight, layer.weight)
        True
    """
    if not is_parametrized(from_module):
        return to_module
    source: Any = from_module.parametrizations
    names = [tensor_name] if tensor_name is not None else list(source)
    for name in names:
        held = source[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for parametrization in held:
            register_parametrization(to_module, name, parametrization, unsafe=held.unsafe)
        target: Any = to_module.parametrizations[name]
        for old, new in zip(held._originals(), target._originals(), strict=True):
            if type(old) is type(new):
                new.data = old.data
    return to_module
