"""The build tool: units become one library, and only what changed is compiled."""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from facula.runtime import cpu_features

TOOLS = Path(__file__).resolve().parents[2] / "tools"

UNIT = """
#include "facula_abi.h"
static void NAME(char *const *p, const fk_scalar *s, int64_t n) {
    float *out = (float *)p[0];
    for (int64_t i = 0; i < n; i++) out[i] = VALUE;
}
const fk_entry facula_kernels[] = { {"NAME:f32", 'm', (void *)NAME, "0;0;w out f32 N"}, {0} };
const int facula_abi = FACULA_ABI;
"""


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    for name in ("units", "build_kernels"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import build_kernels

    yield build_kernels
    for name in ("units", "build_kernels"):
        sys.modules.pop(name, None)


@pytest.fixture
def build(tool, tmp_path, monkeypatch, capsys):
    """Builds units given as name=value, and gives the library's path and what was compiled.

    The units of `base` are those of the variant that the plainest one then adds to.
    """

    def units_of(values):
        texts = {n: UNIT.replace("NAME", n).replace("VALUE", v) for n, v in values.items()}
        return [tool.Unit(name, text) for name, text in texts.items()]

    def run(base=None, **values):
        variant = cpu_features.variants()[0]
        units = {variant: units_of(values), "base": units_of(base or {})}
        monkeypatch.setattr(tool, "collect", lambda variant: iter(units[variant]))
        if base is not None:
            monkeypatch.setattr(cpu_features, "parts", lambda variant: ("base", variant))
            monkeypatch.setattr(tool, "wanted_variants", lambda text: [text])
        compiled = []
        original = tool.Builder.run

        def record(self, arguments, target):
            compiled.append(target.name.partition("-")[0])
            original(self, arguments, target)

        with monkeypatch.context() as patch:
            patch.setattr(tool.Builder, "run", record)
            patch.setattr(
                sys,
                "argv",
                ["build", "--output", str(tmp_path / "out"), "--work", str(tmp_path / "work")]
                + ["--isa", variant],
            )
            tool.main()
        return tmp_path / "out" / f"{variant}.so", compiled

    return run


def names_in(tool, path, count):
    library = ctypes.CDLL(str(path))
    table = (tool.Entry * (count + 1)).in_dll(library, "facula_kernels")
    assert table[count].name is None
    return [entry.name.decode() for entry in table[:count]]


def test_units_become_one_table(tool, build):
    path, compiled = build(one="1", two="2", three="3")
    assert sorted(names_in(tool, path, 3)) == ["one:f32", "three:f32", "two:f32"]
    assert set(compiled) == {"one", "two", "three", path.name}


def test_only_what_changed_is_compiled(build):
    path, _ = build(one="1", two="2")
    assert build(one="1", two="2") == (path, [])
    _, compiled = build(one="1", two="5")
    assert compiled == ["two", path.name]


def test_a_variant_holds_only_what_the_one_it_adds_to_has_not(tool, build):
    path, compiled = build(base={"one": "1", "two": "2"}, one="1", two="5")
    assert names_in(tool, path, 1) == ["two:f32"]
    assert compiled == ["two", path.name]


def test_name_in_two_units_is_refused(tool):
    units = [
        tool.Unit("a", UNIT.replace("NAME", "same")),
        tool.Unit("b", UNIT.replace("NAME", "same")),
    ]
    with pytest.raises(SystemExit, match="same:f32"):
        tool.check_names(units)


def test_rejected_unit_names_its_file(build):
    with pytest.raises(SystemExit, match="one.c"):
        build(one="no such value")


def test_unknown_variant_is_refused(tool):
    with pytest.raises(SystemExit, match="v9"):
        tool.wanted_variants("v3,v9")
    assert tool.wanted_variants("all") == list(cpu_features.variants())
    for variant in cpu_features.variants():
        assert tool.wanted_variants(variant) == list(cpu_features.parts(variant))


def test_examples_are_computed_where_a_build_takes_the_installed_checkout_away(tmp_path):
    """An isolated build starts Python with a `sitecustomize` that removes what the environment has."""
    source = TOOLS.parent / "src"
    (tmp_path / "sitecustomize.py").write_text(
        f"import sys\nsys.path[:] = [p for p in sys.path if p != {str(source)!r}]\n"
    )
    script = f"import sys; sys.path.insert(0, {str(TOOLS)!r})\nimport gen_api\n"
    script += "import importlib.util\nassert importlib.util.find_spec('facula') is None\n"
    script += "import types\nmade = types.ModuleType('api_examples')\n"
    script += "def examples():\n    import facula\n    return {'add': facula.__name__}\n"
    script += "made.examples = examples\nsys.modules['api_examples'] = made\ngen_api.main()"
    command = ["examples", "--output", str(tmp_path / "ops"), "--tree", str(source)]
    subprocess.run(
        [sys.executable, "-c", script, *command],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=True,
    )
    assert json.loads((tmp_path / "ops" / "_examples.json").read_text()) == {"add": "facula"}
