"""Every public operator has samples, and an oracle that shares no line with it (`tests/oracles`)."""

import ast
import warnings
from pathlib import Path

import pytest
from operator_cases import DEFINITIONS, KINDS, Samples, admits, map_tensors, reads_memory
from oracle_calls import ORACLES, PUBLIC, calls_of, judge, oracle_of

import facula
from facula.testing.samples import layouts

ORACLE_FILES = sorted((Path(__file__).parents[1] / "oracles").glob("*.py"))
#: what oracles may be made of
MODULES = {
    "__future__",
    "collections",
    "functools",
    "importlib",
    "itertools",
    "json",
    "math",
    "numpy",
    "oracle_table",
    "pathlib",
    "scipy",
    "sys",
    "typing",
}
JUDGED = [name for name in PUBLIC if oracle_of(name) is not None]
LAYOUTS = {"contiguous": lambda x: x, **layouts}


def test_every_public_operator_has_an_oracle():
    assert [name for name in PUBLIC if oracle_of(name) is None] == []


def test_every_oracle_has_samples():
    assert [name for name in JUDGED if not calls_of(name, Samples(facula.float64))] == []


def test_every_oracle_has_an_operator():
    assert [name for name in ORACLES if name not in DEFINITIONS] == []


@pytest.mark.parametrize("path", ORACLE_FILES, ids=lambda path: path.stem)
def test_oracles_know_nothing_of_facula(path):
    """No oracle imports what it judges, by a statement or by a name."""
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Call) and path.stem != "oracle_table":
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            assert called not in ("__import__", "import_module", "eval", "exec"), node.lineno
    allowed = MODULES | {other.stem for other in ORACLE_FILES}
    assert imported <= allowed, imported - allowed


def dtypes_of(name, known):
    """The dtypes to try: of pointwise operators every kind that they admit."""
    if DEFINITIONS[name].kind == "pointwise":
        kinds = [kind for kind in KINDS if admits(name, kind)]
        if not known.integers:
            kinds = [kind for kind in kinds if kind not in ("bool", "int")]
        wide = [facula.float64] if "float" in kinds else []
        return [*wide, *[KINDS[kind] for kind in kinds]]
    return [facula.float64, facula.float32] if known.float32 else [facula.float64]


@pytest.mark.parametrize("name", JUDGED)
def test_value(name):
    known = oracle_of(name)
    for dtype in dtypes_of(name, known):
        for args, kwargs in calls_of(name, Samples(dtype)):
            if not refused(DEFINITIONS[name], dtype, kwargs):
                judge(name, known, args, kwargs)


def refused(definition, dtype, kwargs):
    """Whether a pointwise definition says itself that it has no such variant of a dtype."""
    code = {facula.bool: "b8", facula.complex64: "c64"}.get(dtype)
    asked = definition.unsupported if definition.kind == "pointwise" else None
    return code and asked is not None and asked(code, kwargs)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 14))
@pytest.mark.parametrize("name", JUDGED)
def test_value_of_other_samples(name, seed):
    known = oracle_of(name)
    for dtype in dtypes_of(name, known):
        for args, kwargs in calls_of(name, Samples(dtype, seed=seed)):
            if not refused(DEFINITIONS[name], dtype, kwargs):
                judge(name, known, args, kwargs)


def moved(layout, value):
    """The same elements in another memory order; sparse tensors as they are."""
    return map_tensors(lambda x: LAYOUTS[layout](x) if x.layout == facula.strided else x, value)


def ordered(name):
    """Whether a call means the same in any memory order."""
    return oracle_of(name).orders and DEFINITIONS[name].kind != "view" and not reads_memory(name)


@pytest.mark.parametrize("name", [name for name in JUDGED if ordered(name)])
def test_value_in_other_memory_orders(name):
    known = oracle_of(name)
    for layout in layouts:
        for args, kwargs in calls_of(name, Samples(dtypes_of(name, known)[0], seed=2)):
            args, kwargs = moved(layout, (args, kwargs))
            judge(name, known, args, kwargs)


def expanded(x):
    """The first row, repeated by a stride of zero."""
    if x.layout != facula.strided or not x.is_floating_point() or not x.dim() or not x.shape[0]:
        return x
    return x[:1].expand(x.shape)


@pytest.mark.parametrize(
    "name",
    [name for name in JUDGED if ordered(name) and oracle_of(name).expanded and name[-1] != "_"],
)
def test_value_of_expanded_operands(name):
    known = oracle_of(name)
    for args, kwargs in calls_of(name, Samples(dtypes_of(name, known)[0], seed=3)):
        args, kwargs = map_tensors(expanded, (args, kwargs))
        judge(name, known, args, kwargs)


@pytest.mark.parametrize("name", [name for name in JUDGED if oracle_of(name).empty])
def test_value_of_empty_operands(name):
    """With a first size of zero: the oracle's result, or an error that says what is wrong."""
    known = oracle_of(name)
    S = Samples(dtypes_of(name, known)[0], empty=True)
    for args, kwargs in calls_of(name, S):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                facula.ops.TABLE[name](*map_tensors(lambda x: x.clone(), args), **kwargs)
        except (RuntimeError, IndexError, ValueError) as error:
            assert str(error).startswith("["), error
            continue
        judge(name, known, args, kwargs)


@pytest.mark.parametrize("name", [name for name in JUDGED if DEFINITIONS[name].kind == "pointwise"])
def test_value_without_dimensions(name):
    known = oracle_of(name)
    S = Samples(dtypes_of(name, known)[0], seed=4)
    for args, kwargs in calls_of(name, S, shape=()):
        judge(name, known, args, kwargs)
