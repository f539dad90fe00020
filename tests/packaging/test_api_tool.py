"""What `tools/gen_api.py` derives from the operator table: stubs that name everything, pages that link."""

import ast
import importlib
import pickle
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import facula
from facula.ops.table.registry import PLACES, RETURN_TYPES, own_operators

TOOLS = str(Path(__file__).resolve().parents[2] / "tools")


@pytest.fixture(scope="module")
def tools():
    sys.path.insert(0, TOOLS)
    yield {name: importlib.import_module(name) for name in ("api_stubs", "api_docs")}
    sys.path.remove(TOOLS)


@pytest.fixture(scope="module")
def stubs(tools):
    return {path: ast.parse(text) for path, text in tools["api_stubs"].stubs().items()}


@pytest.fixture(scope="module")
def pages(tools):
    return tools["api_docs"].pages()


def defined(body):
    """The names that statements of a stub define."""
    names = set()
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.AnnAssign):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets}
    return names


def functions(body, name):
    return [node for node in body if isinstance(node, ast.FunctionDef) and node.name == name]


def class_in(stubs, path, name):
    return next(n for n in stubs[path].body if isinstance(n, ast.ClassDef) and n.name == name)


def test_every_public_name_is_in_the_package_stub(stubs):
    public = {name for name in dir(facula) if not name.startswith("_") and hasattr(facula, name)}
    missing = public - defined(stubs["__init__.pyi"].body)
    assert all(isinstance(getattr(facula, name), ModuleType) for name in missing), missing


@pytest.mark.parametrize("place", sorted(set(PLACES) - {"", "Tensor"}))
def test_every_namespace_has_its_operators(stubs, tools, place):
    path = tools["api_stubs"]._path_of(place)
    names = {name for name in PLACES[place] if name.isidentifier()}
    assert path is not None and names <= defined(stubs[path].body)


def test_every_method_of_tensor_is_there(stubs, tools):
    members = defined(class_in(stubs, "core/_core.pyi", "Tensor").body)
    missing = set(vars(facula.Tensor)) - members - tools["api_stubs"].HIDDEN
    assert all(name.startswith("_") for name in missing), missing


def test_parameters_are_those_of_the_schema(stubs):
    body = stubs["__init__.pyi"].body
    checked = 0
    for name, operator in PLACES[""].items():
        if not isinstance(operator, facula.core.Op) or not name.isidentifier():
            continue
        node = functions(body, name)[0]
        found = [a.arg for a in (*node.args.args, *node.args.kwonlyargs)]
        schema = [p.name for p in operator.definition.schema.parameters]
        if schema and schema[0] in ("self", "x"):
            schema[0] = "input"
        expected = {n if n not in ("from", "lambda") else n + "_" for n in schema}
        assert set(found) - {"out"} == expected, name
        assert ("out" in found) == operator.definition.out, name
        checked += 1
    assert checked > 400


def test_separate_integers_are_an_overload(stubs):
    tensor = class_in(stubs, "core/_core.pyi", "Tensor")
    joined, separate = functions(tensor.body, "permute")
    assert joined.args.args[1].arg == "dims" and separate.args.vararg.arg == "dims"


def test_named_results(stubs):
    classes = {
        n.name: n for n in stubs["namespaces/return_types.pyi"].body if isinstance(n, ast.ClassDef)
    }
    assert set(classes) == set(filter(str.isidentifier, RETURN_TYPES))
    assert [n.target.id for n in classes["sort"].body] == ["values", "indices"]
    sort = functions(stubs["__init__.pyi"].body, "sort")[0]
    assert ast.unparse(sort.returns) == "return_types.sort"
    # results of the library of quantization have types as PyTorch's: without its name
    masked = functions(stubs["__init__.pyi"].body, "fake_quantize_per_tensor_affine_cachemask")[0]
    assert ast.unparse(masked.returns) == "return_types.fake_quantize_per_tensor_affine_cachemask"
    made = facula.fake_quantize_per_tensor_affine_cachemask(facula.ones(2), 0.1, 0, 0, 255)
    assert type(pickle.loads(pickle.dumps(made))) is type(made)


def test_docstrings_reach_the_stubs(stubs):
    node = functions(stubs["namespaces/special.pyi"].body, "erf")[0]
    assert ast.get_docstring(node).startswith("erf(input, *, out=None) -> Tensor")


def test_cython_parameters(tools):
    read = sys.modules["cython_signatures"].parameters
    text = "Tensor self, bint mode, int64_t n=3, str kind=None, *args, *, Odd x=f(1, 2), **rest"
    assert read(text) == (
        "self, mode: _bool, n: _int = ..., kind: str | None = ..., *args: Any, *, x: Any = ..., "
        "**rest: Any"
    )


def test_every_operator_is_on_one_page(pages):
    text = "\n".join(page for name, page in pages.items() if name != "README.md")
    found = re.findall(r"^### (.+)$", text, re.M)
    assert sorted(found) == sorted(own_operators())


def test_the_index_links_to_every_name(pages):
    links = re.findall(r"\]\(([\w-]+\.md)(?:#([^)]+))?\)", pages["README.md"])
    assert links
    for page, anchor in links:
        assert page in pages
        assert not anchor or f"### {anchor}\n" in pages[page]
    shown = set(re.findall(r"`facula\.([^`]+)`", pages["README.md"]))
    assert shown == {name for op in own_operators().values() for name in op.definition.names}


def test_a_page_says_what_the_definition_says(pages):
    page = pages["pointwise-activation.md"]
    gelu = page[page.index("### gelu\n") :].split("\n### ")[0]
    assert "Hendrycks" in gelu and "`facula.nn.functional.gelu`" in gelu
    assert "src/facula/ops/pointwise/activation.py:" in gelu


def test_every_page_says_where_values_are_known_from(tools):
    oracle_of = tools["api_docs"].oracle_of
    public = [op.definition for op in own_operators().values() if op.definition.names]
    assert [d.name for d in public if not oracle_of(d)] == []
    by_name = {d.name: oracle_of(d) for d in public}
    assert by_name["conv2d"] == "a loop in plain Python"
    assert by_name["erf"] == "SciPy, mpmath to 50 digits, stored"
