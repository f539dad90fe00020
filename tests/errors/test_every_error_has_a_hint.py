"""Every error about an argument says what to do, in names that exist: read off the source, so that a
new one cannot go without.

Python sources are read as syntax: every call of `fail` and `message`, by whatever name, and every
`raise` of one of Python's own exceptions.  The core's sources are read as text.
"""

import ast
import builtins
import importlib
import re
from pathlib import Path

import pytest

import facula

ROOT = Path(facula.__file__).parent
SOURCES = sorted(ROOT.rglob("*.py"))
# a name at the end of a piece may go on in a value, so it is left out
NAMES = re.compile(r"\bfacula(?:\.[A-Za-z_]\w*)+\b(?!$)")


#: the place of the hint among the arguments
MAKERS = {"fail": 4, "message": 3}


def calls_of_fail(source):
    """The calls of `fail` and `message` in a source text, also as `errors.fail` or `_fail`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and len(node.args) > 1 and maker(node.func) in MAKERS:
            yield node


def maker(function):
    """The plain name of a function that is called."""
    name = getattr(function, "id", None) or getattr(function, "attr", "")
    if isinstance(function, ast.Attribute) and not (
        isinstance(function.value, ast.Name) and function.value.id.lstrip("_") == "errors"
    ):
        return ""
    return name.lstrip("_")


def hint_of(call):
    """The expression of a call's hint, by its place or as `hint=`; None does not count."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    place = MAKERS[maker(call.func)]
    hint = call.args[place] if len(call.args) > place else given.get("hint")
    return None if isinstance(hint, ast.Constant) and hint.value is None else hint


def calls_without_hint(source):
    """The lines of the calls of `fail` that say nothing about what to do."""
    return [call.lineno for call in calls_of_fail(source) if hint_of(call) is None]


def names_in_hints(source):
    """The names of facula that hints contain, as far as they are written out."""
    for call in calls_of_fail(source):
        for piece in ast.walk(hint_of(call) or ast.Module()):
            if isinstance(piece, ast.Constant) and isinstance(piece.value, str):
                yield from NAMES.findall(piece.value)


#: what Python itself asks for: the ends of loops and processes, and names and keys that are not there
PROTOCOL = {
    "StopIteration",
    "StopAsyncIteration",
    "SystemExit",
    "KeyboardInterrupt",
    "GeneratorExit",
}
ASKED = {
    "AttributeError": re.compile(r"__(get|set|del)attr__|_find|__getattribute__"),
    "KeyError": re.compile(r"__(get|del)item__|__missing__"),
    "IndexError": re.compile(r"__(get|set|del)item__"),
    "NotImplementedError": re.compile(r"__(getstate|reduce|reduce_ex)__"),
    "TypeError": re.compile(r"no_length"),  # what `len` says of a pipe whose length nobody knows
}
#: files whose exceptions are no errors of facula about an argument, with the reason
OTHERS = {
    r"capture/interpreter/concrete\.py|capture/rules/library\.py": "says what Python says, at its instructions",
    r"codegen/|compiler/|lower/|capture/(interpreter/instructions|rules/build)\.py": "faults of the compiler itself",
    r"serialization/|export/archive\.py": "what is wrong with a file: the reader makes one error with a hint of it",
    r"runtime/cache\.py": "nothing is kept under a key: callers make it",
    r"core/config\.py": "what is wrong with a value: `get` makes an error with a hint of it",
    r"namespaces/checks\.py|ops/forms/traced\.py|testing/comparison\.py|data/worker\.py": "the program's text",
    r"distributed/(wire|process_group|tcp_store|nvidia/\w+|engines/(shared|sockets))\.py": "callers say so",
    r"torch_api/alias/install\.py|nn/modules/module\.py": "says what Python says, of modules and calls",
}
BUILTINS = {
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}


def raises_without_hint(source, file=""):
    """The lines that raise one of Python's own exceptions without a hint, except where Python's own
    contract asks for it, or a method says that it is for others to define.
    """
    if any(re.match(pattern, file) for pattern in OTHERS):
        return []
    found = []

    def look(node, function):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Raise) and child.exc is not None:
                name, text = raised(child)
                asked = ASKED.get(name)
                if name not in BUILTINS or name in PROTOCOL or text is MADE:
                    continue
                if text is not None and "hint: " in ast.unparse(text):
                    continue  # written out where the code is a script, too, which has no `fail`
                if asked and function and asked.fullmatch(function.name):
                    continue
                if text is None and name != "RuntimeError":
                    continue  # a signal between functions of one file carries no text
                if name == "NotImplementedError" and is_whole_body(child, function):
                    continue
                found.append(child.lineno)
            inner = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
            look(child, child if inner else function)

    look(ast.parse(source), None)
    return found


MADE = object()


def raised(statement):
    """The name of what is raised, and its text; MADE where `message` makes that."""
    exception = statement.exc
    if not isinstance(exception, ast.Call):
        return getattr(exception, "id", ""), None
    name = getattr(exception.func, "id", "")
    if not exception.args:
        return name, None
    first = exception.args[0]
    if isinstance(first, ast.Call) and maker(first.func) == "message":
        return name, MADE
    return name, first


def is_whole_body(statement, function):
    """Whether a function does nothing else: it is there for a subclass to define."""
    if function is None:
        return False
    body = [each for each in function.body if not isinstance(each, ast.Expr)]
    return body == [statement]


def names_are_spoken(statement):
    """Whether a statement of the core that names something of facula goes through `said`."""
    return statement.startswith("raise said(") or not NAMES.search(statement)


def core_raises_without_hint(source):
    """The statements of the core that raise without a hint: neither with one (made by
    `said` where it names something of facula), nor a signal without text, nor what Python asks of attributes.
    """
    for match in re.finditer(r"^ *raise (\w+)\(", source, re.M):
        end, depth = match.end(), 1
        while depth:
            text = re.compile(r'"(?:[^"\\\n]|\\.)*"').match(source, end)
            depth += 0 if text else {"(": 1, ")": -1}.get(source[end], 0)
            end = text.end() if text else end + 1
        statement = source[match.start() : end].strip()
        if match[1] == "wrong_type" or ("hint: " in statement and names_are_spoken(statement)):
            continue
        if match[1] in ("AttributeError", "MemoryError") or '"' not in statement:
            continue
        yield statement


def exists(name):
    """Whether a dotted name is a module or an attribute of one."""
    found = facula
    for part in name.split(".")[1:]:
        if not hasattr(found, part):
            try:
                found = importlib.import_module(name)
            except ImportError:
                return False
            return True
        found = getattr(found, part)
    return True


CORE = sorted((ROOT / "core").glob("*.p[xy][xi]"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_exception_of_pythons_own_has_a_hint(path):
    assert raises_without_hint(path.read_text(), str(path.relative_to(ROOT))) == []


@pytest.mark.parametrize("path", CORE, ids=lambda path: path.name)
def test_every_exception_of_the_core_has_a_hint(path):
    assert list(core_raises_without_hint(path.read_text())) == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_call_of_fail_has_a_hint(path):
    source = path.read_text()
    assert calls_without_hint(source) == []
    assert [name for name in names_in_hints(source) if not exists(name)] == []


def test_the_reader_finds_calls_without_one():
    source = 'fail(E, "op", "what")\nfail(E, "op", "what", hint="call facula.nothing(x)")\n'
    assert calls_without_hint(source) == [1]
    assert list(names_in_hints(source)) == ["facula.nothing"]
    assert not exists("facula.nothing") and exists("facula.nn.Parameter")


RAISES = """
def f(x):
    if x:
        raise ValueError(f"no {x}")
    raise TypeError(text)

def g():
    raise NotImplementedError("define g")

def h():
    raise ValueError(message("h", "x was required", hint="y")) from None

class A:
    def __getattr__(self, name):
        raise AttributeError(name)

    def other(self, name):
        raise AttributeError(name)
"""


def test_the_reader_finds_exceptions_without_one():
    assert raises_without_hint(RAISES) == [4, 5, 18]
    core = (
        'raise said(ValueError, "[x] y (z)")\nraise ValueError("w")\nraise said(E, "a\\nhint: b")\n'
    )
    assert len(list(core_raises_without_hint(core))) == 2
    assert calls_without_hint('errors.message("op", "what")\n_fail(E, "a", "b", hint=None)') == [
        1,
        2,
    ]
