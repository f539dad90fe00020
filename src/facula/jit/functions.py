"""Compiled functions: from a definition in source text to a graph that runs.

Takes a Python function, or the definition in an archive. Gives `Unit`: its parameters, result, graph; compiled
when it is first needed.
Keeps true: a function is compiled once; one that calls itself has to say its result type.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from facula.core.errors import fail
from facula.jit.interpreter import Program
from facula.jit.ir import Graph, Value
from facula.jit.passes.cleaning import tidy
from facula.jit.python_types import (
    TYPE_NAMES,
    NoType,
    annotation_type,
    qualified_name,
    type_of_value,
)
from facula.jit.python_values import is_own
from facula.jit.source import NotSupportedError, Source, UnknownTypeError, refuse, source_of
from facula.jit.statements import Statements
from facula.jit.values import Compiled
from facula.ops.table.schemas import types as T

__all__ = ["FunctionUnit", "Lowering", "unit_of_python"]

Empty = inspect.Parameter.empty
#: turns of unrolled loops in a function of a file, where writers have unrolled them
_TURNS = 20_000


class Lowering(Statements):
    """One function on its way to a graph."""

    def __init__(self, unit: FunctionUnit) -> None:
        super().__init__(Graph(), unit.source)
        self.unit = unit
        self.look_up = unit.look_up
        self.unit_of = unit.unit_of
        self.env: dict[str, Any] = {}
        self.declared: dict[str, T.Type] = {}
        self.absent: dict[str, str] = {}
        self.homes: dict[str, Any] = {}
        self.annotated: dict[
            str, Any
        ] = {}  # the blocks in which parameters and annotated names stand
        self.folds = is_own(unit.python)
        self.in_init = unit.definition.name == "__init__"
        self.result_type = unit.declared_result
        self.turns = 0

    def unit_is_archive(self) -> bool:
        return self.unit.is_archive

    def unrolled_once(self) -> None:
        """Loops over tuples inside of each other: the work grows with the power of their number."""
        self.turns += 1
        if self.unit_is_archive() and self.turns > _TURNS:
            self.refuse(f"at most {_TURNS} turns of loops over tuples and modules were required", "more",
                        hint="the file is damaged, or no TorchScript program")  # fmt: skip

    def missing(self, name: str, args: list[Value]) -> Value:
        """In a file, a branch that is not taken may name operators that are not there."""
        if not self.unit_is_archive():
            return super().missing(name, args)

        def run(*values: Any) -> Any:
            fail(NotImplementedError, name, "an operator that facula has was required", name,
                 hint="the program was written with an operator that only PyTorch has")  # fmt: skip

        return self.value(name, args, T.TENSOR, run)

    def run(self) -> Graph:
        """The graph of the whole function."""
        for name, kind, _ in self.unit.parameters:
            value = self.graph.add_parameter(kind, name)
            if name in self.unit.inferred:
                self.inferred.add(value)
            self.env[name] = value
            self.declared[name], self.annotated[name] = kind, self.block
        self.env.update(self.unit.presets)
        self.statements(self.unit.definition.body)
        result = self._result_value()
        self.graph.results = [result]
        tidy(self.graph)
        self.unit.found_result = result.type
        return self.graph

    def _result_value(self) -> Value:
        result = self.env.get("$result")
        returned = self.env.get("$returned")
        if isinstance(result, Value) and (self.gone() or not isinstance(returned, Value)):
            return self._declared(result)
        if isinstance(result, Value) and isinstance(returned, Value):
            return self._falls_through(result, returned)
        self.place = self.source.place(self.unit.definition)
        if self.result_type not in (None, T.NONE) and not self.gone():
            self._must_return()
        if self.result_type is not None and self.gone():
            return self.uninitialized(self.result_type)
        return self.constant(None)

    def _must_return(self) -> None:
        """The error of a function with a result that comes to its end without `return`."""
        self.place = self.source.place(self.unit.definition)
        self.refuse("a return value on every path was required",
                    "a path without one (the function does not return along all paths)")  # fmt: skip

    def _declared(self, result: Value) -> Value:
        wanted = self.result_type
        if (
            wanted is not None
            and result.type != wanted
            and wanted.kind in ("Optional", "Union", "Any")
        ):
            self.unit.found_result = wanted
        return result

    def _falls_through(self, result: Value, returned: Value) -> Value:
        """Some path comes to the end without `return`: that gives None."""
        wanted = self.result_type
        if wanted not in (None, T.NONE) and not isinstance(
            self.unit.definition.body[-1], (ast.For, ast.While)
        ):
            self._must_return()
        kind = T.unify(result.type, T.NONE, wanted)
        if wanted is not None and T.NONE not in T.members(wanted) or kind is None:
            return result  # a loop that only `return` leaves
        node = self.emit("prim::If", [returned], [])
        node.add_block().results = [result]
        outer, self.block = self.block, node.add_block()
        self.block.results = [self.constant(None)]
        self.block = outer
        node.outputs_ = [Value(kind, node)]
        return node.outputs_[0]


class FunctionUnit(Compiled):
    """A function, method or archive function that is compiled when needed."""

    #: whether a default has to be of the type of its argument
    checks_defaults = True

    def __init__(
        self,
        name: str,
        definition: ast.FunctionDef,
        source: Source,
        look_up: Callable[[str], Any],
        defaults: dict[str, Any],
        self_type: T.ClassType | None = None,
        python: Any = None,
    ) -> None:
        self.name, self.definition, self.source, self.look_up = name, definition, source, look_up
        self.defaults, self.self_type, self.python = defaults, self_type, python
        self.unit_of: Callable[[Any], Any] = unit_of_python
        self._graph: Graph | None = None
        self._program: Program | None = None
        self._busy = False
        #: what stands for arguments that are no values: functions, and defaults that a call leaves
        self.presets: dict[str, Any] = {}
        #: the arguments that are tensors because nothing says otherwise
        self.inferred: set[str] = set()
        #: of lists for which one number may stand, how often: `BroadcastingList2[int]`
        self.lengths: dict[str, int] = {}
        self._noted: list[ast.AST] = []
        self.method_name = ""
        self.found_result: T.Type | None = None
        self._read = False
        self._parameters: list[tuple[str, T.Type, Any]] = []
        self._result: T.Type | None = None

    @property
    def is_archive(self) -> bool:
        """Whether the definition stands in a file of an archive."""
        return self.python is None

    # ---- the declaration
    def _declare(self) -> None:
        if self._read:
            return
        self._read = True
        arguments = self.definition.args
        if arguments.vararg is not None or arguments.kwarg is not None:
            refuse(self.source.place(self.definition), "named parameters were required (compiled functions can't take "
                   "variable number of arguments or use keyword-only arguments with defaults)", "* or **",
                   "write the parameters out", NotSupportedError)  # fmt: skip
        comment = self._type_comment()
        listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        start = 1 if self.self_type is not None else 0
        self._check_counts(listed, start, comment)
        for i, argument in enumerate(listed):
            if i < start:
                assert self.self_type is not None
                self._parameters.append((argument.arg, self.self_type, Empty))
                continue
            kind = T.TENSOR
            said: ast.AST | None = argument.annotation
            if comment is not None and i - start < len(comment[0]):
                kind = comment[0][i - start]
                said = self._noted[i - start]
            elif argument.annotation is not None:
                kind = self._type(argument.annotation, argument)
            elif self.definition.name == "__setstate__" and self.self_type is not None:
                own = self.self_type.methods.get("__getstate__")
                kind = own.compiled().result_type() if own is not None else kind
            elif not self.is_archive:
                self.inferred.add(argument.arg)
            self._note_length(argument.arg, said)
            default = self.defaults.get(argument.arg, Empty)
            self._check_default(argument, kind, default)
            self._parameters.append((argument.arg, kind, default))
        if comment is not None:
            self._result = comment[1]
        elif self.definition.returns is not None:
            self._result = self._type(self.definition.returns, self.definition.returns)

    def _note_length(self, name: str, said: ast.AST | None) -> None:
        """Keeps how often one number stands in a list, where an annotation says it."""
        text = "" if said is None else ast.unparse(said)
        length = re.search(r"BroadcastingList(\d)|_size_(?=[1-6]_t\b)", text)
        if length is not None and length[1] is None:
            length = re.search(r"_size_(\d)_t", text)
        if length is not None:
            self.lengths[name] = int(length[1])

    def _check_counts(self, listed: list[ast.arg], start: int, comment: Any) -> None:
        """A method has a self, and a comment of types as many as there are arguments."""
        if start and not listed:
            name = self.definition.name
            refuse(self.source.place(self.definition), "a method with a first argument was required (methods must have "
                   f"a self argument: {name!r} does not have a self argument)", "none",
                   f"def {name}(self), or @staticmethod")  # fmt: skip
        if comment is not None and len(comment[0]) != len(listed) - start:
            refuse(self.source.place(self.definition), f"Number of type annotations ({len(comment[0])}) did "
                                                       f"not match the "
                   f"number of function parameters ({len(listed) - start}):", ast.unparse(self.definition.args),
                   "# type: (Tensor, int) -> Tensor")  # fmt: skip

    def _check_default(self, argument: ast.arg, kind: T.Type, default: Any) -> None:
        """A default has the type of its argument, and every call sees the same."""
        if default is Empty or self.is_archive or not self.checks_defaults:
            return
        if _changes(default):
            refuse(self.source.place(argument), "a default that nobody can change was required (Mutable default "
                   "parameters are not supported: all calls would share it)", default,
                   "None as default, and a new list where that is found")  # fmt: skip
        try:
            have = type_of_value(default)
        except (NoType, RuntimeError):
            return
        number = have.kind in ("int", "bool") and kind.kind in ("float", "complex", "bool")
        if isinstance(default, str) and kind.kind == "Device" or number or _covers(kind, have):
            return
        inferred = "" if argument.annotation is not None else " (inferred)"
        refuse(self.source.place(argument), f"Expected a default value of type {kind.annotation_str}{inferred} on "
               f"parameter {argument.arg!r}", have.annotation_str,
               "annotate the argument: arguments without an annotation are tensors")  # fmt: skip

    def _type(self, node: ast.AST, place: ast.AST, comment: bool = False) -> T.Type:
        look_up = _with_type_names(self.look_up) if comment else self.look_up
        try:
            return annotation_type(node, look_up)
        except (NoType, KeyError) as reason:
            return refuse(self.source.place(place), "an annotation that TorchScript has was required (Unknown type "
                          "annotation)", str(reason), error=UnknownTypeError)  # fmt: skip

    def _type_comment(self) -> tuple[list[T.Type], T.Type | None] | None:
        """`# type: (Tensor, int) -> Tensor` below the first line."""
        first = self.definition.lineno - 1
        last = self.definition.body[0].lineno
        for line in self.source.lines[first:last]:
            found = re.search(r"#\s*type\s*:\s*\((.*)\)\s*->\s*([^#]*)", line)
            if found is None:  # a line of its own may leave the result to the body
                found = re.match(r"\s*#\s*type\s*:\s*\((.*)\)()\s*$", line)
            if found and "# type:" not in line and not self.is_archive:
                refuse(self.source.place(self.definition), "'# type:' before the types was required: the "
                       f"annotation prefix in line {line.strip()!r} is another", line.strip(),
                       "one blank behind #, none before :")  # fmt: skip
            if found:
                said = found[2].strip()
                result = (
                    self._type(ast.parse(said, mode="eval").body, self.definition, True)
                    if said
                    else None
                )
                if found[1].strip() == "...":
                    return self._commented(), result
                given = ast.parse(f"({found[1]},)" if found[1].strip() else "()", mode="eval").body
                assert isinstance(given, ast.Tuple)
                self._noted = list(given.elts)
                return [self._type(e, self.definition, True) for e in given.elts], result
        return None

    def _commented(self) -> list[T.Type]:
        """The types of arguments that have a line each, with `# type: int` behind it."""
        made = []
        start = 1 if self.self_type is not None else 0
        listed = self.definition.args
        for argument in [*listed.posonlyargs, *listed.args, *listed.kwonlyargs][start:]:
            found = re.search(r"#\s*type:\s*([^#]*)", self.source.lines[argument.lineno - 1])
            node = ast.parse(found[1].strip(), mode="eval").body if found else None
            self._noted.append(node or argument)
            made.append(T.TENSOR if node is None else self._type(node, argument, True))
        return made

    @property
    def parameters(self) -> list[tuple[str, T.Type, Any]]:
        """Name, type and default of each argument."""
        self._declare()
        return self._parameters

    @property
    def declared_result(self) -> T.Type | None:
        """The annotated type of the result."""
        self._declare()
        return self._result

    def result_type(self) -> T.Type:
        """The type of the result."""
        if self.declared_result is not None:
            return self.declared_result
        self.compiled()
        if self.found_result is None:
            refuse(self.source.place(self.definition), "a function that calls itself was required to have "
                   "an annotated result", f"{self.name}, which is called recursively",
                   "def f(x: int) -> int: ...")  # fmt: skip
        return self.found_result

    # ---- compilation
    def compiled(self) -> FunctionUnit:
        """Compiles, unless that is done or under way; a method of an interface says its types only."""
        declares = self.self_type is not None and self.self_type.is_interface
        if self._graph is None and not self._busy and not declares:
            self._busy = True
            try:
                self._graph = Lowering(self).run()
            finally:
                self._busy = False
        return self

    @property
    def graph(self) -> Graph:
        self.compiled()
        assert self._graph is not None
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        self._graph, self._program = graph, None

    def run(self, *args: Any) -> Any:
        """Run with all arguments in order."""
        if self._program is None:
            self._program = Program(self.graph, self.definition.name)
        return self._program(*args)


def _with_type_names(look_up: Callable[[str], Any]) -> Callable[[str], Any]:
    """Names in comments of types: those of types are known there without an import."""

    def found(name: str) -> Any:
        try:
            return look_up(name)
        except KeyError:
            if name in TYPE_NAMES:
                return TYPE_NAMES[name]
            raise

    return found


def _changes(default: Any) -> bool:
    """Whether somebody could change a default: a list or dictionary, or a tuple with one inside."""
    if isinstance(default, tuple):
        return any(map(_changes, default))
    return isinstance(default, (list, dict, set))


def _covers(kind: T.Type, have: T.Type) -> bool:
    """Whether a default of a type may stand for an argument of another: a tuple is a list, an int a float."""
    for member in T.members(kind):
        if T.is_subtype(have, member) or have.kind == "int" and member.kind == "float":
            return True
        if member.kind == "List" and have.kind == "Tuple":
            return all(_covers(member.item, t) for t in have.inner)
        if member.kind == "List" and _covers(member.item, have):  # BroadcastingList
            return True
        if member.kind == have.kind == "Tuple" and len(member.inner) == len(have.inner):
            return all(map(_covers, member.inner, have.inner))
    return False


# ------------------------------------------------------------------ Python functions

_UNITS: dict[Any, Any] = {}
#: what makes units of functions that are not compiled: ignored, overloaded, dispatched, the library's
SPECIAL: list[Callable[[Any], Any]] = []


def names_of(function: Callable[..., Any]) -> Callable[[str], Any]:
    """A way to look names up as the function does."""
    function = inspect.unwrap(function)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    scope = function.__globals__

    def look_up(name: str) -> Any:
        if name in cells:
            try:
                return cells[name].cell_contents
            except ValueError:
                fail(KeyError, "jit.script", "a name with a value was required", name,
                     hint="assign it before script()")  # fmt: skip
        return found_name(name, [scope], "the module of the function")

    return look_up


def found_name(name: str, scopes: Sequence[Mapping[str, Any]], where: str) -> Any:
    """What a name stands for: in scopes, in Python, or in the frame that called `script`."""
    for scope in (*scopes, vars(builtins), *EXTRA_NAMES):
        if name in scope:
            return scope[name]
    return fail(KeyError, "jit.script", "a name that is defined was required", name,
                hint=f"import or define it in {where}")  # fmt: skip


#: names of the frame that called `script`, for annotations of classes defined in functions
EXTRA_NAMES: list[dict[str, Any]] = []


def caller_names(frames: int) -> dict[str, Any]:
    """The names of a caller's function and module, so many frames above the one that asks."""
    frame = inspect.currentframe()
    for _ in range(frames + 1):
        frame = frame.f_back if frame is not None else None
    return {} if frame is None else {**frame.f_globals, **frame.f_locals}


def unit_of_python(function: Callable[..., Any], self_type: T.ClassType | None = None) -> Any:
    """The unit of a Python function."""
    key = (function, self_type)
    if key not in _UNITS:
        for special in SPECIAL:
            made = special(function)
            if made is not None:
                _UNITS[key] = made
                return made
        _UNITS[key] = make_unit(function, self_type)
    return _UNITS[key]


def make_unit(function: Callable[..., Any], self_type: T.ClassType | None = None) -> FunctionUnit:
    """A new unit of a Python function or method."""
    function = inspect.unwrap(getattr(function, "__func__", function))
    if not hasattr(function, "__code__"):
        fail(RuntimeError, "jit.script", "a Python function was required (Python builtin "
             f"{repr(function)[:80]} is currently not supported in TorchScript)", repr(function)[:80],
             hint="operators are called by their public names")  # fmt: skip
    source, definition = source_of(function)
    assert isinstance(definition, ast.FunctionDef)
    parameters = inspect.signature(function).parameters
    defaults = {n: p.default for n, p in parameters.items() if p.default is not Empty}
    name = qualified_name(function)
    look_up = names_of(function)
    if self_type is not None and isinstance(self_type.python, type):
        look_up = _or_its_class(look_up, self_type.python)
    return FunctionUnit(name, definition, source, look_up, defaults, self_type, function)


def _or_its_class(look_up: Callable[[str], Any], owner: type) -> Callable[[str], Any]:
    """Names as a method sees them once its class is there: while it is made, its name stands for nothing."""

    def found(name: str) -> Any:
        try:
            return look_up(name)
        except KeyError:
            if name != owner.__name__:
                raise
            return owner

    return found
