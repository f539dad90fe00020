"""Weights from the network: fetched once, whole, with the hash that the name says; from a server of our own."""

import functools
import hashlib
import http.server
import os
import threading

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
