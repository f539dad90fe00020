"""No list of operator names is kept by hand: what follows from a definition is read off it.

A collection, or a string of words, that names several operators outside of their definitions is such a
list. Tables of functions are none: there each name stands for code of its own.
"""

import ast
import builtins
import importlib
from pathlib import Path

import pytest

import facula
import facula.quantization.operators  # whose names count too
from facula.ops.expr import primitives as scalar_primitives
from facula.ops.table.registry import PLACES, own_operators

for rare in facula.ops._ON_DEMAND:  # operators that are defined when one is asked for
    importlib.import_module(f"facula.ops.{rare}")

SOURCE = Path(facula.__file__).parent
NAMES = set(own_operators()) | {name for place in PLACES.values() for name in place}
#: names that also mean something else: the operations of scalar expressions, and Python's functions
AMBIGUOUS = {*scalar_primitives.PRIMITIVES, *dir(builtins), "mean", "prod"}
LEAST = 3
#: where names are data: file -> why
DATA = {
    "nn/init.py": "the words that calculate_gain takes",
    "lower/prims.py": "PyTorch's primitives that are no pointwise operators",
    "capture/rules/callables.py": "functions of the core, which have no definitions",
    "lower/loops/lowering.py": "methods of the core, which have no definitions",
    "onnx/translations/scattering.py": "the words that scatter_reduce takes",
    "namespaces/tensor_methods.py": "methods, of which quantized tensors have others",
    "torch_api/public.py": "names whose modules are imported on demand",
    "torch_api/ao/pruning/_experimental/pruner/base_structured_sparsifier.py": "what PyTorch's pruning looks through",
    "quantization/pt2e/canonical.py": "the words of calls, as programs write them",
    "codegen/c/kernels/gemm/linalg.py": "kernels",
    "codegen/c/kernels/movement/arrange.py": "kernels, and what each reads and writes",
}


def words_of(node):
    """The strings of a collection whose entries are data, or the words of a string."""
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return [e.value for e in node.elts if isinstance(e, ast.Constant)]
    if isinstance(node, ast.Dict) and all(isinstance(v, ast.Constant) for v in node.values):
        return [k.value for k in node.keys if isinstance(k, ast.Constant)]
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
        words = node.value.split()
        return words if all(word.isidentifier() for word in words) else []
    return []


def lists_in(path):
    tree = ast.parse(path.read_text())
    exported = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for child in ast.walk(node)
    }
    for node in (n for n in ast.walk(tree) if id(n) not in exported):
        words = [w for w in words_of(node) if isinstance(w, str)]
        named = [w for w in words if w in NAMES and w not in AMBIGUOUS]
        if len(named) >= LEAST and 2 * len(named) >= len(words):
            yield node.lineno, named


FILES = [p for p in sorted(SOURCE.rglob("*.py")) if "ops" not in p.relative_to(SOURCE).parts[:1]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_no_list_is_kept_by_hand(path):
    found = list(lists_in(path))
    assert bool(found) == (path.relative_to(SOURCE).as_posix() in DATA), found
