"""Sending a tensor does not look at all other objects of the program."""

import gc
import pickle
from multiprocessing.reduction import ForkingPickler

import facula


def test_a_tensor_that_lies_alone_is_sent_without_a_search_for_others(monkeypatch):
    x = facula.arange(64.0)

    def searched():
        raise AssertionError("all objects were looked at")

    monkeypatch.setattr(gc, "get_objects", searched)
    sent = bytes(ForkingPickler.dumps(x))
    monkeypatch.undo()
    there = pickle.loads(sent)
    assert there.is_shared() and there.equal(x)
    there[0] = 7.0
    assert x[0] == 7.0


def test_tensors_on_one_storage_go_along():
    x = facula.arange(6.0)
    rows = x.reshape(2, 3)
    there, again = pickle.loads(bytes(ForkingPickler.dumps([x, rows])))
    there[4] = 9.0
    assert again[1, 1] == 9.0 and rows[1, 1] == 9.0 and x[4] == 9.0
