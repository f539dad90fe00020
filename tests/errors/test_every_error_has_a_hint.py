"""Every error about an argument says what to do, in names that exist: read off the source, so that a
new one cannot go without.
"""

import ast
import importlib
import re
from pathlib import Path

import pytest

import facula

ROOT = Path(facula.__file__).parent
SOURCES = sorted(ROOT.rglob("*.py"))
# a name at the end of a piece may go on in a value, so it is left out
NAMES = re.compile(r"\bfacula(?:\.[A-Za-z_]\w*)+\b(?!$)")


def calls_of_fail(source):
    """The calls of `fail` in a source text."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "fail"
        ):
            yield node


def hint_of(call):
    """The expression of a call's hint: the fifth argument, or `hint=`."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    return call.args[4] if len(call.args) > 4 else given.get("hint")


def calls_without_hint(source):
    """The lines of the calls of `fail` that say nothing about what to do."""
    return [call.lineno for call in calls_of_fail(source) if hint_of(call) is None]


def names_in_hints(source):
    """The names of facula that hints contain, as far as they are written out."""
    for call in calls_of_fail(source):
        for piece in ast.walk(hint_of(call) or ast.Module()):
            if isinstance(piece, ast.Constant) and isinstance(piece.value, str):
                yield from NAMES.findall(piece.value)


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
