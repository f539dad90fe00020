"""Containers: modules and parameters in a sequence, a list or a dictionary.

Takes modules or parameters.  Gives the same as attributes of a module, with Python's list and
dictionary manners.
Keeps true: list entries are named "0", "1", ... and stay so after insertion and deletion;
dictionary order is kept.
"""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections import abc as container_abcs
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.nn.modules.module import Module, _addindent
from facula.nn.parameter import Parameter

__all__ = [
    "Container",
    "ModuleDict",
    "ModuleList",
    "ParameterDict",
    "ParameterList",
    "Sequential",
]


class Container(Module):
    """A module with the given modules as attributes (deprecated in PyTorch; `Module` does the same).

    Args:
        **kwargs: modules by name

    Example:
        >>> facula.nn.Container(head=facula.nn.Linear(2, 1))
        Container(
          (head): Linear(in_features=2, out_features=1, bias=True)
        )
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


def _wrap_index(index: Any, size: int) -> int:
    index = operator.index(index)
    if not -size <= index < size:
        fail(
            IndexError,
            "container",
            f"index {index} is out of range",
            hint="len(module) tells how many there are",
        )
    return index % size


class _ListOfModules(Module):
    """What `Sequential` and `ModuleList` share: integer names kept dense."""

    def _renumber(self, modules: Iterable[Module]) -> None:
        self._modules = {str(i): module for i, module in enumerate(modules)}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def _key_at(self, index: Any) -> str:
        return next(islice(iter(self._modules), _wrap_index(index, len(self)), None))


class Sequential(_ListOfModules):
    """Modules run one after the other, each on the output of the one before.

    Takes modules, or one `collections.OrderedDict` of named modules. It has the manners of a list:
    ``len``, index, slice (a `Sequential` again), ``append``, ``insert``, ``extend``, ``pop``, ``+``
    and ``*``.

    Args:
        *args: modules, which are named "0", "1", ... ; or an ordered dictionary

    Shape:
        what the first module takes, to what the last one gives. Only the first may take several
        arguments through a tuple of its own: each forward has one.

    Example:
        >>> model = facula.nn.Sequential(facula.nn.Linear(3, 4), facula.nn.ReLU(), facula.nn.Linear(4, 2))
        >>> model(facula.ones(5, 3)).shape
        facula.Size([5, 2])
        >>> model[1:]
        Sequential(
          (1): ReLU()
          (2): Linear(in_features=4, out_features=2, bias=True)
        )
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for index, module in enumerate(args):
                self.add_module(str(index), module)

    def forward(self, input: core.Tensor) -> Any:
        """The last module's output."""
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._key_at(idx)]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._key_at(idx), module)

    def __delitem__(self, idx: Any) -> None:
        if isinstance(idx, slice):
            for key in list(self._modules)[idx]:
                delattr(self, key)
        else:
            delattr(self, self._key_at(idx))
        self._renumber(list(self._modules.values()))

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            fail(
                ValueError,
                "Sequential.__add__",
                "a Sequential",
                got=type(other).__name__,
                hint="nn.Sequential(module) makes one",
            )
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            fail(
                ValueError,
                "Sequential.__iadd__",
                "a Sequential",
                got=type(other).__name__,
                hint="nn.Sequential(module) makes one",
            )
        return self.extend(other)

    def _check_times(self, other: int) -> None:
        if not isinstance(other, int):
            fail(
                TypeError,
                "Sequential.__mul__",
                "an int",
                got=type(other).__name__,
                hint="the factor says how often to repeat the modules",
            )
        if other <= 0:
            fail(
                ValueError,
                "Sequential.__mul__",
                "a positive factor",
                got=f"Non-positive multiplication factor {other} for {type(self)}",
                hint="1 gives a copy",
            )

    def __mul__(self, other: int) -> Sequential:
        self._check_times(other)
        return Sequential(*(list(self) * other))

    def __rmul__(self, other: int) -> Sequential:
        return self.__mul__(other)

    def __imul__(self, other: int) -> Sequential:
        self._check_times(other)
        return self.extend(list(self) * (other - 1))

    def append(self, module: Module) -> Sequential:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Sequential:
        """Put a module before position ``index``."""
        if not isinstance(module, Module):
            fail(
                AssertionError,
                "Sequential.insert",
                "a Module",
                got=type(module).__name__,
                hint="nn.Module subclasses are modules; a function becomes one by a class with "
                "forward()",
            )
        size = len(self._modules)
        if not -size <= index <= size:
            fail(
                IndexError,
                "Sequential.insert",
                f"Index out of range: {index}",
                hint="append() adds at the end",
            )
        modules = list(self._modules.values())
        modules.insert(index + size if index < 0 else index, module)
        self._renumber(modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> Sequential:
        """Add modules at the end."""
        for module in list(sequential):
            self.append(module)
        return self

    def pop(self, key: core.Tensor) -> Module:
        """Take out the module at ``key`` and give it."""
        module = self[key]
        del self[key]
        return module


class ModuleList(_ListOfModules):
    """Modules in a list, registered, so that their parameters are found.

    It has a list's methods (``append``, ``insert``, ``extend``, ``pop``, index, slice, ``+``) and
    no ``forward``: the module that holds it decides what runs when.

    Args:
        modules: an iterable of modules

    Example:
        >>> layers = facula.nn.ModuleList(facula.nn.Linear(2, 2) for _ in range(3))
        >>> x = facula.ones(1, 2)
        >>> for layer in layers:
        ...     x = layer(x)
        >>> x.shape, len(list(layers.parameters()))
        (facula.Size([1, 2]), 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self._modules.values())[idx])
        return self._modules[str(_wrap_index(idx, len(self)))]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, str(_wrap_index(idx, len(self))), module)

    def __delitem__(self, idx: Any) -> None:
        if isinstance(idx, slice):
            for key in range(len(self))[idx]:
                delattr(self, str(key))
        else:
            delattr(self, str(_wrap_index(idx, len(self))))
        self._renumber(list(self._modules.values()))

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList(chain(self, other))

    def __repr__(self) -> str:
        """As `Module.__repr__`, with a run of equal entries on one line."""
        reprs = [repr(module) for module in self]
        if not reprs:
            return self._get_name() + "()"
        runs: list[list] = []
        for index, text in enumerate(reprs):
            if runs and runs[-1][2] == text:
                runs[-1][1] = index
            else:
                runs.append([index, index, text])
        lines = []
        for first, last, text in runs:
            label = f"({first}): " if first == last else f"({first}-{last}): {last - first + 1} x "
            lines.append(_addindent(label + text, 2))
        return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"

    def insert(self, index: int, module: Module) -> None:
        """Put a module before position ``index``."""
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)

    def append(self, module: Module) -> ModuleList:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: core.Tensor) -> Module:
        """Take out the module at ``key`` and give it."""
        module = self[key]
        del self[key]
        return module

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Add modules at the end."""
        if not isinstance(modules, container_abcs.Iterable):
            fail(
                TypeError,
                "ModuleList.extend",
                "an iterable of modules",
                got=f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}",
                hint="append() adds a single module",
            )
        offset = len(self)
        for i, module in enumerate(modules):
            self.add_module(str(offset + i), module)
        return self


def _items_of(op: str, values: object) -> Iterable[tuple]:
    """(key, value) pairs of a mapping, or of an iterable of pairs, checked."""
    if not isinstance(values, container_abcs.Iterable):
        fail(
            TypeError,
            op,
            "a mapping or an iterable of (key, value)",
            got=f"{op} should be called with an iterable of key/value pairs, but got {type(values).__name__}",
            hint="for example {'name': value}",
        )
    if isinstance(values, (OrderedDict, ModuleDict, ParameterDict, container_abcs.Mapping)):
        return list(values.items())
    pairs = []
    for i, pair in enumerate(values):
        if not isinstance(pair, container_abcs.Iterable):
            fail(
                TypeError,
                op,
                f"a (key, value) pair at position {i}",
                got=f"{op.split('.')[0]} update sequence element #{i} should be Iterable; is {type(pair).__name__}",
                hint="for example [('name', value)]",
            )
        pair = tuple(pair)
        if len(pair) != 2:
            fail(
                ValueError,
                op,
                f"two entries at position {i}",
                got=f"{op.split('.')[0]} update sequence element #{i} has length {len(pair)}; 2 is required",
                hint="for example [('name', value)]",
            )
        pairs.append(pair)
    return pairs


class ModuleDict(Module):
    """Modules in a dictionary, registered, in the order of insertion.

    It has a dictionary's methods (``keys``, ``items``, ``update``, ``pop``, ``in``) and no
    ``forward``.

    Args:
        modules: a mapping of names to modules, or an iterable of pairs

    Example:
        >>> choices = facula.nn.ModuleDict({"relu": facula.nn.ReLU(), "tanh": facula.nn.Tanh()})
        >>> choices["relu"](facula.tensor([-1.0, 1.0]))
        tensor([0., 1.])
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Take everything out."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Take out the module under ``key`` and give it."""
        return self._modules.pop(key)

    def keys(self) -> Any:
        """The keys."""
        return self._modules.keys()

    def items(self) -> Any:
        """The (key, module) pairs."""
        return self._modules.items()

    def values(self) -> Any:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Put in a mapping's, or an iterable of pairs', modules; existing keys are overwritten."""
        for key, module in _items_of("ModuleDict.update", modules):
            self[key] = module


def _describe(value: object, by_type: bool = False) -> str:
    """One line on an entry of a parameter container, with the dtype or the tensor type of that dtype."""
    if isinstance(value, core.Tensor):
        size = "x".join(str(n) for n in value.size())
        kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
        text = f"{kind} containing: [{value.type() if by_type else value.dtype} of size {size}"
        return text + ("]" if value.device.type in ("cpu", "meta") else f" ({value.device})]")
    return f"Object of type: {type(value).__name__}"


class ParameterList(Module):
    """Parameters in a list, registered; tensors become parameters when they are put in.

    Other values are kept as they are. It has a list's methods (``append``, ``extend``, index,
    slice).

    Args:
        values: an iterable of parameters or tensors

    Example:
        >>> weights = facula.nn.ParameterList([facula.ones(2), facula.zeros(3)])
        >>> [w.shape for w in weights], type(weights[0]).__name__
        ([facula.Size([2]), facula.Size([3])], 'Parameter')
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            out = type(self)()
            for i in range(*idx.indices(len(self))):
                out.append(self[i])
            return out
        return getattr(self, str(_wrap_index(idx, len(self))))

    def __setitem__(self, idx: int, param: Any) -> None:
        if isinstance(param, core.Tensor) and not isinstance(param, Parameter):
            param = Parameter(param)
        setattr(self, str(_wrap_index(idx, len(self))), param)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, parameters: Iterable[Any]) -> ParameterList:
        return self.extend(parameters)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value: object) -> ParameterList:
        """Add a value at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add values at the end."""
        if not isinstance(values, container_abcs.Iterable) or isinstance(values, core.Tensor):
            fail(
                TypeError,
                "ParameterList.extend",
                "an iterable",
                got=type(values).__name__,
                hint="append() adds a single value",
            )
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """One line an entry."""
        return "\n".join(f"  ({i}): {_describe(value)}" for i, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        fail(
            RuntimeError,
            "ParameterList",
            "ParameterList should not be called.",
            hint="call the module that holds it",
        )


class ParameterDict(Module):
    """Parameters in a dictionary, registered, in the order of insertion; tensors become parameters.

    It has a dictionary's methods, ``|`` and ``fromkeys`` among them.

    Args:
        parameters: a mapping of names to parameters or tensors, or an iterable of pairs

    Example:
        >>> scales = facula.nn.ParameterDict({"left": facula.ones(2)})
        >>> scales["right"] = facula.nn.Parameter(facula.zeros(2))
        >>> list(scales.keys()), scales["left"].requires_grad
        (['left', 'right'], True)
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _attribute(self, key: str) -> str:
        if not isinstance(key, str):
            fail(
                TypeError,
                "ParameterDict",
                "a str as key",
                got=f"{key!r} ({type(key).__name__})",
                hint="str(key) makes one",
            )
        # a key must not hide a method
        if hasattr(type(self), key):
            fail(
                KeyError,
                "ParameterDict",
                "a key that is no attribute of the class",
                got=key,
                hint="take a name that the class does not have",
            )
        return key

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, self._attribute(key))

    def __setitem__(self, key: str, value: object) -> None:
        attribute = self._attribute(key)
        self._keys[key] = None
        if isinstance(value, core.Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, attribute, value)

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._attribute(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """A new dictionary with the same values."""
        return ParameterDict(OrderedDict((k, self[k]) for k in self._keys))

    def setdefault(self, key: str, default: object = None) -> Any:
        """The value under ``key``, which becomes ``default`` where there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Take everything out."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Take out the value under ``key`` and give it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Take out the last pair and give it."""
        key, _ = self._keys.popitem()
        self._keys[key] = None
        return key, self.pop(key)

    def get(self, key: str, default: object = None) -> Any:
        """The value under ``key``, or ``default``."""
        return self[key] if key in self else default

    def fromkeys(self, keys: Iterable[str], default: object = None) -> ParameterDict:
        """A new dictionary with ``default`` under every key."""
        return ParameterDict((k, default) for k in keys)

    def keys(self) -> Any:
        """The keys."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """The (key, value) pairs."""
        return ((k, self[k]) for k in self._keys)

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[k] for k in self._keys)

    def update(self, parameters: Any) -> None:
        """Put in a mapping's, or an iterable of pairs', values; existing keys are overwritten."""
        for key, value in _items_of("ParameterDict.update", parameters):
            self[key] = value

    def extra_repr(self) -> str:
        """One line an entry."""
        return "\n".join(
            f"  ({key}): {_describe(value, by_type=True)}" for key, value in self.items()
        )

    def __call__(self, input: core.Tensor) -> Any:
        fail(
            RuntimeError,
            "ParameterDict",
            "ParameterDict should not be called.",
            hint="call the module that holds it",
        )

    def __or__(self, other: ParameterDict) -> ParameterDict:
        copied = self.copy()
        copied.update(other)
        return copied

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        copied = other.copy()
        copied.update(self)
        return copied

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self
