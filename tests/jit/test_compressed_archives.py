"""Archives of programs whose records are compressed in ways that no program of PyTorch's is."""

import io
import zipfile

import pytest

import facula


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("damaged", [False, True])
def test_other_compressions_are_refused(method, damaged):
    saved, other = io.BytesIO(), io.BytesIO()
    facula.jit.save(facula.jit.script(facula.nn.ReLU()), saved)
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(other, "w") as new:
        for entry in old.infolist():
            kind = method if entry.filename.endswith(".py") else zipfile.ZIP_STORED
            new.writestr(entry.filename, old.read(entry), kind)
        place = next(e for e in new.infolist() if e.filename.endswith(".py")).header_offset
    bytes_ = bytearray(other.getvalue())
    if damaged:
        bytes_[place + 80 : place + 90] = b"\0" * 10
    with pytest.raises(RuntimeError, match="a well-formed program was required"):
        facula.jit.load(io.BytesIO(bytes(bytes_)))
