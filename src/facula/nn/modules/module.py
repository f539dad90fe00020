"""`Module`: a tree of parameters, buffers and submodules with a `forward`.

Takes attributes by assignment: parameters, buffers and modules are registered under their names.
Gives the tree's members by dotted name, moves and casts them, and runs functions over them.
Keeps true: attribute names, registration rules, iteration order and error types are PyTorch's; a
tensor stored twice is one tensor, and `named_*` give it once unless told otherwise.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import facula
from facula import core
from facula.autograd.hooks import RemovableHandle  # noqa: F401
from facula.core.errors import fail
from facula.core.errors import no_attribute as _no_attribute
from facula.nn.modules import module_hooks as _hooks
from facula.nn.modules.module_base import ModuleBase, quicken
from facula.nn.modules.module_conversions import ConversionMixin
from facula.nn.modules.module_hooks import (
    HookMixin,
    _global_backward_hooks,  # noqa: F401 - part of this module's names
    _global_backward_pre_hooks,  # noqa: F401
    _global_buffer_registration_hooks,
    _global_forward_hooks,  # noqa: F401
    _global_forward_hooks_always_called,  # noqa: F401
    _global_forward_hooks_with_kwargs,  # noqa: F401
    _global_forward_pre_hooks,  # noqa: F401
    _global_module_registration_hooks,
    _global_parameter_registration_hooks,
    _has_any_global_hook,  # noqa: F401
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from facula.nn.modules.module_state import (
    _EXTRA_STATE_KEY_SUFFIX,  # noqa: F401
    StateMixin,
    _IncompatibleKeys,  # noqa: F401
)
from facula.nn.parameter import Buffer, Parameter

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

Tensor = core.Tensor


def __getattr__(name: str) -> Any:
    if name == "_global_is_full_backward_hook":
        return _hooks._global_is_full_backward_hook
    raise _no_attribute(__name__, name)


def _addindent(text: str, spaces: int) -> str:
    """Indent every line but the first."""
    first, *rest = text.split("\n")
    return "\n".join([first, *[" " * spaces + line for line in rest]])


def _unfit(value: object, place: str, hint: str) -> NoReturn:
    """Raises: something that a parameter or a child cannot be."""
    fail(TypeError, "Module", f"cannot assign '{facula.typename(value)}' as {place}", hint=hint)


def _too_early(what: str) -> NoReturn:
    text = f"cannot assign {what} before Module.__init__() call"
    fail(AttributeError, "Module", text, hint="call super().__init__() first in your __init__")


def _forward_unimplemented(self: Any, *input: object) -> None:
    """What a call runs; every subclass defines it."""
    raise NotImplementedError(
        f'Module [{type(self).__name__}] is missing the required "forward" function'
    )


class Module(HookMixin, StateMixin, ConversionMixin, ModuleBase):
    """The base class of all layers and models: state (parameters, buffers, modules) and a ``forward``.

    A subclass calls ``super().__init__()``, assigns what it needs to attributes, and defines
    ``forward``; calling the module runs it, with hooks. Parameters, buffers and modules are found
    where they are attributes (or in `ModuleList`, `ParameterDict` and their like), not inside of
    plain lists.

    ``parameters``, ``buffers``, ``children``, ``modules`` and their ``named_`` forms iterate over
    the tree; ``to``, ``float``, ``half``, ``apply`` and ``requires_grad_`` change it in place;
    ``train`` and ``eval`` set ``training``; ``state_dict`` and ``load_state_dict`` save and
    restore; ``register_forward_hook`` and its like watch calls; ``compile`` compiles the calls.

    Args:
        *args, **kwargs: none is accepted here, unless a subclass sets ``call_super_init``

    Raises:
        AttributeError: a parameter or module is assigned before ``super().__init__()``.

    Example:
        >>> class Scaled(facula.nn.Module):
        ...     def __init__(self, width):
        ...         super().__init__()
        ...         self.scale = facula.nn.Parameter(facula.ones(width))
        ...     def forward(self, x):
        ...         return self.scale * x
        >>> model = Scaled(2)
        >>> model(facula.tensor([1.0, 2.0]))
        tensor([1., 2.], grad_fn=<MulBackward0>)
        >>> model.state_dict()
        OrderedDict([('scale', tensor([1., 1.]))])
    """

    dump_patches = False
    training: bool
    call_super_init = False
    _compiled_call_impl = None
    forward: Callable[..., Any] = _forward_unimplemented

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        quicken(cls)

    def __init__(self, *args: object, **kwargs: object) -> None:
        if not self.call_super_init and (args or kwargs):
            word = "keyword" if kwargs else "positional"
            given = next(iter(kwargs)) if kwargs else f"{len(args) + 1} were given"
            if kwargs:
                raise TypeError(
                    f"{type(self).__name__}.__init__() got an unexpected keyword argument '{given}'"
                )
            raise TypeError(f"{type(self).__name__}.__init__() takes 1 {word} argument but {given}")
        # straight into the instance dictionary: __setattr__ looks into these
        self.__dict__.update(
            training=True,
            _parameters={},
            _buffers={},
            _non_persistent_buffers_set=set(),
            _backward_pre_hooks=OrderedDict(),
            _backward_hooks=OrderedDict(),
            _is_full_backward_hook=None,
            _forward_hooks=OrderedDict(),
            _forward_hooks_with_kwargs=OrderedDict(),
            _forward_hooks_always_called=OrderedDict(),
            _forward_pre_hooks=OrderedDict(),
            _forward_pre_hooks_with_kwargs=OrderedDict(),
            _state_dict_hooks=OrderedDict(),
            _state_dict_pre_hooks=OrderedDict(),
            _load_state_dict_pre_hooks=OrderedDict(),
            _load_state_dict_post_hooks=OrderedDict(),
            _modules={},
        )
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # registration ---------------------------------------------------------------------------------

    def _check_new_name(self, op: str, name: str, kind: str) -> None:
        if not isinstance(name, str):
            fail(
                TypeError,
                op,
                f"a str as the {kind} name was required: {kind} name should be a string. Got "
                f"{type(name).__name__}",
                hint="str(name) makes one",
            )
        if "." in name:
            fail(
                KeyError,
                op,
                f'a {kind} name without "."',
                got=f'{name!r} ({kind} name can\'t contain ".", got: {name})',
                hint="names with dots are paths to members of members: replace the dot",
            )
        if name == "":
            fail(
                KeyError,
                op,
                f"a {kind} name that is not empty",
                got=f'{kind} name can\'t be empty string ""',
                hint="give it a name",
            )
        if hasattr(self, name) and name not in self.__dict__[f"_{kind}s"]:
            fail(
                KeyError,
                op,
                "a name that is free",
                got=f"attribute '{name}' already exists",
                hint="take another name, or delattr() that one first",
            )

    def register_buffer(self, name: str, tensor: object, persistent: bool = True) -> None:
        """Add a tensor that is no parameter; ``persistent`` ones are part of the state dictionary."""
        if "_buffers" not in self.__dict__:
            _too_early("buffer")
        self._check_new_name("Module.register_buffer", name, "buffer")
        if tensor is not None and not hasattr(tensor, "__torch_function__"):
            fail(
                TypeError,
                "Module.register_buffer",
                f"a Tensor or None for buffer '{name}' (cannot assign '{facula.typename(tensor)}' object to buffer "
                f"'{name}' (torch Tensor or None required))",
                got=type(tensor).__name__,
                hint="facula.as_tensor(value) makes one",
            )
        for hook in _global_buffer_registration_hooks.values():
            result = hook(self, name, tensor)
            tensor = tensor if result is None else result
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or None for one that is switched off."""
        if "_parameters" not in self.__dict__:
            _too_early("parameter")
        op = "Module.register_parameter"
        self._check_new_name(op, name, "parameter")
        if param is not None:
            if not isinstance(param, Parameter):
                fail(
                    TypeError,
                    op,
                    f"a Parameter or None for parameter '{name}' (cannot assign '{facula.typename(param)}' object "
                    f"to parameter '{name}' (torch.nn.Parameter or None required))",
                    got=type(param).__name__,
                    hint="nn.Parameter(tensor) makes one",
                )
            if param.grad_fn:
                fail(
                    ValueError,
                    op,
                    f"a leaf tensor for parameter '{name}'",
                    got=f"a tensor computed from others (Cannot assign non-leaf Tensor to parameter '{name}')",
                    hint="compute it from a parameter in forward() instead",
                )
            for hook in _global_parameter_registration_hooks.values():
                result = hook(self, name, param)
                param = param if result is None else result
        self._parameters[name] = param

    def add_module(self, name: str, module: Module) -> None:
        """Add a submodule, or None for one that is switched off."""
        op = "Module.add_module"
        if not isinstance(module, Module) and module is not None:
            fail(
                TypeError,
                op,
                "a Module subclass",
                got=f"{facula.typename(module)} is not a Module subclass",
                hint="pass an instance, as nn.ReLU(), not the class or a function",
            )
        if not isinstance(name, str):
            fail(
                TypeError,
                op,
                "a str as the module name",
                got=f"module name should be a string. Got {facula.typename(name)}",
                hint="str(name) makes one",
            )
        self._check_new_name(op, name, "module")
        self._set_module(name, module)

    def _set_module(self, name: str, module: object) -> None:
        for hook in _global_module_registration_hooks.values():
            result = hook(self, name, module)
            module = module if result is None else result
        self._modules[name] = module

    def register_module(self, name: str, module: Module) -> None:
        """Alias of `add_module`."""
        self.add_module(name, module)

    # attributes -----------------------------------------------------------------------------------

    def _drop_elsewhere(self, name: str, *places: Any) -> None:
        for place in places:
            if name in place:
                if isinstance(place, dict):
                    del place[name]
                else:
                    place.discard(name)

    def __setattr__(self, name: str, value: object) -> None:
        state = self.__dict__
        parameters = state.get("_parameters")
        if isinstance(value, Parameter):
            if parameters is None:
                _too_early("parameters")
            self._drop_elsewhere(
                name, state, self._buffers, self._modules, self._non_persistent_buffers_set
            )
            self.register_parameter(name, value)
            return
        if parameters is not None and name in parameters:
            if value is not None:
                _unfit(
                    value,
                    f"parameter '{name}' (Parameter or None expected)",
                    "facula.nn.Parameter(value) makes one, or del the parameter first",
                )
            self.register_parameter(name, value)
            return
        modules = state.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                _too_early("module")
            others = (parameters, self._buffers, self._non_persistent_buffers_set)
            self._drop_elsewhere(name, state, *others)
            self._set_module(name, value)
            return
        if modules is not None and name in modules:
            if value is not None:
                _unfit(
                    value,
                    f"child module '{name}' (Module or None expected)",
                    "del the child first to put something else there",
                )
            self._set_module(name, value)
            return
        if isinstance(value, Tensor) or value is None:
            self._set_tensor(name, value)
        else:
            self._set_plain(name, value)

    def _set_plain(self, name: str, value: object) -> None:
        buffers = self.__dict__.get("_buffers")
        if buffers is not None and name in buffers:
            if hasattr(value, "__torch_function__"):
                buffers[name] = value
                return
            fail(
                TypeError,
                "Module",
                (
                    f"cannot assign '{facula.typename(value)}' as buffer '{name}' (Buffer, Tensor "
                    "or None expected)"
                ),
                hint="facula.as_tensor(value) makes a tensor, or del the buffer first",
            )
        object.__setattr__(self, name, value)

    def _set_tensor(self, name: str, value: Tensor | None) -> None:
        state = self.__dict__
        buffers = state.get("_buffers")
        if not isinstance(value, Buffer) and (buffers is None or name not in buffers):
            object.__setattr__(self, name, value)
            return
        if buffers is None:
            _too_early("buffer")
        persistent = name not in buffers or name not in self._non_persistent_buffers_set
        if isinstance(value, Buffer):
            persistent = getattr(value, "persistent", persistent)
        if name in buffers and not isinstance(value, Buffer):
            for hook in _global_buffer_registration_hooks.values():
                result = hook(self, name, value)
                value = value if result is None else result
            buffers[name] = value
        else:
            self.register_buffer(name, value, persistent)

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {
            *dir(type(self)),
            *self.__dict__,
            *self._parameters,
            *self._modules,
            *self._buffers,
        }
        return sorted(name for name in names if name and not name[0].isdigit())

    # look-up by path ------------------------------------------------------------------------------

    def get_submodule(self, target: str) -> Module:
        """The submodule at the dotted path ``target`` ("" is this module)."""
        if target == "":
            return self
        module: Any = self
        for item in target.split("."):
            if not hasattr(module, item):
                fail(
                    AttributeError,
                    "get_submodule",
                    f"{module._get_name()} has no attribute `{item}`",
                    hint="named_modules() lists the paths",
                )
            module = getattr(module, item)
            if not isinstance(module, Module):
                fail(
                    AttributeError,
                    "get_submodule",
                    f"`{item}` is not an nn.Module",
                    hint="get_parameter() and get_buffer() find tensors",
                )
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put ``module`` at the dotted path ``target``; ``strict`` asks that something is there
        already.
        """
        op = "Module.set_submodule"
        if target == "":
            fail(
                ValueError,
                op,
                "a target that is not empty",
                got="'' (Cannot set the submodule without a target name!)",
                hint="for example 'layers.0'",
            )
        if not isinstance(module, Module):
            fail(
                ValueError,
                op,
                "an nn.Module",
                got=type(module).__name__,
                hint="pass an instance, as nn.ReLU(), not the class or a function",
            )
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            fail(
                AttributeError,
                "set_submodule",
                f"{parent._get_name()} has no attribute `{name}`",
                hint="named_modules() lists the paths",
            )
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            fail(
                AttributeError,
                "set_submodule",
                f"`{name}` is not an nn.Module",
                hint="named_modules() lists the paths",
            )
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at the dotted path ``target``."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            fail(
                AttributeError,
                "Module",
                f"{module._get_name()} has no attribute `{name}`",
                hint="named_parameters() and named_buffers() list the paths",
            )
        parameter = getattr(module, name)
        if not isinstance(parameter, Parameter):
            fail(
                AttributeError,
                "get_parameter",
                f"`{name}` is not an nn.Parameter",
                hint="named_parameters() lists the paths",
            )
        return parameter

    def get_buffer(self, target: str) -> Any:
        """The buffer at the dotted path ``target``."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            fail(
                AttributeError,
                "Module",
                f"{module._get_name()} has no attribute `{name}`",
                hint="named_parameters() and named_buffers() list the paths",
            )
        if name not in module._buffers:
            fail(
                AttributeError,
                "get_buffer",
                f"`{name}` is not a buffer",
                hint="named_buffers() lists the paths",
            )
        return getattr(module, name)

    # iteration ------------------------------------------------------------------------------------

    def _named_members(
        self,
        get_members_fn: Callable,
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen = set()
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for module_prefix, module in modules:
            for name, value in get_members_fn(module):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield (f"{module_prefix}.{name}" if module_prefix else name), value

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once."""
        if not recurse or type(self).named_parameters is not Module.named_parameters:
            for _, parameter in self.named_parameters(recurse=recurse):
                yield parameter
            return
        seen = set()
        for module in self.modules():
            for parameter in module._parameters.values():
                if parameter is not None and parameter not in seen:
                    seen.add(parameter)
                    yield parameter

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """(dotted name, parameter)."""
        members = self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )
        yield from members

    def buffers(self, recurse: bool = True) -> Iterator[Any]:
        """The buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """(dotted name, buffer)."""
        members = self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )
        yield from members

    def children(self) -> Iterator[Module]:
        """The immediate submodules, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """(name, immediate submodule)."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it, each once unless `remove_duplicate` is False."""
        if not remove_duplicate:
            for _, module in self.named_modules(remove_duplicate=False):
                yield module
            return
        memo: set[Module] = set()
        waiting: list[Module] = [self]
        while waiting:  # in the order of `named_modules`, without the names
            module = waiting.pop()
            if module in memo:
                continue
            if type(module).named_modules is not Module.named_modules:
                for _, below in module.named_modules(memo):
                    yield below
                continue
            memo.add(module)
            yield module
            if module._modules:
                waiting += [m for m in reversed(module._modules.values()) if m is not None]

    def named_modules(
        self, memo: set | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """(dotted name, module), this one first."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                below = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, below, remove_duplicate)

    # over the tree --------------------------------------------------------------------------------

    def apply(self, fn: Callable[[Module], None]) -> Any:
        """Run ``fn`` on every submodule and then on this module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Any:
        """Set training mode (or evaluation mode) on the whole tree."""
        if not isinstance(mode, bool):
            fail(
                ValueError,
                "Module.train",
                "mode to be a bool",
                got=f"{mode!r} (training mode is expected to be boolean)",
                hint="call train(True), train(False) or eval()",
            )
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Any:
        """Set evaluation mode on the whole tree."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Switch gradients on or off for every parameter."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or fill them with zeros."""
        for parameter in self.parameters():
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                if parameter.grad.grad_fn is not None:
                    parameter.grad.detach_()
                else:
                    parameter.grad.requires_grad_(False)
                parameter.grad.zero_()

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile this module's call in place; arguments are those of `facula.compile`."""
        self._compiled_call_impl = facula.compile(self._call_impl, *args, **kwargs)

    def _replicate_for_data_parallel(self) -> Any:
        replica = self.__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        replica._parameters = {}
        replica._buffers = replica._buffers.copy()
        replica._modules = replica._modules.copy()
        replica._is_replica = True
        return replica

    def __getstate__(self) -> dict:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    # printing -------------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What stands between the parentheses of `repr` beside the submodules."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [
            f"({name}): {_addindent(repr(module), 2)}" for name, module in self._modules.items()
        ]
        if not lines and not children:
            return self._get_name() + "()"
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({lines[0]})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"
