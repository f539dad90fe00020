"""Stores: what one process leaves, another finds; what is missing is named."""

from __future__ import annotations

import datetime
import threading

import pytest

from facula import distributed as dist

SHORT = datetime.timedelta(seconds=0.2)


@pytest.fixture(params=["hash", "file", "tcp", "prefix"])
def stores(request, tmp_path):  # type: ignore[no-untyped-def]
    """Two views of one store."""
    if request.param == "hash":
        one = dist.HashStore()
        yield one, one
    elif request.param == "file":
        yield dist.FileStore(str(tmp_path / "s"), 2), dist.FileStore(str(tmp_path / "s"), 2)
    else:
        server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        client = dist.TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False)
        if request.param == "tcp":
            yield server, client
        else:
            yield dist.PrefixStore("p", server), dist.PrefixStore("p", client)
        client.close()
        server.close()


def test_values_are_shared(stores):  # type: ignore[no-untyped-def]
    a, b = stores
    a.set("key", "value")
    b.append("key", b"!")
    assert b.get("key") == b"value!" and a.check(["key"]) and not a.check(["key", "other"])
    assert a.add("n", 3) == 3 and b.add("n", -1) == 2
    assert b.compare_set("c", "", "first") == b"first"
    assert a.compare_set("c", "other", "second") == b"first"
    assert a.compare_set("c", "first", "second") == b"second"
    a.multi_set(["x", "y"], ["1", "2"])
    assert b.multi_get(["x", "y"]) == [b"1", b"2"]
    assert b.delete_key("x") and not b.delete_key("x") and a.num_keys() >= 3


def test_get_waits_for_the_key(stores):  # type: ignore[no-untyped-def]
    a, b = stores
    timer = threading.Timer(0.1, lambda: b.set("late", "now"))
    timer.start()
    assert a.get("late") == b"now"
    timer.join()


def test_missing_keys_are_named(stores):  # type: ignore[no-untyped-def]
    a, _ = stores
    a.set("here", "1")
    with pytest.raises(dist.DistStoreError, match="gone.*wait timeout"):
        a.wait(["here", "gone"], SHORT)


def test_addresses_that_do_not_answer_are_errors():
    with pytest.raises(dist.DistNetworkError, match="timeout"):
        dist.TCPStore("127.0.0.1", 1, timeout=SHORT)


def test_a_store_that_went_away_is_an_error_at_once():
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    client = dist.TCPStore("127.0.0.1", server.port, wait_for_workers=False)
    server.close()
    with pytest.raises(dist.DistStoreError, match="connection closed"):
        client.get("key")
