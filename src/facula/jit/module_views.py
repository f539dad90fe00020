"""Scripted modules as PyTorch's extension module shows them: `module._c`.

Takes scripted modules. Gives views: attributes, methods and their graphs, by name.
Keeps true: a view holds nothing; what is changed through it is changed in the module.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from facula.core.errors import fail
from facula.jit.code_text import code_and_constants
from facula.jit.script_objects import Children, RecursiveScriptModule, ScriptMethod

__all__ = ["ModuleView", "module_of", "view_of"]


class ModuleView:
    """A scripted module, seen as an object with attributes and methods."""

    __slots__ = ("__weakref__", "_module")

    def __init__(self, module: object) -> None:
        object.__setattr__(self, "_module", module)

    @property
    def qualified_name(self) -> str:
        """The name of its class."""
        return str(self._module._script_type.name)

    def _type(self) -> Any:
        """Its class."""
        return self._module._script_type

    def hasattr(self, name: str) -> bool:
        """Whether it has an attribute of that name."""
        return name in self._module._script_type.attributes

    def getattr(self, name: str) -> Any:
        """The attribute of that name."""
        if not self.hasattr(name):
            _lacks(self._module, name)
        return view_of(getattr(self._module, name))

    def setattr(self, name: str, value: object) -> None:
        """Sets an attribute."""
        setattr(self._module, name, module_of(value))

    def _has_method(self, name: str) -> bool:
        """Whether it has a compiled method of that name."""
        return name in self._module._script_type.methods

    def _get_method(self, name: str) -> ScriptMethod:
        """The compiled method of that name."""
        if not self._has_method(name):
            _lacks(self._module, name)
        return ScriptMethod.of(name, self._module)

    def _method_names(self) -> list[str]:
        """The names of the compiled methods."""
        return list(self._module._script_type.methods)

    def _get_methods(self) -> list[ScriptMethod]:
        """The compiled methods."""
        return [self._get_method(name) for name in self._method_names()]

    def _create_method_from_graph(self, name: str, graph: Any) -> None:
        """A method that runs a graph."""
        # lazily: most modules have theirs from source
        from facula.jit.graph_functions import unit_of_graph

        kind = self._module._script_type
        kind.methods[name] = unit_of_graph(graph, name, kind)

    def _clone(self) -> ModuleView:
        """A module of its own with the same attributes and methods."""
        # lazily: copying asks for the kinds of modules
        import copy

        return ModuleView(copy.deepcopy(self._module))

    def dump_to_str(self, code: bool, attributes: bool, parameters: bool) -> str:
        """The module as text: its attributes, and the code of its methods."""
        return "\n".join(_dumped(self._module, code, attributes, parameters, 0)) + "\n"

    def dump(self, code: bool = True, attributes: bool = True, parameters: bool = True) -> None:
        """Prints the module."""
        print(self.dump_to_str(code, attributes, parameters))

    def __getattr__(self, name: str) -> Any:
        if self._has_method(name):
            return self._get_method(name)
        return self.getattr(name)

    def __setattr__(self, name: str, value: object) -> None:
        self.setattr(name, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModuleView) and other._module is self._module

    def __hash__(self) -> int:
        return id(self._module)

    def __repr__(self) -> str:
        return f"ScriptObject <{self.qualified_name}>"


def _dumped(
    module: Any, code: bool, attributes: bool, parameters: bool, depth: int
) -> Iterator[str]:
    pad = "  " * depth
    kind = module._script_type
    yield f"{pad}module {kind.name} {{"
    for title, shown, listed in (
        ("parameters", parameters, kind.parameters),
        ("attributes", attributes, [n for n in kind.attributes if n not in kind.parameters]),
    ):
        yield f"{pad}  {title} {{"
        for name in listed if shown else ():
            value = getattr(module, name)
            if name not in module._modules:
                yield f"{pad}    {name} = {'...' if hasattr(value, 'shape') else repr(value)}"
        yield f"{pad}  }}"
    yield f"{pad}  methods {{"
    if code:
        for unit in kind.methods.values():
            text = code_and_constants(unit.compiled())[0]
            yield from (f"{pad}    {line}" for line in text.splitlines())
    yield f"{pad}  }}"
    yield f"{pad}  submodules {{"
    for child in module._modules.values():
        if child is not None:
            yield from _dumped(child, code, attributes, parameters, depth + 2)
    yield f"{pad}  }}"
    yield f"{pad}}}"


def _lacks(module: Any, name: str) -> None:
    fail(AttributeError, "jit", f"{module.original_name} (of {module._script_type.name}) does not have a field with "
         f"name '{name}': an attribute or method was required", name,
         hint=f"it has {', '.join([*module._script_type.attributes, *module._script_type.methods])}")  # fmt: skip


def view_of(value: object) -> Any:
    """The view of a scripted module; other values are themselves."""
    return ModuleView(value) if isinstance(value, RecursiveScriptModule) else value


def module_of(value: Any) -> Any:
    """The module of a view; other values are themselves."""
    return value._module if isinstance(value, ModuleView) else value


def _set_view(module: Any, view: object) -> None:
    """`module._c = view`: the module is what the view shows from now on."""
    other = module_of(view)
    module.__dict__.update(other.__dict__)
    kind = other._script_type
    for name in [n for n in module.__dict__ if n not in other.__dict__ and not n.startswith("_")]:
        if name not in kind.attributes:
            del module.__dict__[name]


RecursiveScriptModule._c = property(view_of, _set_view)  # type: ignore[attr-defined]


class ChildViews:
    """The modules inside of a scripted module as views: `module._modules._c`."""

    __slots__ = ("_children",)

    def __init__(self, children: Children) -> None:
        self._children = children

    def items(self) -> list[tuple[str, Any]]:
        """Names and views."""
        return [(name, view_of(child)) for name, child in self._children.items()]

    def contains(self, name: str) -> bool:
        """Whether there is a module of that name."""
        return name in self._children

    def getattr(self, name: str) -> Any:
        """The view of the module of that name."""
        return view_of(self._children[name])


Children._c = property(ChildViews)  # type: ignore[attr-defined]
