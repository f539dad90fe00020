"""`help` of every public class and function is enough to work from: arguments are told, examples run.

Names, arguments and what counts as told are derived by `tools/api_reference.py`; what an example prints
is held here, as it stands in the docstring.
"""

import doctest
import importlib
import inspect
import os
import sys
from pathlib import Path

import pytest

import facula

TOOLS = str(Path(__file__).resolve().parents[2] / "tools")
sys.path.insert(0, TOOLS)
try:
    reference = importlib.import_module("api_reference")
finally:
    sys.path.remove(TOOLS)

PUBLIC = list(reference.public_names())
MODULES = list(dict.fromkeys(public.module for public in PUBLIC))


def test_public_names_are_explained():
    lacking = {public.full: reference.lacks(public.value) for public in PUBLIC}
    missing = {name: what for name, what in lacking.items() if what}
    assert 1 - len(missing) / len(lacking) >= 0.98, missing


# those of `facula.compiler` show breaks
@pytest.mark.breaks("data-dependent-branch", "disabled")
@pytest.mark.parametrize("module", MODULES)
def test_examples_run_as_they_stand(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    for public in PUBLIC:
        text = public.value.__doc__
        if public.module != module or ">>> " not in (text or ""):
            continue
        facula.manual_seed(0)
        report = []
        names = {"facula": facula, "__name__": "__main__"}  # as a session has them
        found = parser.get_doctest(text, names, public.full, None, 0)
        runner.run(found, out=report.append)
        assert not report, "".join(report)
    assert os.listdir(tmp_path) == [] or module in ("facula", "facula.export")


def test_what_counts_as_told():
    def told(first, second=1, *rest, _hidden=None):
        """What it does.

        Args:
            first, second: two things, of which one has words that do not fit into a line
                and goes on: here
        """

    assert reference.lacks(told) == ["an example"]
    assert reference.told(inspect.getdoc(told)) >= {"first", "second"}
    assert reference.arguments_of(told) == ["first", "second"]
