"""Tensors on one memory answer with one storage object as long as somebody holds it."""

import gc
import weakref

import facula


def test_one_object_for_tensors_that_share_memory():
    x = facula.arange(6.0)
    storage = x.untyped_storage()
    storage.note = "kept"
    assert x.untyped_storage() is storage
    assert x[2:].view(2, 2).untyped_storage() is storage
    assert x.detach().untyped_storage().note == "kept"
    assert x.clone().untyped_storage() is not storage


def test_the_object_that_a_tensor_was_made_of_is_the_one_it_shows():
    storage = facula.UntypedStorage(16)
    x = facula.empty(0).set_(storage)
    assert x.untyped_storage() is storage
    meta = facula.empty(3, device="meta")
    assert meta.untyped_storage() is meta.untyped_storage()


def test_a_storage_dies_with_its_last_holder_and_another_one_takes_its_place():
    heard = []
    tensors = [facula.ones(4)]
    first = tensors[0].untyped_storage()
    reference = weakref.ref(first, lambda _: heard.append(tensors[0].untyped_storage()))
    del first
    gc.collect()
    assert len(heard) == 1
    assert reference() is None
    assert tensors[0].untyped_storage() is heard[0]
    storage = heard.pop()
    tensors.clear()
    assert storage.tolist() == facula.ones(4).untyped_storage().tolist()


def test_a_class_of_the_users_own_may_ask_for_the_storage_while_it_dies():
    class Own(facula.UntypedStorage):
        def __del__(self):
            found.append(x.untyped_storage() is self)

    found = []
    storage = Own(16)
    x = facula.empty(0).set_(storage)
    del storage
    gc.collect()
    assert found and x.untyped_storage().nbytes() == 16
    x.untyped_storage().fill_(0)


def test_memory_that_is_used_again_shows_nothing_of_before():
    for n in (4, 64, 1 << 20):
        x = facula.zeros(n)
        first = x.untyped_storage()
        first.note = n
        del x, first
        assert not hasattr(facula.zeros(n).untyped_storage(), "note")


def test_nothing_is_to_mend_in_weak_references():
    x = facula.ones(2)
    heard = []
    reference = weakref.ref(x, heard.append)
    assert x._fix_weakref() is None and reference() is x
    del x
    assert heard == [reference]
