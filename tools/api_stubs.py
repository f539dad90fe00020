"""Type stubs out of the operator table.

Takes the table (`facula.ops`), the public names (`facula.public`) and the core's source.
Gives the text of each `.pyi` file, by its path below the package.
Keeps true: a name that users can reach is in a stub; an operator's types are those of its schema.
"""

from __future__ import annotations

import ast
import inspect
import keyword
import re
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import cython_signatures
from room_stubs import PACKAGE, lies_in

import facula
from facula import core
from facula.ops.table.registry import PLACES, RETURN_TYPES
from facula.torch_api import second_names
from facula.torch_api.public import NAMES, SUBMODULES

HEADER = '"""{doc}\n\nGenerated from the operator table by tools/gen_api.py: edit the definitions."""\n\n'
CORE = Path(__file__).resolve().parent.parent / "src" / "facula" / "core"
TYPES = {
    "Tensor": "Tensor",
    "Operand": "Tensor | _Number",
    "int": "_int",
    "float": "_float",
    "bool": "_bool",
    "Number": "_Number",
    "str": "str",
    "dtype": "_dtype",
    "device": "_device | str | _int",
    "layout": "_layout",
    "memory_format": "_memory_format",
    "generator": "Generator",
    "any": "Any",
}
ALIASES = (
    "import builtins\n"
    "from collections.abc import Callable, Iterator, Sequence\n"
    "from typing import Any, Self, overload\n\n"
    "{imports}"
    "_int = builtins.int\n_float = builtins.float\n_bool = builtins.bool\n"
    "_Number = builtins.int | builtins.float | builtins.complex\n\n"
)
FROM_CORE = (
    "from facula.namespaces import return_types\n"
    "from facula.core import Generator as Generator, Size as Size, Tensor as Tensor\n"
    "from facula.core import device as _device, dtype as _dtype, layout as _layout\n"
    "from facula.core import memory_format as _memory_format\n\n"
)
#: `Py_TPFLAGS_HAVE_VECTORCALL`: objects of the class are called through a slot of C
VECTORCALL = 1 << 11
#: what Python's protocols give; other special methods give a tensor
PROTOCOL_RESULTS = {
    **dict.fromkeys(("__len__", "__int__", "__index__", "__hash__", "__long__"), "_int"),
    **dict.fromkeys(("__bool__", "__contains__", "__nonzero__"), "_bool"),
    **dict.fromkeys(("__setitem__", "__delitem__", "__setstate__", "__setattr__"), "None"),
    **dict.fromkeys(("__repr__", "__str__", "__format__"), "str"),
    **dict.fromkeys(("__dir__", "__reduce_ex__", "__divmod__", "__array__", "__dlpack__"), "Any"),
    **dict.fromkeys(("__dlpack_device__", "__torch_function__", "__array_wrap__"), "Any"),
    "__float__": "_float",
    "__complex__": "builtins.complex",
    "__iter__": "Iterator[Tensor]",
}
COMPARISONS = {"__eq__", "__ne__"}
#: the annotations of Tensor's fields; others are Any
FIELDS = {
    "shape": "Size",
    "dtype": "_dtype",
    "device": "_device",
    "layout": "_layout",
    "grad": "Tensor | None",
    "data": "Tensor",
    "ndim": "_int",
    "itemsize": "_int",
    "nbytes": "_int",
    "output_nr": "_int",
    "_version": "_int",
    **dict.fromkeys(("T", "H", "mT", "mH", "real", "imag"), "Tensor"),
    **dict.fromkeys(("requires_grad", "is_leaf", "is_meta", "is_cuda", "is_cpu"), "_bool"),
    **dict.fromkeys(("is_sparse", "is_quantized", "is_nested", "is_mps", "retains_grad"), "_bool"),
}
METHOD_RESULTS = {
    **dict.fromkeys(("dim", "ndimension", "numel", "nelement", "element_size"), "_int"),
    **dict.fromkeys(("storage_offset", "data_ptr", "get_device", "const_data_ptr"), "_int"),
    **dict.fromkeys(("backward", "retain_grad", "record_stream"), "None"),
    "size": "Any",
    "stride": "Any",
    "item": "_Number",
    **dict.fromkeys(("tolist", "numpy", "type", "register_hook", "__deepcopy__"), "Any"),
    **dict.fromkeys(("untyped_storage", "storage", "__array__", "as_subclass"), "Any"),
    "register_post_accumulate_grad_hook": "Any",
}


def quoted(text: str, indent: str) -> str:
    """A docstring at an indentation."""
    body = text.strip().replace("\\", "\\\\").replace('"""', "'''")
    lines = body.splitlines()
    return "\n".join([f'{indent}"""{lines[0]}', *(f"{indent}{x}".rstrip() for x in lines[1:])]) + (
        f'\n{indent}"""' if len(lines) > 1 or body.endswith('"') else '"""'
    )


def parameter_type(parameter: Any) -> str:
    """The annotation of one argument of a schema."""
    base = TYPES[parameter.type]
    if parameter.is_list:
        item = f"{base} | None" if parameter.optional_items else base
        base = f"Sequence[{item}]"
        # one integer stands for a list of it; one float only where the schema gives the length
        if parameter.type == "int" or (parameter.type == "float" and parameter.length):
            base = f"{TYPES[parameter.type]} | {base}"
        if parameter.type == "int":
            base += " | Size"
    return f"{base} | None" if parameter.optional and base != "Any" else base


def result_type(definition: Any) -> str:
    """The annotation of what an operator returns."""
    tail = definition.schema.text.rpartition("->")[2].strip()
    name = definition.schema.name.removeprefix("quantization::")
    if name in RETURN_TYPES and tail != "any":  # of `any` that is one of several forms
        return f"return_types.{name}"
    if tail.startswith("("):
        return f"tuple[{', '.join(_one_result(part) for part in tail[1:-1].split(','))}]"
    return _one_result(tail)


def _one_result(text: str) -> str:
    kind = text.strip().split(" ")[0].rstrip("?")
    if kind.endswith("[]"):
        return f"tuple[{TYPES.get(kind[:-2], 'Any')}, ...]"
    return TYPES.get(kind, "Any")


def _spelled(parameter: Any, name: str) -> str:
    name = f"{name}_" if keyword.iskeyword(name) else name
    return f"{name}: {parameter_type(parameter)}" + (" = ..." if parameter.has_default else "")


def operator_arguments(
    definition: Any, method: bool, inplace: bool
) -> tuple[list[str], list[str] | None]:
    """The parameters of a call, and those of the form with separate integers, where there is one."""
    positional: list[str] = []
    keywords: list[str] = []
    separate: list[str] | None = None
    defaults = False
    for index, p in enumerate(definition.schema.parameters):
        name = p.name
        if index == 0 and method:
            positional.append("self")
            continue
        if index == 0 and name in ("self", "x") and not p.keyword_only:
            name = "input"
        if keyword.iskeyword(name):
            # such an argument cannot be spelled in a stub: it is given by position
            positional.append(f"{name}_: {parameter_type(p)}" + (" = ..." if p.has_default else ""))
            continue
        text = _spelled(p, name)
        if p.keyword_only:
            keywords.append(text)
            continue
        if defaults and not p.has_default:
            text += " = ..."
        defaults = defaults or p.has_default
        if p.variadic:
            item = TYPES[p.type] if p.type != "any" else "Any"
            separate = [*positional, f"*{name}: {item}"]
        positional.append(text)
    if definition.out and not inplace:
        several = result_type(definition).startswith(("tuple", "return_types"))
        keywords.append(f"out: {'Any' if several else 'Tensor | None'} = ...")
    star = ["*", *keywords] if keywords else []
    if separate is not None:
        separate = [*separate, *keywords]
    return [*positional, *star], separate


def operator_stub(name: str, operator: Any, method: bool) -> str:
    """The declaration of an operator, or of its in-place form, in a module or in Tensor."""
    indent = "    " if method else ""
    operator = core.operator_of(operator)
    inplace = isinstance(operator, core.InplaceOp)
    definition = operator.definition
    changed = "Self" if method else "Tensor"
    result = changed if inplace else result_type(definition)
    joined, separate = operator_arguments(definition, method, inplace)
    if method and name in getattr(definition, "properties", ()):
        return f"{indent}@property\n{indent}def {name}(self) -> {result}: ...\n"
    doc = quoted(operator.__doc__ if inplace else definition.doc, indent + "    ")
    ignore = "  # type: ignore[override]" if name in COMPARISONS else ""
    head = f"{indent}def {name}"
    if separate is None:
        return f"{head}({', '.join(joined)}) -> {result}:{ignore}\n{doc}\n"
    return (
        f"{indent}@overload\n{head}({', '.join(joined)}) -> {result}:\n{doc}\n"
        f"{indent}@overload\n{head}({', '.join(separate)}) -> {result}: ...\n"
    )


def _annotation(value: Any) -> str:
    """An annotation of a Python function, where it can be written in a stub; else Any."""
    text = value if isinstance(value, str) else getattr(value, "__name__", "")
    simple = {"int": "_int", "float": "_float", "bool": "_bool", "str": "str", "None": "None"}
    simple |= {"Tensor": "Tensor", "core.Tensor": "Tensor", "core.dtype": "_dtype"}
    optional = text.endswith(" | None") and text.removesuffix(" | None") in simple
    if optional:
        return simple[text.removesuffix(" | None")] + " | None"
    return simple.get(text, "Any")


def function_stub(
    name: str, function: Any, indent: str = "", result: str = "", bound: bool = True
) -> str:
    """The declaration of a Python function or of a compiled method that has a signature."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        own = "self, " if indent and bound else ""
        arguments = f"{own}*args: Any, **kwargs: Any"
        return f"{indent}def {name}({arguments}) -> {result or 'Any'}: ...\n"
    parts, star, slash = [], False, False
    for index, p in enumerate(signature.parameters.values()):
        if slash and p.kind is not p.POSITIONAL_ONLY:
            parts.append("/")
        slash = p.kind is p.POSITIONAL_ONLY
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
        star = star or p.kind in (p.VAR_POSITIONAL, p.KEYWORD_ONLY)
        stars = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        if index == 0 and indent and bound:
            parts.append("self")
            continue
        default = " = ..." if p.default is not p.empty else ""
        parts.append(f"{stars}{p.name}: {_annotation(p.annotation)}{default}")
    if slash:
        parts.append("/")
    returned = signature.return_annotation
    result = result or ("Any" if returned is signature.empty else _annotation(returned))
    doc = inspect.getdoc(function)
    body = f":\n{quoted(doc, indent + '    ')}\n" if doc else ": ...\n"
    return f"{indent}def {name}({', '.join(parts)}) -> {result}{body}"


def _special(name: str) -> str:
    """A special method of Tensor."""
    result = PROTOCOL_RESULTS.get(name, "Tensor")
    unary = {"__neg__", "__pos__", "__invert__", "__abs__", "__len__", "__bool__", "__int__"}
    unary |= {
        "__float__",
        "__complex__",
        "__index__",
        "__hash__",
        "__iter__",
        "__repr__",
        "__str__",
    }
    unary |= {"__dir__", "__nonzero__", "__long__", "__reversed__"}
    if name in unary:
        return f"    def {name}(self) -> {result}: ...\n"
    if name == "__setitem__":
        return f"    def {name}(self, key: Any, value: Any, /) -> None: ...\n"
    ignore = "  # type: ignore[override]" if name in COMPARISONS else ""
    return f"    def {name}(self, *args: Any) -> {result}: ...{ignore}\n"


def _tensor_member(name: str, value: Any, source: cython_signatures.Source) -> str:
    """One member of Tensor."""
    if isinstance(value, (core.Op, core.InplaceOp, core.Alias)):
        return operator_stub(name, value, True)
    if isinstance(value, property) or type(value).__name__ == "getset_descriptor":
        kind = FIELDS.get(name, "Any")
        return _property_stub(name, source.classes["Tensor"].properties.get(name, True), kind)
    if name.startswith("__") and name.endswith("__"):
        return _special(name)
    if not callable(value) and not isinstance(value, (staticmethod, classmethod)):
        return f"    {name}: Any\n"
    usual = "_bool" if name.startswith("is_") else "Self" if name.endswith("_") else "Tensor"
    result = METHOD_RESULTS.get(name, usual)
    if name.startswith("_"):
        result = "Any"
    if type(value).__name__ in ("function", "cython_function_or_method"):
        said = _annotation(inspect.signature(value).return_annotation)
        own = name.startswith("_") or (name not in METHOD_RESULTS and said != "Any")
        return function_stub(name, value, "    ", "" if own else result)
    if isinstance(value, staticmethod):
        return (
            f"    @staticmethod\n{function_stub(name, value.__func__, '    ', result, bound=False)}"
        )
    found = source.classes["Tensor"].methods.get(name)
    if found is None:
        return f"    def {name}(self, *args: Any, **kwargs: Any) -> {result}: ...\n"
    return f"    def {name}({found}) -> {result}: ...\n"


#: what `object` has already, or what a type checker must not see on a tensor
HIDDEN = {
    "__module__",
    "__new__",
    "__init__",
    "__doc__",
    "__weakref__",
    "__dict__",
    "__getattribute__",
}
HIDDEN |= {
    "__setattr__",
    "__delattr__",
    "__dir__",
    "__format__",
    "__reduce_cython__",
    "__annotations__",
}
HIDDEN |= {
    "__setstate_cython__",
    "__class__",
    "__str__",
    "__reduce_ex__",
    "__reduce__",
    "__array_priority__",
}


def tensor_stub(source: cython_signatures.Source) -> str:
    """The class Tensor: operators, methods of the core, methods written in Python, properties."""
    lines = [
        "class Tensor:\n",
        quoted(core.Tensor.__doc__ or "A tensor.", "    ") + "\n",
        "    def __init__(self, *args: Any, **kwargs: Any) -> None: ...\n",
        "    def __getattr__(self, name: str, /) -> Any: ...\n",
        # a tensor has a dictionary: programs keep things of their own on it
        "    def __setattr__(self, name: str, value: Any, /) -> None: ...\n",
    ]
    for name in sorted(vars(core.Tensor)):
        if name not in HIDDEN:
            lines.append(_tensor_member(name, vars(core.Tensor)[name], source))
    return "".join(lines)


def _class_methods(found: cython_signatures.Class) -> dict[str, str]:
    """The arguments of each method; those of `__cinit__` are what the class is called with."""
    methods = dict(found.methods)
    if "__cinit__" in methods:
        methods.setdefault("__init__", methods.pop("__cinit__"))
    for name in ("__dealloc__", "__eq__", "__ne__", "__reduce__"):
        methods.pop(name, None)
    return methods


def _property_stub(name: str, writable: bool, kind: str = "Any") -> str:
    """A property, with its setter where it has one."""
    text = f"    @property\n    def {name}(self) -> {kind}: ...\n"
    if writable:
        text += f"    @{name}.setter\n    def {name}(self, value: Any) -> None: ...\n"
    return text


def class_stub(kind: type, found: cython_signatures.Class | None) -> str:
    """Another class of the core, by its source."""
    name = kind.__name__
    found = found or cython_signatures.Class(name)
    bases = {"tuple": "tuple[_int, ...]"}.get(found.bases, found.bases)
    bases = bases if found.bases in ("tuple", "RuntimeError", "MemoryError") else ""
    lines = [f"class {name}({bases}):\n" if bases else f"class {name}:\n"]
    lines.append(quoted(kind.__doc__ or name, "    ") + "\n")
    lines += [f"    {field}: {text}\n" for field, text in found.fields.items()]
    methods = _class_methods(found)
    results = {"__init__": "None", "__hash__": "_int", "__repr__": "str", "__str__": "str"}
    for method, arguments in methods.items():
        if not bases or not method.startswith("__"):
            lines.append(f"    def {method}({arguments}) -> {results.get(method, 'Any')}: ...\n")
    for prop, writable in found.properties.items():
        if prop not in HIDDEN:
            lines.append(_property_stub(prop, writable))
    if kind.__flags__ & VECTORCALL and "__call__" not in methods:
        lines.append("    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...\n")
    if not bases and "__getattr__" not in methods:
        lines.append("    def __getattr__(self, name: str, /) -> Any: ...\n")
    return "".join(lines)


def _core_value(name: str, value: Any, source: cython_signatures.Source) -> str:
    if isinstance(value, type) and value.__name__ != name:
        return f"{name}: Any\n"  # a class of Python's under another name
    if isinstance(value, type):
        if value is core.Tensor:
            return tensor_stub(source)
        return class_stub(value, source.classes.get(name))
    for kind in (core.dtype, core.layout, core.memory_format):
        if isinstance(value, kind):
            return f"{name}: _{kind.__name__}\n"
    if callable(value):
        if name in source.functions:
            arguments = re.sub(
                r"^(self|cls)(?=,|$)|(?<=, )cls(?=,|$)", r"\g<0>: Any", source.functions[name]
            )
            return f"def {name}({arguments}) -> Any: ...\n"
        return function_stub(name, value)
    return f"{name}: Any\n"


def core_stub(source: cython_signatures.Source) -> str:
    """`facula.core`: the classes, the dtypes and the functions of the extension."""
    from facula.core import _core

    names = [n for n in vars(_core) if not n.startswith("__") and n not in ("bool",)]
    order = {"dtype": 0, "device": 0, "layout": 0, "memory_format": 0, "Size": 0, "Generator": 0}
    names.sort(key=lambda n: (order.get(n, 1), not isinstance(getattr(_core, n), type), n))
    body = [
        HEADER.format(doc="The core: tensors, dtypes, devices and the functions of the extension.")
    ]
    body.append(ALIASES.format(imports="from facula.namespaces import return_types\n\n"))
    for name in names:
        value = getattr(_core, name)
        if not isinstance(value, ModuleType) and name.isidentifier():
            body.append(_core_value(name, value, source) + "\n")
        if name == "dtype":
            body.append("_dtype = dtype\n")
        elif name in ("device", "layout", "memory_format"):
            body.append(f"_{name} = {name}\n")
    return "".join(body)


def core_package_stub() -> str:
    """`facula/core/__init__.pyi`."""
    from facula.core import _core

    shown = [n for n in vars(core) if hasattr(_core, n) and not n.startswith("__")]
    shown = [n for n in shown if n != "bool" and not isinstance(getattr(core, n), ModuleType)]
    lines = [HEADER.format(doc=(core.__doc__ or "").strip().splitlines()[0])]
    lines += [f"from facula.core._core import {name} as {name}\n" for name in sorted(shown)]
    lines.append("from facula.core._core import bool_\n")
    lines.append("from facula.core import config as config, errors as errors, limits as limits\n")
    lines.append("from facula.core import printing as printing\n")
    lines.append(
        "from facula.core.limits import finfo as finfo, iinfo as iinfo\n\nbool = bool_\n__all__: list[str]\n"
        "PUBLIC: frozenset[str]\n"
    )
    return "".join(lines)


def return_types_stub() -> str:
    """`facula/namespaces/return_types.pyi`: the named tuples."""
    lines = [HEADER.format(doc="The named tuples that operators with several results return.")]
    lines.append("from typing import NamedTuple\n\nfrom facula.core import Tensor\n\n")
    # operators that a program adds are named `library::name`: they are no part of the package
    for name in sorted(filter(str.isidentifier, RETURN_TYPES)):
        fields = "".join(f"    {field}: Tensor\n" for field in RETURN_TYPES[name]._fields)  # type: ignore[attr-defined]
        lines.append(f"class {name}(NamedTuple):\n{fields}\n")
    return "".join(lines)


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _bound_names(module: str) -> set[str]:
    """The names that the source of a module binds in so many words."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(inspect.getsource(import_module(module)))):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def _import_of(name: str, module: str) -> str:
    """How the stub says that a name comes from a module; one that code makes there is Any."""
    if name in _bound_names(module):
        return f"from {lies_in(module)} import {name} as {name}\n"
    return f"{name}: Any\n"


def package_stub() -> str:
    """`facula/__init__.pyi`: operators of the top level, the core, and names found on first use."""
    lines = [HEADER.format(doc=(facula.__doc__ or "").strip().splitlines()[0])]
    lines.append(ALIASES.format(imports=FROM_CORE))
    submodules = sorted(n for n in SUBMODULES if _exists(f"facula.{n}"))
    for name in ["core", "ops", *submodules]:
        first = second_names.first_name(f"facula.{name}") or f"facula.{name}"
        package, _, own = lies_in(first).rpartition(".")
        lines.append(f"from {package} import {own} as {name}\n")
    lines.append("from facula.torch_api.version import __version__ as __version__\n")
    found = {name: module for name, module in sorted(NAMES.items()) if _exists(module)}
    imports = {name: _import_of(name, module) for name, module in found.items()}
    operators = PLACES[""]  # after the imports, some of which define further ones
    lines += [
        line for name, line in imports.items() if name not in operators and name not in submodules
    ]
    # a name of Python's that is a dtype here comes last: annotations above mean Python's
    lines += [
        f"from facula.core import {name} as {name}\n"
        for name in sorted(core.PUBLIC)
        if name not in operators and name not in NAMES
    ]
    lines.append("\n__all__: list[str]\n\n")
    lines += [
        operator_stub(n, op, False) + "\n"
        for n, op in sorted(operators.items())
        if n.isidentifier()
    ]
    return "".join(lines)


def _own_functions(
    module: ModuleType, known: Iterable[str]
) -> list[tuple[str, Callable[..., Any]]]:
    """Public Python functions of a namespace that are no operators."""
    found = []
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name, None)
        if name not in known and inspect.isfunction(value):
            found.append((name, value))
    return sorted(found)


def place_stub(place: str) -> str:
    """A namespace of operators, such as `nn.functional`."""
    module = import_module(f"facula.{place}")
    lines = [HEADER.format(doc=(module.__doc__ or place).strip().splitlines()[0])]
    lines.append(ALIASES.format(imports=FROM_CORE))
    places = PLACES[place]
    lines += [
        operator_stub(n, op, False) + "\n" for n, op in sorted(places.items()) if n.isidentifier()
    ]
    lines += [function_stub(n, f) + "\n" for n, f in _own_functions(module, places)]
    lines.append("def __getattr__(name: str) -> Any: ...\n")
    return "".join(lines)


def _path_of(place: str) -> str | None:
    """Where the stub of a namespace lies; None for a package that holds more than operators."""
    module = import_module(f"facula.{place}")
    file = Path(str(module.__file__))
    path = file.relative_to(PACKAGE).with_suffix(".pyi")
    named = set(getattr(module, "__all__", ()))
    mostly = 2 * len(named & set(PLACES[place])) > len(named)
    if path.stem == "__init__" and path.parts[0] != "namespaces" and not mostly:
        return None
    return str(path)


def stubs() -> dict[str, str]:
    """Every stub by its path below the package."""
    # the sources of the repository: a built package has none
    source = cython_signatures.read(CORE)
    made = {
        "__init__.pyi": package_stub(),
        "core/__init__.pyi": core_package_stub(),
        "core/_core.pyi": core_stub(source),
        "namespaces/return_types.pyi": return_types_stub(),
        "py.typed": "",
    }
    for place in sorted(PLACES):
        if place not in ("", "Tensor") and _exists(f"facula.{place}") and (path := _path_of(place)):
            made[path] = place_stub(place)
    return made
