"""Stores: what one process leaves, another finds; what is missing is named."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import tracemalloc

import pytest
import ranks

from facula import distributed as dist
from facula.distributed import wire
from facula.distributed.stores import of_every_rank

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


# ---------------------------------------------------------------- who is answered


@pytest.fixture
def server():  # type: ignore[no-untyped-def]
    made = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    yield made
    made.close()


def connected(server):  # type: ignore[no-untyped-def]
    made = socket.create_connection(("127.0.0.1", server.port), timeout=5)
    made.settimeout(5)
    return made


def proven(server):  # type: ignore[no-untyped-def]
    """A connection that may ask."""
    made = connected(server)
    wire.prove(made, wire.program_secret())
    return made


def framed(data: bytes) -> bytes:
    return struct.pack("!I", len(data)) + data


def rest(connection) -> bytes:  # type: ignore[no-untyped-def]
    """All until the server closes."""
    found = b""
    try:
        while part := connection.recv(65536):
            found += part
    except ConnectionResetError:
        pass
    return found


def test_it_listens_where_it_is_told():
    """It listened on all addresses of the machine for any name but localhost's."""
    for host in ("127.0.0.1", "127.0.0.2", "localhost"):
        made = dist.TCPStore(host, 0, is_master=True, wait_for_workers=False)
        address = made._server.socket.getsockname()[0]
        assert address == ("127.0.0.1" if host == "localhost" else host)
        made.close()
    with pytest.raises(dist.DistNetworkError, match="address of this machine"):
        dist.TCPStore("203.0.113.7", 0, is_master=True, wait_for_workers=False, timeout=SHORT)


@pytest.mark.parametrize(
    "hello", [framed(b'["num_keys", []]'), b"GET / HTTP/1.1\r\n\r\n" + b"x" * 64, b"\xff" * 200]
)
def test_who_does_not_know_the_secret_is_not_answered(server, hello):  # type: ignore[no-untyped-def]
    server.set("key", "value")
    with connected(server) as stranger:
        with contextlib.suppress(OSError):  # the server may have hung up by then
            stranger.sendall(hello)
            stranger.shutdown(socket.SHUT_WR)
        assert rest(stranger) == b""
    assert server.get("key") == b"value"


def test_another_secret_is_refused_by_both_sides(server, monkeypatch):  # type: ignore[no-untyped-def]
    with (
        connected(server) as stranger,
        pytest.raises(PermissionError, match="server does not know"),
    ):
        wire.prove(stranger, b"x" * 32)
    monkeypatch.setenv("FACULA_STORE_SECRET", "another")
    with pytest.raises(
        dist.DistNetworkError, match="a store of this program.*\n.*FACULA_STORE_SECRET"
    ):
        dist.TCPStore("127.0.0.1", server.port, wait_for_workers=False)


def test_a_proof_serves_one_connection(server):  # type: ignore[no-untyped-def]
    """What a listener heard does not let it in."""
    heard = []

    class Heard:
        def __init__(self, below):  # type: ignore[no-untyped-def]
            self.below = below

        def sendall(self, data):  # type: ignore[no-untyped-def]
            heard.append(bytes(data))
            self.below.sendall(data)

        def __getattr__(self, name):  # type: ignore[no-untyped-def]
            return getattr(self.below, name)

    with connected(server) as friend:
        wire.prove(Heard(friend), wire.program_secret())
    assert wire.program_secret() not in b"".join(heard)
    with connected(server) as stranger:
        for part in heard:
            stranger.sendall(part)
        stranger.sendall(framed(b'["num_keys", []]'))
        answer = rest(stranger)
    assert len(answer) == 32 + 32 + 1 and answer[-1:] == b"\0"


def test_who_says_nothing_is_let_go(server, monkeypatch):  # type: ignore[no-untyped-def]
    monkeypatch.setattr(wire, "PATIENCE", 0.2)
    with connected(server) as silent:
        assert rest(silent) == b""


@pytest.mark.parametrize(
    "request_",
    [b"no json", b"[]", b"3", b'["close", []]', b'["__init__", []]', b'["_change", [1]]', b'{"a": 1}',
     b'["wait", 3]', b'["wait", [["k"], "x"]]', b'["set", {"bytes": 3}]', b"\xff\xfe", b"[" * 100000],
)  # fmt: skip
def test_what_is_no_request_is_answered_and_the_connection_closed(server, request_):  # type: ignore[no-untyped-def]
    with proven(server) as client:
        client.sendall(framed(request_))
        answer = json.loads(rest(client)[4:])
    assert answer[0] == "error" and answer[1].startswith("malformed request")
    assert server.num_keys() == 0


def test_requests_with_wrong_arguments_are_errors(server):  # type: ignore[no-untyped-def]
    with proven(server) as client:
        client.sendall(framed(b'["set", ["k"]]') + framed(b'["num_keys", []]'))
        client.shutdown(socket.SHUT_WR)
        answer = rest(client)
    assert b'["error"' in answer and answer.endswith(b'["ok", 0]')


def test_who_waits_and_goes_is_waited_with_no_longer(server):  # type: ignore[no-untyped-def]
    """A thread of the server stayed for as long as had been asked for, a minute at most."""
    with socket.create_connection(("127.0.0.1", server.port)) as peer:
        wire.prove(peer, wire.program_secret())
        request = json.dumps(["wait", [["none"], 50.0]]).encode()
        peer.sendall(struct.pack("!I", len(request)) + request)
        peer.shutdown(socket.SHUT_WR)
        peer.settimeout(30)
        assert peer.recv(10) == b""


def test_memory_is_taken_as_bytes_arrive(server):  # type: ignore[no-untyped-def]
    """Four bytes made the server take four GiB."""
    tracemalloc.start()
    with proven(server) as client:
        client.sendall(struct.pack("!I", 0xFFFFFFFF) + b"x" * 100)
        assert b"malformed request" in rest(client)
    with proven(server) as client:
        client.sendall(struct.pack("!I", 1 << 28) + b"x" * 100)
        client.shutdown(socket.SHUT_WR)
        rest(client)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 << 20


def test_long_values_arrive_whole(server):  # type: ignore[no-untyped-def]
    value = bytes(range(256)) * (1 << 18)  # several parts
    server.set("key", value)
    assert server.get("key") == value


PROGRAM = """
import sys
from facula import distributed as dist
dist.init_process_group("gloo", init_method=sys.argv[1], rank=int(sys.argv[2]), world_size=2)
import facula
x = facula.full((3,), float(dist.get_rank() + 1))
dist.all_reduce(x)
print(x.tolist())
dist.destroy_process_group()
"""


@pytest.mark.parametrize("method", ["tcp", "env"])
def test_programs_that_know_an_address_only_find_each_other(method):  # type: ignore[no-untyped-def]
    with ranks.held_port() as port:
        _find_each_other(method, port)


def _find_each_other(method, port):  # type: ignore[no-untyped-def]
    environment = {k: v for k, v in os.environ.items() if k != "FACULA_STORE_SECRET"}
    address = f"tcp://127.0.0.1:{port}" if method == "tcp" else "env://"
    if method == "env":
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, address, str(rank)],
            stdout=subprocess.PIPE,
            env=environment,
        )
        for rank in range(2)
    ]
    assert [p.communicate(timeout=240)[0].strip() for p in started] == [b"[3.0, 3.0, 3.0]"] * 2


# ---------------------------------------------------------------- files


def test_a_store_in_a_file_is_replaced_whole(tmp_path, monkeypatch):  # type: ignore[no-untyped-def]
    store = dist.FileStore(str(tmp_path / "s"), 2)
    store.set("key", "value")

    def broken(*arguments):  # type: ignore[no-untyped-def]
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="full"):
        store.set("other", "x" * 100000)
    monkeypatch.undo()
    assert store.get("key") == b"value" and os.listdir(tmp_path) == ["s"]


def test_threads_that_change_a_file_lose_nothing(tmp_path):  # type: ignore[no-untyped-def]
    stores = [dist.FileStore(str(tmp_path / "s"), 4) for _ in range(4)]
    threads = [
        threading.Thread(target=lambda s=s: [s.add("n", 1) for _ in range(100)]) for s in stores
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stores[0].add("n", 0) == 400


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"a": 3}', b"\xff"])
def test_another_file_is_an_error(tmp_path, content):  # type: ignore[no-untyped-def]
    (tmp_path / "s").write_bytes(content)
    with pytest.raises(dist.DistStoreError, match="a FileStore wrote"):
        dist.FileStore(str(tmp_path / "s"), 2).check(["a"])
    assert (tmp_path / "s").read_bytes() == content


def test_what_every_rank_keeps_or_who_keeps_nothing(stores):  # type: ignore[no-untyped-def]
    store, _ = stores
    store.set("place/0", "a")
    store.set("place/2", "c")
    store.set_timeout(SHORT)
    with pytest.raises(
        dist.DistStoreError, match="all 4 machines were required.*no sign of machine 1, 3"
    ):
        of_every_rank(store, "place", 4, "elastic agent", "machine")
    store.set("place/1", "b")
    assert of_every_rank(store, "place", 3, "init_rpc") == [b"a", b"b", b"c"]


def test_a_file_goes_with_the_last_of_its_stores(tmp_path):  # type: ignore[no-untyped-def]
    path = str(tmp_path / "keys")
    one, other = dist.FileStore(path, 2), dist.FileStore(path, 2)
    assert one.num_keys() == 1  # counts the stores
    one.set("k", "v")
    del one
    assert other.get("k") == b"v"
    del other
    assert not os.path.exists(path)
    kept = dist.FileStore(path)  # nobody says how many there will be
    kept.set("k", "v")
    del kept
    assert dist.FileStore(path).get("k") == b"v"


def test_a_server_may_be_shared_and_taken_over():
    first = dist.TCPStore("127.0.0.1", 0, 1, True, multi_tenant=True)
    second = dist.TCPStore("127.0.0.1", first.port, 1, True, multi_tenant=True, use_libuv=False)
    second.set("k", "v")
    first.close()
    assert second.get("k") == b"v" and first.libuvBackend and not second.libuvBackend
    port = second.port
    with pytest.raises(
        dist.DistNetworkError, match="failed to listen on any local network address"
    ):
        dist.TCPStore("127.0.0.1", port, 1, True)
    second.close()
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    address = bound.getsockname()
    third = dist.TCPStore(*address, 1, is_master=True, master_listen_fd=bound.detach())
    again = third.clone()
    assert third.port == address[1] and third.add("n", 2) == 2 and again.add("n", 1) == 3
    again.close()
    third.close()


def test_what_a_server_counts_are_the_programs_keys_and_one():
    store = dist.TCPStore("127.0.0.1", 0, 1, True)
    store.set("k", "v")
    assert store.num_keys() == 2 and "k" in store.list_keys()
    store.barrier("here", 1)
    store.close()
    with pytest.raises(ValueError, match="world size cannot be 0"):
        dist.TCPStore("127.0.0.1", 0, 0, True)
    with pytest.raises(dist.DistStoreError, match=r"1/2 clients joined"):
        dist.TCPStore("127.0.0.1", 0, 2, True, datetime.timedelta(seconds=0.3))


def test_stores_that_programs_derive_have_what_they_define():
    class Small(dist.Store):
        def __init__(self) -> None:
            super().__init__()
            self.kept: dict[str, bytes] = {}

        def set(self, key, value):  # type: ignore[no-untyped-def]
            self.kept[key] = value

        def get(self, key):  # type: ignore[no-untyped-def]
            return self.kept.get(key, b"")

        def compare_set(self, key, expected, desired):  # type: ignore[no-untyped-def]
            if self.kept.get(key, b"") == expected:
                self.kept[key] = desired
            return self.kept[key]

    small = Small()
    store = dist.PrefixStore("p", dist.PrefixStore("q", small))
    assert not store.has_extended_api() and store._underlying_non_prefix_store is small
    store.append("a", "x")
    store.append("a", b"y")
    store.multi_set(["b", "c"], ["1", b"2"])
    assert store.multi_get(["a", "b", "c"]) == [b"xy", b"1", b"2"] and small.kept["q/p/a"] == b"xy"
    with pytest.raises(RuntimeError, match="Not implemented"):
        small.append("a", "x")
    with pytest.raises(ValueError, match="a store was required"):
        dist.PrefixStore("p", None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "kind", "text"),
    [("file://?rank=0&world_size=1", ValueError, "path missing"),
     ("file:///tmp/x?world_size=1", ValueError, "rank parameter missing"),
     ("file:///tmp/x?rank=0", ValueError, "size parameter missing"),
     ("tcp://127.0.0.1?rank=0&world_size=1", ValueError, "port number missing"),
     ("tcp://127.0.0.1:23456?world_size=1", ValueError, "rank parameter missing")],
)  # fmt: skip
def test_addresses_that_lack_something(url, kind, text):  # type: ignore[no-untyped-def]
    with pytest.raises(kind, match=text):
        next(dist.rendezvous(url))


def test_an_address_is_looked_at_before_anybody_waits():
    with pytest.raises(RuntimeError, match="No rendezvous handler for invalid://"):
        dist.rendezvous("invalid://")
    with pytest.raises(AssertionError, match="has node-specific arguments"):
        dist.rendezvous("file:///tmp/x?rank=12&world_size=16", 12, 16)
