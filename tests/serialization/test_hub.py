"""Weights from the network: fetched once, whole, with the hash that the name says; from a server of our own."""

import functools
import hashlib
import http.server
import io
import os
import socket
import threading
import zipfile

import pytest

import facula
from facula import hub, serialization


@pytest.fixture
def server(tmp_path):
    """A folder, and the address under which it is served."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{running.server_port}/"
        running.shutdown()


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "_chosen", None)
    hub.set_dir(tmp_path / "hub")
    return tmp_path / "hub" / "checkpoints"


def publish(folder):
    path = folder / "model.pt"
    serialization.save({"w": facula.arange(3)}, path)
    name = f"model-{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}.pt"
    path.rename(folder / name)
    return name


def test_state_dict_is_fetched_once(server, kept):
    folder, address = server
    name = publish(folder)
    found = hub.load_state_dict_from_url(address + name, check_hash=True, progress=False)
    assert found["w"].tolist() == [0, 1, 2] and os.listdir(kept) == [name]
    (folder / name).unlink()
    again = hub.load_state_dict_from_url(address + name, map_location="cpu")
    assert again["w"].tolist() == [0, 1, 2]


def test_another_hash_leaves_nothing_behind(server, kept):
    folder, address = server
    (folder / "model-deadbeef.pt").write_bytes(b"other")
    with pytest.raises(RuntimeError, match='starts with "deadbeef".*invalid hash value'):
        hub.load_state_dict_from_url(address + "model-deadbeef.pt", check_hash=True)
    assert os.listdir(kept) == []


def test_the_folder_is_torch_home(monkeypatch, tmp_path):
    monkeypatch.setattr(hub, "_chosen", None)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    assert hub.get_dir() == str(tmp_path / "hub")


def test_a_server_that_says_nothing_is_not_waited_for(kept, monkeypatch):
    monkeypatch.setattr(hub, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/model.pt"
        with pytest.raises(OSError, match="timed out"):
            hub.load_state_dict_from_url(address)
    assert os.listdir(kept) == []


def test_a_file_that_was_cut_off_is_not_kept(kept, tmp_path):
    class Cut(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"x" * 10)

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cut) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        with pytest.raises(ConnectionError, match="1000 bytes"):
            hub.load_state_dict_from_url(f"http://127.0.0.1:{running.server_port}/model.pt")
        running.shutdown()
    assert os.listdir(kept) == []


@pytest.mark.parametrize("member", ["model.pt", "other.pt", "../outside.pt", "/tmp/outside-hub.pt"])
def test_an_archive_writes_no_other_file(server, kept, tmp_path, member):
    """Checkpoints packed one in an archive were unpacked beside it, over whatever had that name."""
    folder, address = server
    stream = io.BytesIO()
    serialization.save({"w": facula.arange(4)}, stream)
    with zipfile.ZipFile(folder / "packed.zip", "w") as archive:
        archive.writestr(member, stream.getvalue())
    kept.mkdir(parents=True)
    (kept / "other.pt").write_bytes(b"another file")
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    found = hub.load_state_dict_from_url(address + "packed.zip")
    assert found["w"].tolist() == [0, 1, 2, 3]
    after = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert after.pop(kept / "packed.zip") and after == before
    assert not os.path.exists("/tmp/outside-hub.pt")


def test_a_kept_file_with_another_hash_is_fetched_again(server, kept):
    folder, address = server
    name = publish(folder)
    kept.mkdir(parents=True)
    (kept / name).write_bytes(b"somebody else's")
    assert hub.load_state_dict_from_url(address + name, check_hash=True)["w"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("end", ["", "models/", "models/.."])
def test_the_file_has_a_name(kept, end):
    with pytest.raises(ValueError, match="ends with a file's name"):
        hub.load_state_dict_from_url("http://127.0.0.1:9/" + end)
