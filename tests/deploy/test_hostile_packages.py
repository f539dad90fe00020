"""Packages that somebody cut or changed: refused with one line, nothing of them runs, nothing crashes."""

import ctypes
import hashlib
import random
import zipfile

import numpy as np
import pytest
from packaged_models import mlp_and_path

import facula
from facula.deploy.aot import LoadedPackage
from facula.deploy.model import Model, _runtime
from facula.deploy.package import package_bytes


@pytest.fixture(scope="module")
def mlp_package(tmp_path_factory):
    return mlp_and_path(tmp_path_factory)


def opened(content: bytes) -> str:
    """What the runtime says of a package in memory; "" where it takes it."""
    error = ctypes.create_string_buffer(512)
    library = _runtime()
    library.facula_model_open_memory.restype = ctypes.c_void_p
    buffer = ctypes.create_string_buffer(content, len(content))
    handle = library.facula_model_open_memory(
        buffer, ctypes.c_size_t(len(content)), None, error, ctypes.c_size_t(512)
    )
    if handle:
        library.facula_model_close(ctypes.c_void_p(handle))
        return ""
    said = error.value.decode()
    assert said and "\n" not in said
    return said


@pytest.fixture(scope="module")
def sound(mlp_package):
    with open(mlp_package[1], "rb") as file:
        return file.read()


@pytest.fixture(scope="module")
def entries(mlp_package):
    with zipfile.ZipFile(mlp_package[1]) as file:
        return {name: file.read(name) for name in file.namelist() if name != "manifest"}


def test_a_sound_package_opens(sound):
    assert opened(sound) == ""


def test_cut_packages(sound):
    places = random.Random(0).sample(range(len(sound)), 400)
    for length in [0, 1, 21, 22, len(sound) - 1, *places]:
        assert opened(sound[:length])


def test_changed_bytes(sound):
    """A bit anywhere in what the package says or runs is seen; elsewhere it changes nothing."""
    chance = random.Random(1)
    taken = 0
    for _ in range(3000):
        changed = bytearray(sound)
        for _ in range(chance.choice((1, 1, 1, 2, 8))):
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        taken += opened(bytes(changed)) == ""
    assert taken < 300  # padding, names in local heads, times


def test_programs_that_are_no_programs(entries):
    """With digests that are right, so that the parser of programs sees them."""
    chance = random.Random(2)
    text = entries["program"].decode()
    words = text.split()
    for _ in range(1500):
        changed = list(words)
        for _ in range(chance.choice((1, 1, 2, 5))):
            at = chance.randrange(len(changed))
            changed[at] = chance.choice(
                [
                    "-1",
                    "0",
                    "1",
                    "99999999999999999999",
                    "$0",
                    "$99",
                    "x",
                    "9223372036854775807",
                    "2147483648",
                ]
            )
        # nothing runs: the kernels that it names are not there
        body = " ".join(changed).replace("gemm:f32", "no:f32").replace("fused/", "none/")
        package = b"".join(package_bytes({**entries, "program": body.encode()}, "x86_64"))
        assert opened(package)
    for length in range(0, len(text), 7):
        package = b"".join(package_bytes({**entries, "program": text[:length].encode()}, "x86_64"))
        assert opened(package)


def test_other_versions_machines_and_processors(entries, sound):
    package = b"".join(package_bytes(entries, "riscv64"))
    assert "the package is for riscv64" in opened(package)
    lacking = {k: v for k, v in entries.items() if not k.startswith("lib/")} | {"lib/v9.so": b"?"}
    said = opened(b"".join(package_bytes(lacking, "x86_64")))
    assert "native code that this processor runs was required: the package has v9.so" in said
    manifest = sound[sound.index(b"facula-package 1") :]
    manifest = manifest[: manifest.index(b"\nend ") + 1]
    later = manifest.replace(b"abi 1", b"abi 7")
    later += b"end " + hashlib.sha256(later).hexdigest().encode()
    there = sound.index(b"facula-package 1")
    changed = sound[:there] + later + sound[there + len(later) :]
    assert "version 1 with ABI 1 was required: got version 1 with ABI 7" in opened(changed)


def test_names_that_lead_out_of_the_package(entries):
    for name in ("../x", "/etc/x", "a/../../b", "a b", "x\n", ".hidden"):
        assert opened(b"".join(package_bytes({**entries, name: b"1"}, "x86_64")))


def test_other_files(tmp_path):
    (tmp_path / "x.pt2").write_bytes(b"not a model")
    for path in (tmp_path / "x.pt2", tmp_path / "nothing.pt2", tmp_path):
        with pytest.raises(RuntimeError, match="was required"):
            Model(str(path))
    np.save(tmp_path / "array.npy", np.ones(3))
    with pytest.raises(RuntimeError, match="a ZIP file"):
        Model(str(tmp_path / "array.npy"))


def test_descriptions_of_calls_that_are_none(entries, tmp_path):
    """With digests that are right: one kind of error, whatever is wrong with the text."""
    chance, path, text = random.Random(3), tmp_path / "changed.pt2", entries["call"]
    parts = (b"null", b"-1", b"[]", b"{}", b"1e999", b'"x"', b"[[" * 40, b"\xff", b"")
    texts = [b"", b"null", b"[" * 100_000, text.replace(b"true", b"true, true")]
    for _ in range(300):
        at = chance.randrange(len(text))
        texts.append(text[:at] + chance.choice(parts) + text[at + chance.randrange(9) :])
    taken = 0
    for changed in texts:
        package = package_bytes({**entries, "call": changed}, "x86_64")
        path.write_bytes(b"".join(package))
        try:
            LoadedPackage(str(path))
            taken += 1
        except RuntimeError as error:
            assert "was required" in str(error) or "were required" in str(error)
    assert taken < 30
    path.write_bytes(
        b"".join(package_bytes({k: v for k, v in entries.items() if k != "call"}, "x86_64"))
    )
    with pytest.raises(RuntimeError, match=r"\(its entry `call` is damaged\)"):
        LoadedPackage(str(path))


def test_tensors_that_a_package_can_not_read(mlp_package):
    run = LoadedPackage(mlp_package[1])
    for x in (facula.ones(2, 16).to_sparse(), facula.ones(2, 16, device="meta"), np.ones((2, 16))):
        with pytest.raises(TypeError, match="dense tensors on the CPU were required as inputs"):
            run(x)
