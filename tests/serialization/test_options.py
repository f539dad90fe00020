"""Settings of `save` and `load`, and entry points of folders."""

import mmap
import zipfile

import numpy as np
import pytest

import facula
from facula import serialization


def test_files_without_data_have_room_for_it(tmp_path):
    path = tmp_path / "room.pt"
    weights = facula.arange(1000.0)
    with serialization.skip_data():
        facula.save({"w": weights, "part": weights[10:20]}, path)
        with pytest.raises(RuntimeError, match="skip_data context manager is not supported"):
            facula.load(path)
    empty = facula.load(path)
    np.testing.assert_array_equal(empty["w"].numpy(), np.zeros(1000, np.float32))
    assert empty["part"].storage_offset() == 10
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        (data,) = [i for i in archive.infolist() if "/data/" in i.filename]
        assert data.file_size == 4000
    facula.save({"w": weights}, path)
    np.testing.assert_array_equal(facula.load(path)["w"].numpy(), np.arange(1000.0))
    with pytest.raises(RuntimeError, match="materialize_fake_tensors"):
        serialization.skip_data(materialize_fake_tensors=True)


def test_mapped_files_are_written_only_where_that_was_set(tmp_path):
    path = tmp_path / "mapped.pt"
    facula.save(facula.zeros(3), path)
    assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    facula.load(path, mmap=True).fill_(5.0)
    np.testing.assert_array_equal(facula.load(path).numpy(), [0, 0, 0])
    with serialization.set_default_mmap_options(mmap.MAP_SHARED):
        assert serialization.get_default_mmap_options() == mmap.MAP_SHARED
        facula.load(path, mmap=True)[1] = 7.0
    assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    data = path.read_bytes()
    assert np.float32([0, 7, 0]).tobytes() in data
    with pytest.raises(ValueError, match="expected mmap.MAP_PRIVATE or"):
        serialization.set_default_mmap_options(99)


def test_checksums_are_right_whatever_is_set(tmp_path):
    serialization.set_crc32_options(False)
    try:
        assert serialization.get_crc32_options() is False
        facula.save(facula.ones(4), tmp_path / "w.pt")
    finally:
        serialization.set_crc32_options(True)
    with zipfile.ZipFile(tmp_path / "w.pt") as archive:
        assert archive.testzip() is None


HUBCONF = """
dependencies = ["numpy"]
import parts
_private = len
def double(x, *, more=0):
    "Twice as much."
    import late
    return parts.twice(x) + more + late.NOTHING
class Kind:
    pass
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "hubconf.py").write_text(HUBCONF)
    (tmp_path / "parts.py").write_text("def twice(x):\n    return 2 * x\n")
    (tmp_path / "late.py").write_text("NOTHING = 0\n")
    return tmp_path


def test_folders_have_entry_points(folder):
    assert facula.hub.list(folder, source="local") == ["double"]
    assert facula.hub.help(str(folder), "double", source="local") == "Twice as much."
    assert facula.hub.load(folder, "double", 4, more=1, source="local") == 9


def test_what_is_no_entry_point_is_refused(folder, tmp_path):
    with pytest.raises(ValueError, match="no repository is fetched and run"):
        facula.hub.load("owner/name", "model")
    with pytest.raises(ValueError, match="'github' or 'local'"):
        facula.hub.list(folder, source="elsewhere")
    with pytest.raises(RuntimeError, match="Cannot find callable triple in hubconf"):
        facula.hub.load(folder, "triple", source="local")
    with pytest.raises(ValueError, match="model should be a string"):
        facula.hub.help(folder, 3, source="local")
    with pytest.raises(FileNotFoundError, match="hubconf"):
        facula.hub.list(tmp_path / "none", source="local")
    (folder / "hubconf.py").write_text("dependencies = ['no_such_package_here']\n")
    with pytest.raises(RuntimeError, match="Missing dependencies: no_such_package_here"):
        facula.hub.list(folder, source="local")
