"""Segments may end anywhere: programs cut into pieces of a few instructions do what they do whole."""

from __future__ import annotations

import pytest
from capturing import equal
from test_python import CASES, outcome

import facula
from facula._dynamo import config
from facula.capture import segment


@pytest.mark.breaks(
    "unsupported-attribute", "unsupported-call", "unsupported-mutation", "unsupported-value"
)
@pytest.mark.parametrize("length", [1, 5, 8])
def test_programs_cut_into_pieces(monkeypatch, length):
    run = segment._run

    def cut(world, frame, stop, place):
        return run(world, frame, length if stop is None else min(stop, length), place)

    monkeypatch.setattr(segment, "_run", cut)
    different = []
    with config.patch(recompile_limit=64):
        for function, arguments, words in CASES:
            expected = outcome(function, arguments, words)
            compiled = facula.compile(function, backend="eager")
            found = [outcome(compiled, arguments, words) for _ in range(2)]
            if not all(equal(expected, one) for one in found):
                different.append(function.__name__)
    assert not different
