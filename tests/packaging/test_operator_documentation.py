"""`help` of an operator is enough to work from: every argument is explained, and the examples run.

The examples of the build were computed by the operators themselves: what is held here is that they stand,
as they are printed, in a session; values are held against other sources in `tests/ops`.
"""

import doctest
import re

import pytest

import facula
from facula.ops.table.argument_words import words_for
from facula.ops.table.registry import own_operators

PUBLIC = {name: operator for name, operator in own_operators().items() if operator.definition.names}


@pytest.mark.parametrize("name", PUBLIC)
def test_every_argument_is_explained(name):
    text = PUBLIC[name].__doc__
    definition = PUBLIC[name].definition
    assert text.startswith(f"{definition.public_name}(") and "\nReturns:\n" in text
    for shown, parameter in definition.shown():
        entry = re.search(rf"^    {re.escape(shown)} \((.*)\): \S", text, re.MULTILINE)
        assert entry, (shown, text)
        assert entry[1].endswith("optional") == parameter.has_default, (shown, text)


def test_examples_run_as_they_stand():
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    ran = 0
    for name, operator in PUBLIC.items():
        found = parser.get_doctest(operator.__doc__, {"facula": facula}, name, None, 0)
        ran += bool(found.examples)
        report = []
        runner.run(found, out=report.append)
        assert not report, "".join(report)
    assert ran >= 0.9 * len(PUBLIC), (ran, len(PUBLIC))


def test_the_text_says_what_the_definition_says():
    text = facula.cumsum.__doc__
    assert text.startswith("cumsum(input, dim, *, dtype=None, out=None) -> Tensor\n")
    assert "``cumsum_`` writes the result over the first argument." in text
    gelu = facula.nn.functional.gelu.__doc__
    assert "    approximate (str, optional): " in gelu and "Default: 'none'" in gelu
    assert "IndexError: Dimension out of range" in facula.sum.__doc__
    assert "on the same memory" in facula.Tensor.unfold.__doc__
    assert "no gradient" not in facula.sin.__doc__ and "No gradient." in facula.eq.__doc__


def test_words_follow_name_and_type():
    assert words_for("reduce", "bool").startswith("older form")
    assert words_for("reduce", "str").startswith('"sum"')
    assert words_for("dim", "int[]") != words_for("dim", "int") != ""
    assert words_for("no_such_argument", "int") == ""
