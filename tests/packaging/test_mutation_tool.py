"""What `tools/mutate.py` changes, what it leaves alone, and how it learns which tests reach a place."""

import ast
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import mutate  # noqa: E402
import mutation_constants as constants  # noqa: E402
import mutation_places as places  # noqa: E402
import mutation_probe as probe  # noqa: E402

MODULE = '''"""Adds 1 + 1."""
SHARE = 0.25


def shifted(x, dims=(0, 1)):
    """Moves by 2 places."""
    if x.dim() < 3 and dims[0] == 0:
        fail(ValueError, "shifted", "3 dimensions were required", got=x.dim() - 1)
    return run(x * SHARE + 7, -x, grain=4096)


def far(x):
    return -(x + 1e18)


def cost(x):
    """What it takes: speed only."""
    return x * 3


class shifts:
    def samples(S):
        yield (S(5),), {}
'''


def written(tmp_path, text, name="src/facula/ops/shifted.py"):
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return places.find(tmp_path, name)


def test_places_are_what_decides_a_value(tmp_path):
    found = [(p.line, p.kind, p.before, p.after) for p in written(tmp_path, MODULE)]
    assert found == [
        (2, "constant", "0.25", "0.2525"),
        (7, "comparison", "<", "<="),
        (7, "constant", "3", "4"),
        (7, "index", "0", "1"),
        (7, "comparison", "==", "!="),
        (7, "constant", "0", "1"),
        (9, "sign", "*", "+"),
        (9, "sign", "+", "-"),
        (9, "constant", "7", "8"),
        (9, "sign", "-", "+"),
        (13, "sign", "-", "+"),
        (13, "sign", "+", "-"),
        (13, "constant", "1e18", "1.01e+18"),
    ]


def test_every_change_is_valid_python_and_changes_the_program(tmp_path):
    before = ast.dump(ast.parse(MODULE))
    for place in written(tmp_path, MODULE):
        assert ast.dump(ast.parse(place.apply(MODULE))) != before


@pytest.mark.parametrize("text", ["0", "7", "0.0", "0.3", "1.0", "1e18", "1e-300", "1.79e308"])
def test_a_changed_number_is_another_finite_number(text):
    changed = float(places.changed_number(text))
    assert changed != float(text)
    assert math.isfinite(changed)


def test_a_place_of_another_text_is_refused(tmp_path):
    place = written(tmp_path, MODULE)[0]
    with pytest.raises(AssertionError, match="is not what was drawn from"):
        place.apply("\n" * 200)


C_MODULE = '''"""Loops."""
TEXT = """
/* 3 of them */
for (int k = 0; k < n[2]; k++) total += x[k] * 2.5
    * 7;
float kept[4][2], far = kept[9][3];
_Pragma("GCC unroll 8") for (;;) return kept[6];
#pragma omp simd
"""


def lines(size):
    return f"    if (i >= {size + 0}) return 1 - j;"
'''


def test_places_of_c_leave_comments_and_fields_alone(tmp_path):
    found = written(tmp_path, C_MODULE, "src/facula/codegen/c/loops.py")
    assert [(p.line, p.kind, p.before) for p in found if p.line != 13] == [
        (4, "constant", "0"),
        (4, "comparison", "<"),
        (4, "index", "2"),
        (4, "sign", "*"),
        (4, "constant", "2.5"),
        (5, "constant", "7"),
        (6, "index", "9"),
        (6, "index", "3"),
        (7, "index", "6"),
    ]
    in_c = [(p.kind, p.before) for p in found if p.line == 13]
    assert in_c == [("comparison", ">="), ("constant", "1"), ("sign", "-")]


def test_the_same_seed_draws_the_same_places():
    first = places.draw(ROOT, 6, 3)
    assert first == places.draw(ROOT, 6, 3)
    assert first != places.draw(ROOT, 6, 4)
    groups = [next(g for g, fs in places.GROUPS.items() if p.path.startswith(fs)) for p in first]
    assert groups == ["definitions"] * 2 + ["templates"] * 2 + ["passes"] * 2


def test_probes_tell_who_reaches_a_place_and_change_no_value(tmp_path):
    text = (
        "LIMIT = 3\n\n\ndef double(x):\n    return x * 2\n\n\ndef low(x):\n    return x < LIMIT\n"
    )
    found = written(tmp_path, text)
    prober = probe._Prober(list(enumerate(p.data() for p in found)), text)
    tree = ast.parse(text)
    prober.locate(tree)
    tree = ast.fix_missing_locations(prober.visit(tree))
    reached = []
    names = {"__mutation_probe__": reached.append}
    exec(compile(tree, "probed", "exec"), names)
    numbers = {(p.line, p.before): i for i, p in enumerate(found)}
    assert names["double"](4) == 8
    assert sorted(reached) == sorted([numbers[5, "*"], numbers[5, "2"]])
    reached.clear()
    assert names["low"](4) is False
    assert sorted(reached) == sorted([numbers[1, "3"], numbers[9, "<"]])


def test_constants_are_followed_into_other_modules(tmp_path):
    package = tmp_path / "src" / "facula" / "ops"
    written(tmp_path, 'TEXT = "a"\nOTHER = "b"\nCOUNT = 3\n', "src/facula/ops/parts.py")
    (package / "whole.py").write_text(
        "from facula.ops import parts\nfrom facula.ops.parts import COUNT as SIZE\n"
        "WHOLE = [parts.TEXT, 1]\nLONGER = WHOLE * 2\n\n\ndef f():\n    return SIZE\n"
    )
    (package / "third.py").write_text("from facula.ops.whole import LONGER as MUCH\n")
    marks = [{"path": "src/facula/ops/parts.py", "line": n} for n in (1, 2, 3)]
    found = constants.holders(tmp_path, marks)
    assert found["facula.ops.parts"] == {"TEXT": {0}, "OTHER": {1}, "COUNT": {2}}
    assert found["facula.ops.whole"] == {
        "parts.TEXT": {0},
        "parts.OTHER": {1},
        "parts.COUNT": {2},
        "SIZE": {2},
        "WHOLE": {0},
        "LONGER": {0},
    }
    assert found["facula.ops.third"] == {"MUCH": {0}}


PROBED = """\
import mutation_probe, pytest


@pytest.fixture(scope="module")
def made():
    mutation_probe.RECORDER.reach(7)


def test_one(made):
    mutation_probe.RECORDER.reach(8)


def test_two(made):
    pass


def test_three():
    pass
"""


def test_what_a_fixture_reaches_all_its_tests_reach(tmp_path):
    (tmp_path / "test_probed.py").write_text(PROBED)
    program = (
        "import mutation_probe, pytest\n"
        "pytest.main(['-q', '-p', 'mutation_probe', '.'])\n"
        "print(mutation_probe.RECORDER.places)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "tools")},
        capture_output=True,
        text=True,
    )
    reached = ast.literal_eval(done.stdout.splitlines()[-1])
    both = {"test_probed.py::test_one", "test_probed.py::test_two"}
    assert reached == {7: both, 8: {"test_probed.py::test_one"}}


WORKER = """\
import mutation_probe


def test_of_its_own():
    mutation_probe.RECORDER.reach({place})
"""


def test_workers_hand_their_maps_over(tmp_path):
    for place in (3, 4):
        (tmp_path / f"test_{place}.py").write_text(WORKER.format(place=place))
    (tmp_path / "places.json").write_text("[]")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "."]
    environment = {
        "PYTHONPATH": str(ROOT / "tools"),
        "PYTEST_PLUGINS": "mutation_probe",
        "MUTATION_PLACES": str(tmp_path / "places.json"),
        "MUTATION_MAP": str(tmp_path / "map.json"),
    }
    subprocess.run(command, cwd=tmp_path, env=os.environ | environment, check=True, timeout=300)
    found = json.loads((tmp_path / "map.json").read_text())
    names = {place: f"test_{place}.py::test_of_its_own" for place in (3, 4)}
    assert found["places"] == {str(place): [name] for place, name in names.items()}
    assert set(found["seconds"]) == set(names.values())


UNIT = """\
#include "facula_abi.h"
typedef float four __attribute__((vector_size(16), may_alias));
#define THRICE(x) \\
    (x) * 30
static const double ROWS[2] = {
    50, 51,
};
FM_CALL double twice(double x) { return x * 2; }
static void one(char *const *p) {
    p[0] = twice(p[1]);
}
static void two(char *const *p) {
    p[0] = 1;
    p[1] = THRICE(p[2]);
}
static void three(
    char *const *p)
{
    p[0] = ROWS[1];
}
__attribute__((noinline)) static void fourth(char *const *p) {
    *(four *)p[0] = 0;
}
const fk_entry facula_kernels[] = {
    {"one:f32", 'b', one},
    {"two:f32", 'b', two},
    {"three:f32", 'b', three},
    {"fourth:f32", 'b', fourth},
    {0, 0, 0},
};
"""


@pytest.mark.parametrize(
    ("old", "new", "kernels"),
    [
        ("x * 2", "x * 3", ["one:f32"]),
        ("= 1;", "= 2;", ["two:f32"]),
        ("* 30", "* 31", ["two:f32"]),
        ("51", "52", ["three:f32"]),
        ("= 0;", "= 1;", ["fourth:f32"]),
        ("vector_size(16)", "vector_size(32)", ["fourth:f32"]),
        ("facula_abi.h", "other.h", ["one:f32", "two:f32", "three:f32", "fourth:f32"]),
    ],
)
def test_changed_kernels_are_those_that_call_what_changed(old, new, kernels):
    assert mutate.changed_kernels({"unit": UNIT}, {"unit": UNIT.replace(old, new)}) == kernels


def test_a_run_hangs_when_it_takes_much_longer_than_for_the_map():
    chooser = mutate.Chooser({"places": {}, "kernels": {}, "seconds": {"a::f": 100.0}})
    assert chooser.patience(["a::f", "a::g"]) == mutate.PATIENCE + mutate.SLOWER * 101.0


def test_narrow_tests_of_all_kinds_come_first():
    data = {
        "places": {"0": ["a::wide", "a::f[1]", "a::f[2]", "a::g[1]"]},
        "kernels": {"k:f32": ["a::wide"], "l:f32": ["a::wide", "a::f[2]"]},
        "seconds": {"a::f[1]": 0.5, "a::g[1]": 0.1},
    }
    assert mutate.Chooser(data).tests(0, []) == ["a::g[1]", "a::f[1]", "a::wide", "a::f[2]"]
