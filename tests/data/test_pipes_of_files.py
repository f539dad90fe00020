"""Steps for files: what is read is what was written, what is broken names file and place, nothing
leaves its folder, nothing is half written.
"""

import bz2
import gzip
import hashlib
import http.server
import io
import json
import lzma
import os
import stat
import struct
import sys
import tarfile
import threading
import types
import zipfile

import pytest

from facula.data.datapipes import iter as pipes

wrap = pipes.IterableWrapper
pytestmark = pytest.mark.filterwarnings("ignore:Lambda function", "ignore:Local function")


def opened(folder, mask, mode="rb"):
    return pipes.FileOpener(pipes.FileLister(str(folder), mask), mode=mode)


def test_tables_and_lines(tmp_path):
    (tmp_path / "a.csv").write_bytes(b'a,b\n1,"x\ny"\n2,z\n')
    for mode in ("rt", "rb"):
        files = opened(tmp_path, "*.csv", mode)
        assert list(files.parse_csv(skip_lines=1)) == [["1", "x\ny"], ["2", "z"]]
        assert list(files.parse_csv_as_dict())[1] == {"a": "2", "b": "z"}
    assert list(files.parse_csv(as_tuple=True, return_path=True))[0][1] == ("a", "b")
    (tmp_path / "b.txt").write_text("one\ntwo\n\nthree\n")
    lines = opened(tmp_path, "*.txt", "rt").readlines(skip_lines=1)
    assert [line for _, line in lines] == ["two", "", "three"]
    assert [
        p for _, p in opened(tmp_path, "*.txt").readlines(decode=True).lines_to_paragraphs()
    ] == [
        "one\ntwo",
        "three",
    ]
    (tmp_path / "c.bin").write_bytes(b"good\n\xff\xfe\n")
    with pytest.raises(ValueError, match=r"c.bin, line 2"):
        list(opened(tmp_path, "*.bin").readlines(decode=True, errors="strict"))
    (tmp_path / "d.tsv").write_bytes(b'1,2\n"open,3')
    with pytest.raises(ValueError, match=r"d.tsv, line 2"):
        list(opened(tmp_path, "*.tsv", "rt").parse_csv(strict=True))


def test_json(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"k": [1]}))
    assert list(opened(tmp_path, "a.json").parse_json_files())[0][1] == {"k": [1]}
    (tmp_path / "b.json").write_text('{"k": ')
    with pytest.raises(ValueError, match=r"JSON was required in .*b.json"):
        list(opened(tmp_path, "b.json").parse_json_files())


def tar_of(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def test_archives(tmp_path):
    tar_of(tmp_path / "t.tar.gz", {"x/m.txt": b"data", "n.txt": b"more"})
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("i.txt", "zipped")
    members = [(p, s.read()) for p, s in opened(tmp_path, "*.tar.gz").load_from_tar()]
    assert members == [
        (str(tmp_path / "t.tar.gz" / "x" / "m.txt"), b"data"),
        (str(tmp_path / "t.tar.gz" / "n.txt"), b"more"),
    ]
    assert [s.read() for _, s in opened(tmp_path, "*.zip").load_from_zip()] == [b"zipped"]
    assert [s.readlines() for _, s in opened(tmp_path, "*.zip").load_from_zip()] == [[b"zipped"]]


@pytest.mark.parametrize("name", ["../out.txt", "/etc/out.txt", "a/../../out.txt", "C:\\out.txt"])
def test_members_never_lead_out_of_their_archive(tmp_path, name):
    tar_of(tmp_path / "t.tar", {"in.txt": b"in", name: b"out"}, "w")
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), "out")
    for mask, step in (("t.tar", "load_from_tar"), ("z.zip", "load_from_zip")):
        with pytest.raises(ValueError, match="leads out of it"):
            list(getattr(opened(tmp_path, mask), step)())


def test_links_in_archives_are_passed_over(tmp_path):
    with tarfile.open(tmp_path / "t.tar", "w") as archive:
        info = tarfile.TarInfo("link")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(info)
    assert list(opened(tmp_path, "t.tar").load_from_tar()) == []
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        link = zipfile.ZipInfo("link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("file", b"abc")
    found = [
        (path[-4:], stream.read()) for path, stream in opened(tmp_path, "z.zip").load_from_zip()
    ]
    assert found == [("file", b"abc")]


def test_broken_archives_name_file_and_member(tmp_path):
    (tmp_path / "no.tar").write_bytes(b"no archive at all" * 99)
    (tmp_path / "no.zip").write_bytes(b"no archive at all")
    for step in ("load_from_tar", "load_from_zip"):
        mask = "no." + step[-3:]
        with pytest.raises(RuntimeError, match=rf"archive was required in .*{mask}"):
            list(getattr(opened(tmp_path, mask), step)())
    tar_of(tmp_path / "cut.tar", {"m.bin": bytes(5000)}, "w")
    (tmp_path / "cut.tar").write_bytes((tmp_path / "cut.tar").read_bytes()[:2000])
    with pytest.raises(RuntimeError, match=r"cut.tar"):
        [s.read() for _, s in opened(tmp_path, "cut.tar").load_from_tar()]
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr("m.txt", "contents")
    data = (tmp_path / "bad.zip").read_bytes().replace(b"contents", b"CONTENTS", 1)
    (tmp_path / "bad.zip").write_bytes(data)
    with pytest.raises(RuntimeError, match=r"bad.zip.m.txt"):
        [s.read() for _, s in opened(tmp_path, "bad.zip").load_from_zip()]


def test_compressed_files(tmp_path):
    for ending, module in (("gz", gzip), ("bz2", bz2), ("xz", lzma)):
        (tmp_path / f"f.{ending}").write_bytes(module.compress(b"data"))
    assert [s.read() for _, s in opened(tmp_path, "f.*").decompress()] == [b"data"] * 3
    assert [s.read() for _, s in opened(tmp_path, "f.xz").load_from_xz()] == [b"data"]
    assert [s.read() for _, s in opened(tmp_path, "f.bz2").load_from_bz2()] == [b"data"]
    assert [s.read() for _, s in opened(tmp_path, "f.gz").extract(file_type="gzip")] == [b"data"]
    (tmp_path / "g.gz").write_bytes(gzip.compress(bytes(999))[:-9])
    with pytest.raises(RuntimeError, match=r"g.gz"):
        [s.read() for _, s in opened(tmp_path, "g.gz").decompress()]
    (tmp_path / "h.dat").write_bytes(b"")
    with pytest.raises(ValueError, match=r"h.dat"):
        list(opened(tmp_path, "h.dat").decompress())
    with pytest.raises(ValueError, match="not a valid CompressionType"):
        opened(tmp_path, "*").decompress("rar")


def test_samples_of_several_files():
    files = [("a/1.jpg", b"j"), ("a/1.cls", b"0"), ("a/2.jpg", b"k")]
    assert list(wrap(files).webdataset()) == [
        {"__key__": "a/1", ".jpg": b"j", ".cls": b"0"},
        {"__key__": "a/2", ".jpg": b"k"},
    ]


def test_records(tmp_path):
    records = [b"one", b"", b"three"]
    whole = b"".join(struct.pack("<QI", len(r), 0) + r + b"sums" for r in records)
    (tmp_path / "a.tfrecord").write_bytes(whole)
    assert list(opened(tmp_path, "a.tfrecord").load_from_tfrecord()) == records
    (tmp_path / "b.tfrecord").write_bytes(whole[:-2])
    with pytest.raises(RuntimeError, match="at record 2"):
        list(opened(tmp_path, "b.tfrecord").load_from_tfrecord())


@pytest.mark.parametrize("size", [2**63, 2**64 - 1, 2**45, 2**31])
def test_a_record_that_says_it_is_huge_takes_no_memory(size):
    data = struct.pack("<QI", size, 0) + b"x" * 100
    with pytest.raises(RuntimeError, match="at record 0"):
        list(wrap([("a", io.BytesIO(data))], deepcopy=False).load_from_tfrecord())


def test_a_zip_whose_members_lie_before_its_beginning_is_named():
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("a", b"data")
    data = bytearray(made.getvalue())
    end = data.rindex(b"PK\5\6")
    data[end + 16 : end + 20] = struct.pack("<I", len(data))  # where the list of members lies
    with pytest.raises(RuntimeError, match="zip archive was required in x"):
        list(wrap([("x", io.BytesIO(bytes(data)))], deepcopy=False).load_from_zip())


def test_a_compressed_stream_that_ends_in_its_head_is_named():
    source = wrap([("x", io.BytesIO(gzip.compress(b"")[:3]))], deepcopy=False)
    with pytest.raises(RuntimeError, match="tar archive was required in x"):
        list(source.load_from_tar(mode="r|*"))


def test_sums(tmp_path):
    good = hashlib.sha256(b"data").hexdigest()
    stream = io.BytesIO(b"data")
    ((_, same),) = wrap([("a", stream)], deepcopy=False).check_hash({"a": good})
    assert same.read() == b"data"
    assert list(wrap([("a", "data")]).check_hash({"a": hashlib.md5(b"data").hexdigest()}, "md5"))
    with pytest.raises(RuntimeError, match="does not match the expected hash"):
        list(wrap([("a", b"datA")]).check_hash({"a": good}))
    with pytest.raises(RuntimeError, match="Unspecified hash"):
        list(wrap([("b", b"data")]).check_hash({"a": good}))


def test_files_are_there_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "a.txt"
    assert list(wrap([("a", "text")]).save_to_disk(filepath_fn=lambda n: str(path))) == [str(path)]
    assert path.read_text() == "text"

    def pieces():
        yield b"first"
        raise OSError("the line is cut")

    with pytest.raises(OSError, match="cut"):
        list(wrap([("b", pieces())], deepcopy=False).save_to_disk("wb", lambda n: str(path)))
    assert path.read_text() == "text" and os.listdir(path.parent) == ["a.txt"]


def test_kept_on_disk(tmp_path):
    made = []

    def contents(name):
        made.append(name)
        return name, name.encode() * 3

    def place(name):
        return str(tmp_path / f"{name}.bin")

    def pipe(**settings):
        begun = wrap(["a", "b"]).on_disk_cache(filepath_fn=place, **settings)
        return begun.map(contents).end_caching(mode="wb", same_filepath_fn=True)

    assert list(pipe()) == list(pipe()) == [place("a"), place("b")] and made == ["a", "b"]
    assert (tmp_path / "b.bin").read_bytes() == b"bbb"
    (tmp_path / "a.bin").write_bytes(b"spoilt")
    sums = {place("a"): hashlib.sha256(b"aaa").hexdigest()}
    assert len(list(pipe(hash_dict=sums))) == 2 and made == ["a", "b", "a"]
    assert sorted(os.listdir(tmp_path)) == ["a.bin", "b.bin"]
    with pytest.raises(RuntimeError, match="end_caching"):
        list(wrap(["a"]).on_disk_cache(filepath_fn=place))
    with pytest.raises(RuntimeError, match="Expected `OnDiskCacheHolder`"):
        wrap(["a"]).end_caching()
    with pytest.raises(RuntimeError, match="was to write files"):
        begun = wrap(["c"]).on_disk_cache(filepath_fn=place)
        list(begun.map(contents).end_caching(filepath_fn=lambda n: str(tmp_path / "elsewhere")))


def test_a_file_that_another_process_makes_is_waited_for(tmp_path):
    place, claim = str(tmp_path / "a"), tmp_path / "a.promise"
    claim.write_text(str(os.getpid()))
    begun = wrap(["a"]).on_disk_cache(filepath_fn=lambda n: place)
    pipe = begun.map(lambda n: (place, b"x")).end_caching(timeout=0.05)
    with pytest.raises(TimeoutError, match="another process"):
        list(pipe)
    claim.write_text("999999999")  # nobody has this number
    assert list(pipe) == [place] and os.listdir(tmp_path) == ["a"]


class Answers(http.server.BaseHTTPRequestHandler):
    asked: list = []
    secrets: list = []

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.asked.append(self.path)
        self.secrets.append(self.headers.get("Authorization"))
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to/"))
            self.end_headers()
            return
        if self.path == "/late" and self.asked.count("/late") < 3 or self.path == "/500":
            self.send_error(500)
        elif self.path in ("/good", "/late", "/cut"):
            self.send_response(200)
            self.send_header("Content-Length", "6" if self.path != "/cut" else "99")
            self.end_headers()
            self.wfile.write(b"answer")
        else:
            self.send_error(404)


@pytest.fixture
def server():
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_address[1]}"
    running.shutdown()
    running.server_close()


def test_servers(server):
    def read(*names, **settings):
        urls = wrap([f"{server}/{name}" for name in names])
        return [s.read() for _, s in urls.read_from_http(**settings)]

    assert read("good") == [b"answer"] == read("late", retries=3)
    assert read("404", "good", skip_on_error=True) == [b"answer"]
    with pytest.raises(RuntimeError, match=r"Could not get the file at .*/404.*404"):
        read("404")
    with pytest.raises(RuntimeError, match="500"):
        read("500", retries=1)
    with pytest.raises(ConnectionError, match=r"whole of .*/cut"):
        read("cut")
    with pytest.raises(ValueError, match="http://"):
        list(wrap(["file:///etc/passwd"]).read_from_remote())


def test_a_redirection_takes_no_secret_to_another_server_and_leaves_not_the_web(server):
    other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    there = f"http://127.0.0.1:{other.server_address[1]}/good"

    def read(url):
        Answers.secrets.clear()
        pipe = wrap([url]).read_from_http(headers={"Authorization": "key"}, timeout=20)
        assert [s.read() for _, s in pipe] == [b"answer"]
        return list(Answers.secrets)

    try:
        assert read(f"{server}/good") == ["key"]
        assert read(f"{server}/to/{server}/good") == ["key", "key"]
        assert read(f"{server}/to/{there}") == ["key", None]
    finally:
        other.shutdown()
        other.server_close()
    for target in ("file:///etc/passwd", "ftp://127.0.0.1/x", f"{server}/to/x"):
        with pytest.raises(RuntimeError, match="Could not get"):
            list(wrap([f"{server}/to/{target}"]).read_from_http(timeout=20))


class Bucket:
    """What s3fs gives, of a bucket in memory."""

    contents = {"b/pre/a.txt": b"alpha", "b/prefix.txt": b"p", "b/other/c.txt": b"c"}

    def __init__(self, settings):
        self.settings = settings

    def invalidate_cache(self):
        pass

    def find(self, place, prefix=""):
        if place.split("/")[0] != "b":
            raise FileNotFoundError("no such bucket")
        begin = f"{place}/{prefix}"
        return [name for name in self.contents if name.startswith(begin)]

    def cat_file(self, path):
        if path == "b/cut":
            raise EOFError("3 of 99 bytes")  # no OSError, as aiohttp's are none
        if path not in self.contents:
            raise PermissionError("Forbidden")
        return self.contents[path]


@pytest.fixture
def buckets(monkeypatch):
    made = []

    def url_to_fs(address, **settings):
        made.append(settings)
        return Bucket(settings), address.removeprefix("s3://").rstrip("/")

    core = types.ModuleType("fsspec.core")
    core.url_to_fs = url_to_fs
    monkeypatch.setitem(sys.modules, "fsspec", types.ModuleType("fsspec"))
    monkeypatch.setitem(sys.modules, "fsspec.core", core)
    return made


def test_objects_of_s3(buckets):
    def listed(*prefixes):
        return list(wrap(prefixes).list_files_by_s3(region="us-east-1", endpoint_url="http://e"))

    assert listed("s3://b/pre/") == ["s3://b/pre/a.txt"]
    assert listed("s3://b/pre") == ["s3://b/pre/a.txt", "s3://b/prefix.txt"]
    assert len(listed("s3://b")) == len(listed("s3://b/")) == 3
    assert buckets[0]["client_kwargs"] == {"region_name": "us-east-1", "endpoint_url": "http://e"}
    loaded = wrap(["s3://b/pre/a.txt"]).load_files_by_s3(request_timeout_ms=500)
    assert [(a, s.read()) for a, s in loaded] == [("s3://b/pre/a.txt", b"alpha")]
    assert buckets[-1]["config_kwargs"] == {"read_timeout": 0.5, "connect_timeout": 0.5}
    for address, text in (("s3://b/x", "PermissionError: Forbidden"), ("s3://b/cut", "3 of 99")):
        with pytest.raises(RuntimeError, match=f"{address} could not be read.*{text}"):
            list(wrap([address]).load_files_by_s3())
    with pytest.raises(RuntimeError, match="no such bucket"):
        listed("s3://nobody/x")


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ModuleNotFoundError, match=r"(?s)fsspec.*pip install fsspec"):
        list(wrap(["s3://bucket/a"]).load_files_by_s3())
    with pytest.raises(ModuleNotFoundError, match="pip install pyarrow"):
        list(wrap(["a.parquet"]).load_parquet_as_df())
    with pytest.raises(ValueError, match="s3://"):
        list(wrap(["http://bucket/a"]).list_files_by_s3())
