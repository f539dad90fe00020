"""What pipes for files do with bad input: the error names step, file and line, and nothing is half done."""

import io
import os
import tarfile
from importlib.util import find_spec

import pytest

from facula.data.datapipes import iter as pipes
from facula.data.datapipes.utils import decoder

wrap = pipes.IterableWrapper
pytestmark = pytest.mark.filterwarnings("ignore:Lambda function", "ignore:Local function")
PAIRED = {
    "readlines": {},
    "parse_csv": {},
    "parse_csv_as_dict": {},
    "parse_json_files": {},
    "lines_to_paragraphs": {},
    "decompress": {},
    "load_from_tar": {},
    "load_from_zip": {},
    "load_from_tfrecord": {},
    "webdataset": {},
    "check_hash": {"hash_dict": {"a": "0"}},
    "save_to_disk": {},
}


def read(step, name, data, **settings):
    stream = io.BytesIO(data) if isinstance(data, bytes) else data
    return list(getattr(wrap([(name, stream)], deepcopy=False), step)(**settings))


@pytest.mark.parametrize("step", PAIRED)
@pytest.mark.parametrize("value", [3, "ab", ("a",), ("a", "b", "c"), None])
def test_what_is_no_pair_is_named(step, value):
    # a text of two letters is no pair of a path and a stream either
    with pytest.raises(TypeError, match=rf"^\[{step}\] .*(pairs|tuple) of a path"):
        list(getattr(wrap([value]), step)(**PAIRED[step]))


@pytest.mark.parametrize(
    "step", ["readlines", "parse_csv", "parse_csv_as_dict", "parse_json_files"]
)
@pytest.mark.parametrize("stream", [3, None])
def test_what_is_no_stream_is_named(step, stream):
    with pytest.raises(TypeError, match=rf"^\[{step}\] a stream .*for table.x"):
        list(getattr(wrap([("table.x", stream)]), step)())


def test_streams_of_text_are_no_archives():
    for step in ("decompress", "load_from_tar", "load_from_zip", "load_from_tfrecord"):
        with pytest.raises(TypeError, match=rf"^\[{step}\] .*binary stream: got \('a.gz'"):
            read(step, "a.gz", io.StringIO("text"))


@pytest.mark.parametrize("step", ["readlines", "parse_csv", "parse_csv_as_dict"])
def test_lines_that_cannot_be_read_are_named(step, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\n" + b"\xff\xfe\n")
    files = pipes.FileOpener([str(tmp_path / "a.txt")], mode="rt", encoding="utf-8")
    with pytest.raises(ValueError, match=rf"^\[{step}\] text in utf-8 .*a.txt, line [123]"):
        list(getattr(files, step)())
    closed = io.BytesIO(b"one\n")
    closed.close()
    with pytest.raises(ValueError, match=rf"^\[{step}\] .*b.txt, line 1: got .*closed"):
        read(step, "b.txt", closed)

    class Gone(io.BytesIO):
        def __next__(self):
            if self.tell():
                raise ConnectionResetError(104, "reset by peer")
            return self.readline()

    with pytest.raises(ConnectionResetError, match=rf"^\[{step}\] .*c.txt, line 2: got .*reset"):
        read(step, "c.txt", Gone(b"one\ntwo\n"))


def test_rows_that_do_not_fit_their_table_are_named():
    for row, found in ((b"1", 1), (b"1,2,3", 3), (b"1,2,3,4", 4)):
        table = b"a,b\n8,9\n" + row + b"\n"
        message = rf"^\[parse_csv_as_dict\] 2 values.*'a', 'b'.* in t.csv, line 3: got {found}"
        with pytest.raises(ValueError, match=message):
            read("parse_csv_as_dict", "t.csv", table)
    assert read("parse_csv_as_dict", "t.csv", b"a,b\n1\n", restval=None) == [{"a": "1", "b": None}]
    rest = read("parse_csv_as_dict", "t.csv", b"a,b\n1,2,3\n", restkey="rest")
    assert rest == [{"a": "1", "b": "2", "rest": ["3"]}]
    assert read("parse_csv_as_dict", "t.csv", b"a,b\n\n1,2\n") == [{"a": "1", "b": "2"}]


@pytest.mark.parametrize("step", ["parse_csv", "parse_csv_as_dict"])
def test_settings_of_tables_are_looked_at_at_once(step):
    for wrong in ({"delimiter": "ab"}, {"separator": ";"}, {"dialect": "none"}):
        with pytest.raises(TypeError, match=rf"^\[{step}\] settings of a table"):
            getattr(wrap([]), step)(**wrong)
    for wrong in ({"encoding": "none"}, {"errors": "none"}):
        with pytest.raises(LookupError, match=rf"^\[{step}\] an encoding"):
            getattr(wrap([]), step)(**wrong)


def test_json_of_any_depth_is_an_error_of_the_file():
    with pytest.raises(ValueError, match=r"^\[parse_json_files\] JSON was required in deep.json"):
        read("parse_json_files", "deep.json", b"[" * 100_000)


def test_paragraphs_are_made_of_text():
    with pytest.raises(ValueError, match=r"^\[lines_to_paragraphs\] text was required in a.txt"):
        list(wrap([("a.txt", b"\xff")]).lines_to_paragraphs())
    with pytest.raises(TypeError, match=r"^\[lines_to_paragraphs\] lines .*a.txt"):
        list(wrap([("a.txt", 3)]).lines_to_paragraphs())


def member(size, kind=tarfile.REGTYPE, **pax):
    """An archive of one member whose head says a size that `tarfile` itself would not write."""
    info = tarfile.TarInfo("inside")
    info.type, info.size = kind, 3
    head = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    head[124:136] = size
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + b"abc".ljust(512, b"\0") + bytes(1024)


def test_members_of_less_than_no_bytes_and_without_names():
    with pytest.raises(RuntimeError, match=r"a.tar: got 'inside' says that it has -1 bytes"):
        read("load_from_tar", "a.tar", member(b"\xff" * 12))
    assert read("load_from_tar", "a.tar", member(b"00000000003\0"))[0][0] == "a.tar/inside"
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("x")
        info.pax_headers = {"path": ""}
        archive.addfile(info)
    with pytest.raises(ValueError, match=r"^\[load_from_tar\] members with names .*a.tar"):
        read("load_from_tar", "a.tar", out.getvalue())


def test_no_memory_for_a_member_is_no_broken_member():
    class Bomb(io.BytesIO):
        def read(self, size=-1):
            raise MemoryError

    from facula.data.datapipes.extended.archives import _Member

    with pytest.raises(
        MemoryError, match=r"^\[decompress\] memory for .* in a.gz: got MemoryError"
    ):
        _Member(Bomb(), "decompress", "a.gz").read()


def test_two_files_of_one_name_are_no_sample():
    with pytest.raises(ValueError, match=r"^\[webdataset\] one file of each name .*a/1.jpg"):
        list(wrap([("a/1.jpg", 1), ("a/1.jpg", 2)]).webdataset())


def test_what_is_saved_is_named(tmp_path):
    path = str(tmp_path / "a")
    for value in (3, None):
        with pytest.raises(TypeError, match=rf"^\[save_to_disk\] bytes, text.* for {path}"):
            list(wrap([(path, value)]).save_to_disk())
    for name in (f"{path}\0", 3):
        with pytest.raises(TypeError, match=r"^\[save_to_disk\] paths of files"):
            list(wrap([(name, b"x")]).save_to_disk("wb"))
    with pytest.raises(TypeError, match=r"^\[check_hash\] sums as texts .*\['a'\]"):
        wrap([("a", b"x")]).check_hash({"a": None})
    assert os.listdir(tmp_path) == []


def test_paths_that_are_none():
    with pytest.raises(ValueError, match=r"^\[open_files\] .*'a\\x00'"):
        list(pipes.FileOpener(["a\0"]))
    with pytest.raises(TypeError, match=r"^\[open_files\] Expected string type for pathname"):
        list(pipes.FileOpener([3.5]))
    with pytest.raises(TypeError, match=r"^\[list_files\] patterns of names"):
        pipes.FileLister(".", masks=3)
    with pytest.raises(TypeError, match=r"^\[read_from_http\] an address as text"):
        list(wrap([3]).read_from_http())


@pytest.mark.parametrize(
    "name, data",
    [("d/a.json", b"{x"), ("d/a.txt", b"\xff"), ("d/a.pt", b"\xff"), ("d/a.jpg", b"\xff")],
)
def test_decoders_name_the_file(name, data):
    stream = wrap([(name, io.BytesIO(data))], deepcopy=False)
    with pytest.raises(
        (ValueError, RuntimeError), match=rf"^\[routed_decode\] data .* in {name}: got "
    ):
        list(stream.routed_decode(decoder.basichandlers, decoder.imagehandler("rgb")))


def test_decoders_of_programs_raise_what_they_raise():
    class Own(Exception):
        pass

    def handler(extension, data):
        raise Own("mine")

    with pytest.raises(Own, match="mine"):
        list(wrap([("a.x", io.BytesIO(b"1"))], deepcopy=False).routed_decode(handler))


def test_rows_of_other_columns_are_no_columns():
    rows = [{"a": 1, "b": 2}, {"a": 3}]
    with pytest.raises(
        ValueError, match=r"^\[rows2columnar\] rows with .*'a', 'b'.*without \['b'\]"
    ):
        list(wrap([rows]).rows2columnar())
    with pytest.raises(ValueError, match=r"^\[rows2columnar\] .*'a'.* with \['b'\] beside"):
        list(wrap([rows[::-1]]).rows2columnar())
    assert list(wrap([rows]).rows2columnar(["a"])) == [{"a": [1, 3]}]
    with pytest.raises(TypeError, match=r"^\[rows2columnar\] batches of rows"):
        list(wrap([3]).rows2columnar(["a"]))
    for row in ((1,), 3):
        with pytest.raises(ValueError, match=r"^\[unzip\] rows of 2 values"):
            list(wrap([row]).unzip(2)[1])


if find_spec("pyarrow"):
    import pyarrow
    import pyarrow.parquet

    def test_damaged_columns_are_named(tmp_path):
        path = str(tmp_path / "a.parquet")
        table = pyarrow.table({"n": list(range(500)), "s": [f"text{i:04}" for i in range(500)]})
        plain = {"compression": "none", "use_dictionary": False}
        for settings in ({"write_page_checksum": True}, {}):
            pyarrow.parquet.write_table(table, path, **plain, **settings)
            data = bytearray((tmp_path / "a.parquet").read_bytes())
            place = data.index(b"text0100")
            data[place] = 0xFF  # no text, and not what the sum of the page says
            (tmp_path / "a.parquet").write_bytes(data)
            with pytest.raises(RuntimeError, match=rf"^\[load_parquet_as_df\] .*{path}: got "):
                list(wrap([path]).load_parquet_as_df())


def test_addresses_that_are_none():
    for wrong in ("http://[::1", "ftp://a"):
        with pytest.raises(ValueError, match=r"^\[read_from_http\] an address that begins"):
            list(wrap([wrong]).read_from_http())


if find_spec("fsspec"):

    def test_file_systems_name_the_address():
        steps = ("open_files_by_fsspec", "list_files_by_fsspec")
        for step in steps:
            with pytest.raises(FileNotFoundError, match=rf"^\[{step}\] memory://none/x could not"):
                list(getattr(wrap(["memory://none/x"]), step)())
            with pytest.raises(ValueError, match=rf"^\[{step}\] .*zz://a"):
                list(getattr(wrap(["zz://a"]), step)())
            with pytest.raises(TypeError, match=rf"^\[{step}\] an address as text"):
                list(getattr(wrap([3]), step)())
        assert list(wrap([("memory://made/x", "one\ntwo")]).save_by_fsspec()) == ["memory://made/x"]
        files = wrap(["memory://made/x"]).open_files_by_fsspec()
        assert [line for _, line in files.readlines()] == ["one", "two"]
        files = wrap(["memory://made/x"]).open_files_by_fsspec("rb")
        assert [stream.read(2) + stream.read() for _, stream in files] == [b"one\ntwo"]
