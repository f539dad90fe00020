"""FileCheck: parts of a text in their order."""

import re

import pytest

from facula.testing import FileCheck

TEXT = "first = a(1)\nsecond = b(first)\nthird = a(second)\nreturn third\n"

PASS = {
    "in order": FileCheck().check("first").check("b(").check("return"),
    "same line": FileCheck().check("second").check_same("first"),
    "next line": FileCheck().check("first").check_next("second"),
    "count": FileCheck().check_count("= a(", 2, exactly=True),
    "at least": FileCheck().check_count("= a(", 1),
    "not between": FileCheck().check("first").check_not("return").check("third"),
    "not behind": FileCheck().check("third = ").check_not("b("),
    "any order": FileCheck().check_dag("third").check_dag("first").check("return"),
    "pattern": FileCheck().check_regex(r"\w+ = b\(").check("third"),
}
FAIL = {
    "out of order": FileCheck().check("b(").check("first ="),
    "missing": FileCheck().check("fourth"),
    "another line": FileCheck().check("first").check_same("second"),
    "the same line": FileCheck().check("second").check_next("first"),
    "too few": FileCheck().check_count("= a(", 3),
    "too many": FileCheck().check_count("= a(", 1, exactly=True),
    "between": FileCheck().check("first").check_not("b(").check("third"),
    "behind": FileCheck().check_not("return"),
    "any order": FileCheck().check_dag("first").check_dag("fourth"),
    "pattern": FileCheck().check_regex(r"\d\d"),
}


@pytest.mark.parametrize("case", PASS)
def test_a_text_that_has_what_is_asked_passes(case):
    PASS[case].run(TEXT)


@pytest.mark.parametrize("case", FAIL)
def test_a_text_that_has_not_is_refused(case):
    with pytest.raises(RuntimeError, match=re.escape("FileCheck")):
        FAIL[case].run(TEXT)


def test_highlighted_source():
    text = "x = f(1)\n    ~~~~\n"
    FileCheck().check_source_highlighted("f(1)").run(text)
    with pytest.raises(RuntimeError, match="highlighted"):
        FileCheck().check_source_highlighted("x =").run(text)
