"""Functions of the operator packages have types: a definition's by its schema, others' by annotations.

mypy holds all other packages to annotations (`disallow_untyped_defs`); in `ops` it has to let definitions
through, so what is no definition is checked here.
"""

import ast
from pathlib import Path

import pytest

from facula.ops.table import heard, heard_gradients, registry

SOURCE = Path(registry.__file__).parent
#: what makes a definition out of a function or a class; `add.backward` is given to one
DEFINES = {"pointwise", "view", "operator", "composite", "backward"}
#: and what makes a part of one: what listeners hear of it has its arguments
DEFINES |= {"hear", "hear_gradient", "define"}


def decorators(node):
    """The last name of each decorator: `backward` of `@add.backward`."""
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        yield called.attr if isinstance(called, ast.Attribute) else called.id


def untyped(node, inside=False):
    """The functions that lack annotations, without those of definitions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.ClassDef, ast.FunctionDef)):
            if DEFINES & set(decorators(child)):
                continue
            if isinstance(child, ast.FunctionDef) and not inside and not annotated(child):
                yield child.name
        yield from untyped(child, inside or isinstance(child, ast.FunctionDef))


def annotated(function):
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    own = {"self", "cls"}
    return function.returns is not None and all(a.annotation or a.arg in own for a in every)


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.relative_to(SOURCE).as_posix()
)
def test_what_is_no_definition_is_annotated(path):
    assert list(untyped(ast.parse(path.read_text()))) == []


def test_definitions_are_what_the_registry_makes():
    makers = (registry, heard, heard_gradients)
    assert all(any(hasattr(m, name) for m in makers) for name in DEFINES - {"backward"})
