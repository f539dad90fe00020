"""Archives that say of themselves more than they hold: an error of the reader's own, and no memory for it.

The files are made by `zipfile` and `tarfile` and changed by hand; the children that read them may
allocate less than what the files state.
"""

import io
import pickle
import resource
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import facula
from facula.serialization.archive import read_entry

STATED = 3 << 30
#: where the sizes stand behind the signatures of a local and of a central header
PLACES = ((b"PK\3\4", (18, 22)), (b"PK\1\2", (20, 24)))


def stated(archive: bytes, name: str, sizes: tuple[int, int] = (STATED, STATED)) -> bytes:
    """The archive, with other sizes (packed and unpacked) for a member."""
    data = bytearray(archive)
    for signature, places in PLACES:
        at = data.find(signature)
        while at >= 0:
            begin = at + (30 if signature == b"PK\3\4" else 46)
            if data[begin : begin + len(name)] == name.encode():
                for place, size in zip(places, sizes, strict=True):
                    struct.pack_into("<I", data, at + place, size)
            at = data.find(signature, at + 1)
    return bytes(data)


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def exported() -> bytes:
    stream = io.BytesIO()
    facula.export.save(facula.export.export(facula.nn.ReLU(), (facula.ones(2),)), stream)
    return stream.getvalue()


def scripted(ending: str) -> tuple[bytes, str]:
    stream = io.BytesIO()
    facula.jit.save(facula.jit.script(facula.nn.ReLU()), stream, _extra_files={"notes": b"text"})
    names = zipfile.ZipFile(stream).namelist()
    return stream.getvalue(), next(name for name in names if name.endswith(ending))


def tarred() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        member = tarfile.TarInfo("a")
        member.size = 10
        archive.addfile(member, io.BytesIO(b"0123456789"))
    data = bytearray(stream.getvalue())
    data[124:136] = b"%011o\0" % STATED
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    return bytes(data)


READERS = {
    "hub": "facula.hub.load_state_dict_from_url('https://example.invalid/file.zip', model_dir=folder)",
    "export": "facula.export.load(path)",
    "jit": "facula.jit.load(path, _extra_files={'notes': ''})",
    "jit, its code": "facula.jit.load(path)",
    "checkpoint": "facula.load(path)",
    "pipe of zip": "[s.read() for _, s in pipe.load_from_zip()]",
    "pipe of tar": "[s.read() for _, s in pipe.load_from_tar()]",
}
CHILD = """
import resource, sys
import facula
from facula.data.datapipes.iter import IterableWrapper
path = sys.argv[1]
folder = path.rpartition("/")[0]
pipe = IterableWrapper([(path, open(path, "rb"))], deepcopy=False)
def read():
    {reader}
with open("/proc/self/statm") as stream:
    held = int(stream.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + (1 << 28),) * 2)
try:
    read()
except RuntimeError as error:
    print("refused", str(error).splitlines()[0])
"""


def files() -> dict[str, bytes]:
    older = Path(__file__).parent / "data/before_1_6.pt"
    checkpoint = io.BytesIO()
    facula.save(facula.ones(3), checkpoint)
    record = next(n for n in zipfile.ZipFile(checkpoint).namelist() if n.endswith("data/0"))
    return {
        "hub": stated(zipped({"model.pt": older.read_bytes()}), "model.pt"),
        "export": stated(exported(), "archive/models/model.json"),
        "jit": stated(*scripted("extra/notes")),
        "jit, its code": stated(*scripted(".py")),
        "checkpoint": stated(checkpoint.getvalue(), record),
        "pipe of zip": stated(zipped({"a": b"text"}), "a"),
        "pipe of tar": tarred(),
    }


@pytest.mark.parametrize("kind", READERS)
def test_a_member_that_states_more_than_the_file_holds_is_refused_before_memory_is_asked_for(
    kind, tmp_path
):
    path = tmp_path / "file.zip"
    path.write_bytes(files()[kind])
    child = [sys.executable, "-c", CHILD.format(reader=READERS[kind]), str(path)]
    ended = subprocess.run(child, capture_output=True, text=True)
    assert ended.stdout.startswith("refused ["), ended.stdout + ended.stderr
    assert "MemoryError" not in ended.stdout, ended.stdout


def entry_of(data: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return read_entry(archive, "a", len(data), packed=True)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
@pytest.mark.parametrize("content", [b"", b"text", bytes(1 << 20)])
def test_sound_entries_are_read_whatever_packed_them(method, content):
    assert entry_of(zipped({"a": content, "b": b"rest"}, method)) == content


@pytest.mark.parametrize("sizes", [(STATED, STATED), (4, STATED), (STATED, 4), (4, 5), (3, 4)])
def test_entries_of_sizes_that_cannot_be_are_refused(sizes):
    with pytest.raises(zipfile.BadZipFile):
        entry_of(stated(zipped({"a": b"text"}), "a", sizes))


def test_storages_of_an_older_checkpoint_take_no_more_room_together_than_the_file_has():
    """Each of the storages could stand in the file, all of them could not."""
    stream = io.BytesIO()
    pickle.dump(0x1950A86A20F9469CFC6C, stream, 2)
    pickle.dump(1001, stream, 2)
    pickle.dump({"little_endian": True}, stream, 2)
    body = io.BytesIO()
    count = 2000
    keys = [str(i) for i in range(count)]
    body.write(b"\x80\x02]q\x00(")
    for key in keys:
        text = key.encode()
        body.write(b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\n")
        body.write(b"X" + struct.pack("<I", len(text)) + text + b"X\x03\x00\x00\x00cpu")
        body.write(b"J" + struct.pack("<i", 1 << 20) + b"NtQ")
    body.write(b"e.")
    stream.write(body.getvalue())
    pickle.dump(keys, stream, 2)
    stream.write(bytes(5 << 20))
    stream.seek(0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises((RuntimeError, pickle.UnpicklingError), match="file of this size"):
        facula.load(stream)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KiB


def test_an_older_checkpoint_may_be_one_large_storage():
    """Its pickle is read twice: what the first reading named takes no room in the second."""
    stream, count = io.BytesIO(), 10_000
    pickle.dump(0x1950A86A20F9469CFC6C, stream, 2)
    pickle.dump(1001, stream, 2)
    pickle.dump({"little_endian": True}, stream, 2)
    stream.write(b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(")
    stream.write(
        b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x007X\x03\x00\x00\x00cpu"
    )
    stream.write(b"J" + struct.pack("<i", count) + b"NtQK\x00")
    stream.write(
        b"J" + struct.pack("<i", count) + b"\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtR."
    )
    pickle.dump(["7"], stream, 2)
    stream.write(struct.pack("<q", count) + struct.pack(f"<{count}f", *range(count)))
    stream.seek(0)
    assert facula.load(stream).tolist() == list(range(count))
