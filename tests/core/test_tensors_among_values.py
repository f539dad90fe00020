"""Tensors among nested values: found in order, replaced in place, whatever holds them."""

from collections import namedtuple

import facula
from facula.core.nested import mapped, tensors_in

Pair = namedtuple("Pair", "left right")


def test_every_tensor_is_found_once_and_in_order():
    a, b, c, d = (facula.ones(1) for _ in range(4))
    found = tensors_in([a, {"x": (b, 2), "y": Pair(c, None)}, "text", [[d]], a])
    assert [id(t) for t in found] == [id(t) for t in (a, b, c, d, a)]
    assert tensors_in(3) == tensors_in(()) == []


def test_structures_keep_their_classes():
    one = facula.tensor(1.0)
    made = mapped(Pair([one, 2], {"k": (one, "text")}), lambda t: float(t) + 1)
    assert made == Pair([2.0, 2], {"k": (2.0, "text")}) and type(made) is Pair


def test_only_accelerators_are_named_anew():
    meta, cpu, card = facula.device("meta"), facula.device("cpu"), facula.device("cuda")
    assert mapped((cpu, card, meta), abs, meta) == (cpu, meta, meta)
    assert mapped([card], abs) == [card]
