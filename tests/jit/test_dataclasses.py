"""Scripted code makes and compares dataclasses as Python does."""

from __future__ import annotations

import dataclass_code as code
import pytest

import facula
from facula import jit


@pytest.mark.parametrize("a, b", [(1, 2), (2, 1), (4, 4)])
def test_order_is_that_of_the_tuple_of_fields(a, b):
    wanted = (a < b, a <= b, a > b, a >= b, a == b, 11)
    assert tuple(jit.script(code.versions)(a, b)) == wanted == tuple(code.versions(a, b))


def test_fields_and_their_defaults():
    x = facula.tensor([1.0, 2.0])
    alone, both, none, count = jit.script(code.pairs)(x)
    assert (alone.item(), both.item(), none, count) == (9.0, 9.0, True, 1)


def test_values_for_post_init_alone():
    assert jit.script(code.scaled)(facula.tensor([2.0])).tolist() == [5.0]


def test_equality_is_that_of_each_field():
    assert tuple(jit.script(code.equal_pairs)(facula.ones(1))) == (True, False, False)


def test_a_class_with_its_own_init_is_scripted_and_stays_the_class():
    assert jit.script(code.Checked) is code.Checked and jit.script(code.Version) is code.Version
    scripted = jit.script(code.checked)
    assert tuple(scripted(facula.ones(3, 2))) == (3, True)
    with pytest.raises(Exception, match="two dimensions, not 1"):
        scripted(facula.ones(3))


def test_defaults_that_are_made_are_refused():
    with pytest.raises(NotImplementedError, match="default_factory of the field 'items'"):
        jit.script(code.Filled)


def test_files_keep_dataclasses(tmp_path):
    path = tmp_path / "pairs.pt"
    jit.script(code.pairs).save(str(path))
    found = jit.load(str(path))(facula.tensor([1.0, 2.0]))
    assert (found[0].item(), found[1].item(), found[2], found[3]) == (9.0, 9.0, True, 1)
