"""The part of the headers that is generated: one function and method of C++ for each operator of the table.

Takes the operator table. Gives `generated`, a folder with headers: the operators, and a file for each header of
PyTorch's that leads to ours. Keeps true: names, argument order and result types follow from the schemas; what
the hand-written headers declare is left out; the folder is made once for each state of the table and the headers.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Iterator
from typing import Any

from facula.ops.table.registry import own_operators
from facula.runtime import cache, trust

__all__ = ["INCLUDE", "INPLACE", "generated"]

INCLUDE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "include")
#: behind the name of an operator: its in-place form
INPLACE = "/in-place"

#: PyTorch's headers by what of ours they lead to; `ATen/ops/<operator>.h` are derived from the table
FORWARDS = {
    "facula/pybind.h": "torch/extension.h torch/python.h torch/csrc/utils/pybind.h",
    "facula/library.h": (
        "torch/torch.h torch/all.h torch/types.h torch/library.h torch/script.h torch/autograd.h "
        "torch/custom_class.h torch/csrc/autograd/custom_function.h torch/csrc/autograd/variable.h "
        "torch/csrc/autograd/function.h torch/csrc/autograd/autograd.h torch/csrc/api/include/torch/all.h "
        "torch/csrc/api/include/torch/types.h ATen/core/dispatch/Dispatcher.h "
        "ATen/core/op_registration/op_registration.h"
    ),
    "facula/functions.h": (
        "ATen/ATen.h ATen/Functions.h ATen/NativeFunctions.h ATen/Operators.h ATen/Parallel.h "
        "ATen/TensorIndexing.h ATen/AccumulateType.h ATen/OpMathType.h ATen/TensorUtils.h "
        "ATen/ExpandUtils.h ATen/WrapDimUtils.h ATen/Context.h ATen/Utils.h ATen/TensorOperators.h "
        "c10/core/GradMode.h c10/core/InferenceMode.h"
    ),
    "facula/dispatch.h": "ATen/Dispatch.h ATen/Dispatch_v2.h",
    "facula/convert.h": "ATen/core/ivalue.h ATen/core/List.h ATen/core/Dict.h",
    "facula/tensor.h": (
        "ATen/Tensor.h ATen/core/Tensor.h ATen/core/TensorBase.h ATen/core/Generator.h ATen/Generator.h"
    ),
    "facula/accessor.h": "ATen/TensorAccessor.h ATen/core/TensorAccessor.h",
    "facula/types.h": (
        "ATen/Device.h ATen/ScalarOps.h ATen/core/ScalarType.h ATen/core/Scalar.h ATen/Scalar.h "
        "ATen/core/Reduction.h c10/core/Device.h c10/core/DeviceType.h c10/core/Layout.h c10/core/MemoryFormat.h "
        "c10/core/Scalar.h c10/core/ScalarType.h c10/core/TensorOptions.h c10/util/ArrayRef.h c10/util/BFloat16.h "
        "c10/util/Half.h c10/util/Optional.h c10/util/complex.h c10/util/irange.h c10/util/string_view.h "
        "c10/util/SmallVector.h c10/core/SymInt.h c10/core/SymIntArrayRef.h"
    ),
    "facula/errors.h": (
        "c10/util/Exception.h c10/macros/Macros.h c10/util/StringUtil.h c10/macros/Export.h c10/util/Logging.h"
    ),
}

_RESULTS = {
    "Tensor": "Tensor",
    "Tensor[]": "std::vector<Tensor>",
    "bool": "bool",
    "int": "int64_t",
    "float": "double",
    "any": "::facula::Value",
    "": "void",
}
#: parameters that C++ has as one, TensorOptions
_OPTIONS = ("dtype", "layout", "device", "pin_memory", "requires_grad")
#: modules whose operators have a prefix in `at`, and a namespace of `torch`
_PREFIXED = ("linalg", "special", "fft")
_DECLARED = re.compile(
    r"(?:^|[\s&*>])(?:FACULA_(?:METHOD|WRITES|IS|ASKS)\((\w+)|(\w+)\([^;]*\)(?: const)?(?: &)? \{)"
)
#: operators that have another form among the hand-written ones
_BESIDE = {"where"}
#: words that no function of C++ may be called
_RESERVED = frozenset(
    "and or xor not compl bitand bitor union signed unsigned short long int float double char bool "
    "delete new template class operator switch case default typename export import".split()
)


def _declared(name: str) -> frozenset[str]:
    """The functions that a hand-written header declares."""
    with open(os.path.join(INCLUDE, "facula", name), encoding="utf-8") as file:
        found = _DECLARED.findall(file.read())
    return frozenset(a or b for a, b in found) - _BESIDE


def _result_type(text: str) -> str:
    """The C++ type of a schema's results."""
    shown = text.rpartition("->")[2].strip()
    if not shown.startswith("("):
        return _RESULTS[shown]
    parts = [part.split() for part in shown[1:-1].split(",") if part.strip()]
    if not parts:
        return "void"
    return f"std::tuple<{', '.join(_RESULTS[part[0]] for part in parts)}>"


class _Argument:
    """An argument of a C++ function: its type, default, and the name under which Python knows it."""

    def __init__(self, name: str, type: str, default: str, by_name: bool) -> None:
        self.name, self.type, self.default, self.by_name = name, type, default, by_name

    def shown(self) -> str:
        """As a declaration has it."""
        return f"{self.type}{self.name}_" + (f" = {self.default}" if self.default else "")


_ABSENT = "Arg::absent()"


def _argument(p: Any) -> _Argument:
    default = _ABSENT if p.has_default else ""
    if p.is_list or (p.type == "any" and p.variadic):
        return _Argument(p.name, "const List &", default and "List(Arg::absent())", p.keyword_only)
    if p.type == "Tensor" and not p.optional:
        return _Argument(p.name, "const Tensor &", "", p.keyword_only)
    return _Argument(p.name, "const Arg &", default, p.keyword_only)


def _arguments(schema: Any) -> list[_Argument]:
    """The arguments of an operator, those that say how tensors are made as one."""
    names = [p.name for p in schema.parameters]
    made = {"dtype", "device"} <= set(names)
    found: list[_Argument] = []
    for p in schema.parameters:
        if made and p.name in _OPTIONS:
            if p.name == "dtype":
                found.append(_Argument("options", "const TensorOptions &", "{}", True))
            continue
        found.append(_argument(p))
    for argument, following in zip(found, found[1:], strict=False):
        if (
            argument.default and not following.default
        ):  # C++ has no default before an argument without one
            argument.default = ""
    return found


def _body(key: str, arguments: list[_Argument], self_: str, result: str, given: str = "") -> str:
    """The body of a function: a call of the operator; `given` is the result where C++ has it already."""
    names = ", ".join(f'{{"{a.name}", {str(a.by_name).lower()}}}' for a in arguments)
    values, passed = [], []
    for number, argument in enumerate(arguments):
        value = self_ if not number and self_ else argument.name + "_"
        if value == self_ or argument.type not in ("const Arg &", "const List &"):
            values.append(f"const Arg a{number}({value}); ")
            value = f"a{number}"
        passed.append(f"&{value}")
    call = f"::facula::invoke(op, names, {{{', '.join(passed)}}})"
    last = f"{call}; return {given};" if given else f"return ::facula::result<{result}>({call});"
    table = f"static const ::facula::Parameter names[] = {{{names or '{}'}}}; "
    return f'{{ static const ::facula::Operator op("{key}"); {table}{"".join(values)}{last} }}'


def _forms(definition: Any) -> Iterator[tuple[str, list[_Argument]]]:
    """Result types and arguments of an operator: C++ tells apart by arguments what Python does by values."""
    schema = definition.schema
    arguments, result = _arguments(schema), _result_type(schema.text)
    by_name = {p.name: p for p in schema.parameters}
    dim = by_name.get("dim")
    several = result == "::facula::Value" or result.startswith("std::tuple<Tensor, Tensor>")
    whole = dim is not None and dim.has_default and dim.default is None
    if not (several and whole and "keepdim" in by_name and "correction" not in by_name):
        yield result, arguments
        return
    first = arguments[: [a.name for a in arguments].index("dim")]
    yield "Tensor", first
    keepdim = _Argument("keepdim", "const Arg &", _ABSENT, False)
    along = [*first, _Argument("dim", "int64_t ", "", False), keepdim]
    yield "std::tuple<Tensor, Tensor>", along
    if "other" in by_name:
        yield "Tensor", [*first, _Argument("other", "const Tensor &", "", False)]


class _Names:
    """The forms that were written of each name: no two alike."""

    def __init__(self, taken: frozenset[str]) -> None:
        self.taken = taken | _RESERVED
        self.owner: dict[str, str] = {}

    def free(self, name: str, owner: str) -> bool:
        """Whether an operator may have a name."""
        return (
            name.isidentifier()
            and not name.startswith("__")
            and name not in self.taken
            and self.owner.setdefault(name, owner) == owner
        )


def _methods(definitions: list[Any]) -> Iterator[str]:
    names = _Names(_declared("tensor.h"))
    for definition in definitions:
        own = {name.rpartition(".")[2] for name in definition.names if name.startswith("Tensor.")}
        if [p.name for p in definition.schema.parameters[:1]] == ["self"]:
            own.add(definition.name)  # C++ has methods that Python has not: `slice`, say
        for name in sorted(own):
            if definition.schema.parameters and names.free(name, definition.name):
                for result, arguments in _forms(definition):
                    shown = ", ".join(a.shown() for a in arguments[1:])
                    body = _body(definition.name, arguments, "*this", result)
                    yield f"{result} {name}({shown}) const {body}"
            if definition.inplace and names.free(name + "_", definition.name):
                arguments = _arguments(definition.schema)
                shown = ", ".join(a.shown() for a in arguments[1:])
                body = _body(
                    definition.name + INPLACE, arguments, "*this", "", "const_cast<Tensor &>(*this)"
                )
                yield f"Tensor &{name}_({shown}) const {body}"


def _function(name: str, definition: Any) -> Iterator[str]:
    """An operator as a function, and its form that writes into a tensor."""
    for result, arguments in _forms(definition):
        shown = ", ".join(a.shown() for a in arguments)
        yield f"inline {result} {name}({shown}) {_body(definition.name, arguments, '', result)}"
    result, arguments = _result_type(definition.schema.text), _arguments(definition.schema)
    if definition.out and result == "Tensor" and arguments:
        out = _Argument("out", "Tensor &", "", True)
        shown = ", ".join(a.shown() for a in (out, *arguments))
        # by its name in Python, so it may stand last there
        body = _body(definition.name, [*arguments, out], "", "", "out_")
        yield f"inline Tensor &{name}_out({shown}) {body}"


def _in_place(name: str, definition: Any) -> str:
    arguments = _arguments(definition.schema)
    shown = ", ".join(a.shown() for a in arguments[1:])
    first = f"Tensor &{arguments[0].name}_"
    arguments[0].type = "Tensor &"
    body = _body(definition.name + INPLACE, arguments, "", "", f"{arguments[0].name}_")
    return f"inline Tensor &{name}_({', '.join(filter(None, (first, shown)))}) {body}"


def _function_names(definition: Any) -> Iterator[tuple[str, str]]:
    """Namespaces and names under which C++ has an operator."""
    for full in definition.names:
        module, _, name = full.rpartition(".")
        if module in _PREFIXED:
            yield "at", f"{module}_{name}"
            yield f"torch::{module}", name
        elif module in ("", "nn.functional"):
            yield "at", name
    yield "at", definition.name


def _functions(definitions: list[Any]) -> Iterator[str]:
    known: dict[str, _Names] = {}
    taken = _declared("functions.h")
    lines: dict[str, list[str]] = {}
    # names of the root before those of modules: they are the ones that C++ has
    for wanted in (0, 1, 2):
        for definition in definitions:
            for number, (space, name) in enumerate(_function_names(definition)):
                kind = 0 if name in definition.names else 1 if number < len(definition.names) else 2
                names = known.setdefault(space, _Names(taken if space == "at" else frozenset()))
                written = name in names.owner
                if kind != wanted or written or not names.free(name, definition.name):
                    continue
                into = lines.setdefault(space, [])
                into += _function(name, definition)
                if definition.inplace and space == "at" and names.free(name + "_", definition.name):
                    into.append(_in_place(name, definition))
    for space, text in lines.items():
        yield f"namespace {space} {{"
        if space != "at":
            yield "using at::Tensor; using at::Arg; using at::List; using at::TensorOptions;"
        yield from text
        yield "}"


def _files() -> dict[str, str]:
    """The generated headers by their paths."""
    definitions = [operator.definition for operator in own_operators().values()]
    note = "// Generated from the operator table by facula.utils.cpp_extension.headers.\n"
    files = {
        "facula/generated/methods.h": note + "\n".join(_methods(definitions)) + "\n",
        "facula/generated/functions.h": f"{note}#pragma once\n"
        + "\n".join(_functions(definitions))
        + "\n",
    }
    for ours, theirs in FORWARDS.items():
        for path in theirs.split():
            also = (
                "#include <facula/dispatch.h>\n"
                if ours in ("facula/pybind.h", "facula/library.h", "facula/functions.h")
                else ""
            )
            files[path] = f"#pragma once\n#include <{ours}>\n{also}"
    for definition in definitions:
        files[f"ATen/ops/{definition.name}.h"] = "#pragma once\n#include <facula/functions.h>\n"
        for name in definition.names:
            files[f"ATen/ops/{name.rpartition('.')[2]}.h"] = (
                "#pragma once\n#include <facula/functions.h>\n"
            )
    return files


@functools.cache
def header_digest() -> str:
    """What tells one state of the table and of the hand-written headers from another."""
    digest = hashlib.sha256()
    folder = os.path.join(INCLUDE, "facula")
    for path in (__file__, *sorted(os.path.join(folder, name) for name in os.listdir(folder))):
        with open(path, "rb") as file:
            digest.update(file.read())
    for name, operator in own_operators().items():
        definition = operator.definition
        parts = (name, definition.schema.text, definition.names, definition.inplace, definition.out)
        digest.update(repr(parts).encode())
    return digest.hexdigest()[:24]


@functools.cache
def generated() -> str:
    """The folder of generated headers, made where it is not there; nobody else may write to it."""
    above = os.path.join(cache.directory(), "headers")
    os.close(trust.open_folder(above))
    folder = os.path.join(above, header_digest())
    try:
        os.close(trust.open_folder(folder, make=False))
        return folder
    except FileNotFoundError:
        pass
    making = f"{folder}.{os.urandom(6).hex()}"
    os.close(trust.open_folder(making))
    for path, text in _files().items():
        full = os.path.join(making, path)
        os.makedirs(os.path.dirname(full), mode=0o700, exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)
    try:
        os.rename(making, folder)
    except OSError:  # another process was first, and made the same
        _remove(making)
    return folder


def _remove(folder: str) -> None:
    for inside, folders, names in os.walk(folder, topdown=False):
        for name in names:
            os.unlink(os.path.join(inside, name))
        for name in folders:
            os.rmdir(os.path.join(inside, name))
    os.rmdir(folder)
