"""Damaged, malicious and foreign files: clear errors, nothing run, nothing hung."""

import collections
import io
import os
import pickle
import random
import time
import zipfile
from pathlib import Path

import pytest

import facula
from facula import serialization
from facula.serialization import safetensors
from facula.serialization.archive import ArchiveWriter

DATA = Path(__file__).parent / "data"
ERRORS = (pickle.UnpicklingError, RuntimeError, EOFError)


def mutated(data, generator):
    """A copy with bytes cut off, changed, replaced or repeated."""
    data = bytearray(data)
    kind = generator.randrange(4)
    first, second = generator.randrange(len(data)), generator.randrange(len(data))
    length = generator.randint(1, 20)
    if kind == 0:
        del data[first:]
    elif kind == 1:
        for _ in range(generator.randint(1, 4)):
            data[generator.randrange(len(data))] = generator.randrange(256)
    elif kind == 2:
        data[first : first + length] = generator.randbytes(generator.randint(0, 20))
    else:
        data[first : first + length] = data[second : second + length]
    return bytes(data)


def storm(data, load, count):
    """Loads mutations: each is read or refused with one of the promised errors, at once."""
    generator = random.Random(0)
    results = collections.Counter()
    for _ in range(count):
        piece = mutated(data, generator)
        begin = time.perf_counter()
        try:
            load(piece)
            results["read"] += 1
        except ERRORS as error:
            results[type(error).__name__] += 1
        assert time.perf_counter() - begin < 5
    return results


def load_bytes(data):
    return serialization.load(io.BytesIO(data))


def test_mutated_archives():
    results = storm((DATA / "checkpoint.pt").read_bytes(), load_bytes, 600)
    assert results["RuntimeError"] > 100


def test_mutated_pickles_inside_sound_archives():
    source = zipfile.ZipFile(DATA / "checkpoint.pt")
    records = {name.partition("/")[2]: source.read(name) for name in source.namelist()}
    body = records.pop("data.pkl")

    def load(pickled):
        stream = io.BytesIO()
        archive = ArchiveWriter(stream, "archive")
        archive.add("data.pkl", pickled)
        for name, data in records.items():
            archive.add(name, data)
        archive.close()
        stream.seek(0)
        return serialization.load(stream)

    load(body)
    results = storm(body, load, 1500)
    assert results["UnpicklingError"] > 1000


def test_mutated_files_from_before_1_6():
    results = storm((DATA / "before_1_6.pt").read_bytes(), load_bytes, 800)
    assert results["UnpicklingError"] > 100


def test_mutated_safetensors(tmp_path):
    path = tmp_path / "a.safetensors"
    safetensors.save_file({"a": facula.zeros(3, 4), "b": facula.arange(5)}, path, {"k": "v"})
    sound = path.read_bytes()

    def load(data):
        path.write_bytes(data)
        return safetensors.load_file(path)

    assert storm(sound, load, 600)["RuntimeError"] > 100


class Harmful:
    """Would make a file when unpickled the usual way."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("protocol", range(6))
def test_code_in_a_pickle_is_refused(tmp_path, protocol):
    target = tmp_path / "made"
    data = pickle.dumps({"a": Harmful(str(target))}, protocol)
    with pytest.raises(pickle.UnpicklingError, match="never runs code"):
        load_bytes(data)
    assert not target.exists()


NAMES = ["os.system", "builtins.eval", "builtins.getattr", "subprocess.Popen", "torch.load"]


@pytest.mark.parametrize("name", NAMES)
def test_names_outside_the_table_are_refused(name):
    module, _, function = name.rpartition(".")
    with pytest.raises(pickle.UnpicklingError, match="plain data was required"):
        load_bytes(f"c{module}\n{function}\n(S'1'\ntR.".encode())


def test_deep_key_does_not_exhaust_the_stack():
    with pytest.raises(pickle.UnpicklingError, match="64 deep"):
        load_bytes(b"\x80\x02}" + b")" + b"\x85" * 200_000 + b"K\x01s.")


def test_huge_counts_allocate_nothing():
    with pytest.raises(pickle.UnpicklingError):
        load_bytes(b"\x80\x04\x8e" + (1 << 60).to_bytes(8, "little") + b"x.")


def test_tensor_outside_its_storage_is_refused():
    stream = io.BytesIO()
    serialization.save(facula.zeros(4), stream)
    data = stream.getvalue().replace(b"K\x04\x85", b"K\x08\x85")
    archive = zipfile.ZipFile(io.BytesIO(data))
    with pytest.raises(ERRORS):
        load_bytes(data)
    rewritten = io.BytesIO()
    writer = ArchiveWriter(rewritten, "archive")
    for entry in archive.infolist():
        archive.fp.seek(entry.header_offset + 26)
        sizes = (
            int.from_bytes(archive.fp.read(2), "little"),
            int.from_bytes(archive.fp.read(2), "little"),
        )
        archive.fp.seek(sum(sizes), os.SEEK_CUR)
        writer.add(entry.filename.partition("/")[2], archive.fp.read(entry.file_size))
    writer.close()
    with pytest.raises(pickle.UnpicklingError, match="must hold the tensor of size \\[8\\]"):
        load_bytes(rewritten.getvalue())


@pytest.mark.parametrize(
    ("head", "word"),
    [
        (b"<!DOCTYPE html>", "HTML"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"\x93NUMPY\x01\x00", "numpy.load"),
        (b"\x89HDF\r\n", "HDF5"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"name".ljust(257, b"\0") + b"ustar", "tar file"),
    ],
)
def test_other_files_are_named(head, word):
    with pytest.raises(RuntimeError, match=word):
        load_bytes(head + b" " * 100)


def test_safetensors_are_named():
    data = (16).to_bytes(8, "little") + b'{"__metadata__"' + b" " * 100
    with pytest.raises(RuntimeError, match="safetensors"):
        load_bytes(data)


def test_empty_file():
    with pytest.raises(EOFError, match="empty file"):
        load_bytes(b"")


def test_arguments():
    with pytest.raises(AttributeError, match="path or a binary file"):
        serialization.save(1, 5)
    with pytest.raises(AttributeError, match="path or a binary file"):
        serialization.load(5)
    with pytest.raises(FileNotFoundError):
        serialization.load("there is no such file")
    with pytest.raises(RuntimeError, match="parent folder"):
        serialization.save(1, "no such folder/a.pt")
    with pytest.raises(TypeError, match="map_location"):
        serialization.load(DATA / "checkpoint.pt", map_location=5)
    with pytest.raises(RuntimeError, match="map_location='cpu'"):
        serialization.load(DATA / "checkpoint.pt", map_location="cuda:0")
