"""S3 by s3fs, against a server of this machine: pages, prefixes, refusals, answers that end in the middle.

What needs `moto` and `s3fs` is defined where they are installed; pipes of a bucket in memory are in
`test_pipes_of_files.py`.
"""

import http.server
import importlib.util
import threading
import urllib.request

import pytest

from facula.utils.data.datapipes.iter import IterableWrapper

KEYS = {"key": "testing", "secret": "testing"}
INSTALLED = all(importlib.util.find_spec(name) for name in ("moto", "s3fs", "boto3", "flask"))


class Between(http.server.BaseHTTPRequestHandler):
    """Passes requests on, but for those of a path with a rule: a status, "cut", or times to fail first."""

    rules: dict = {}
    target = ""
    asked: list = []

    def _serve(self):
        self.asked.append(self.path)
        for part, rule in self.rules.items():
            if part in self.path:
                if isinstance(rule, list):
                    if not rule:
                        continue
                    rule = rule.pop()
                if rule == "cut":
                    self.send_response(200)
                    self.send_header("Content-Length", "1000")
                    self.end_headers()
                    self.wfile.write(b"half")
                    self.wfile.flush()
                    self.connection.close()
                    return
                self.send_response(rule)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
        headers = {k: v for k, v in self.headers.items() if k.lower() != "connection"}
        request = urllib.request.Request(
            self.target + self.path, headers=headers, method=self.command
        )
        try:
            with urllib.request.urlopen(request) as answer:
                body, status, given = answer.read(), answer.status, answer.headers
        except urllib.error.HTTPError as error:
            body, status, given = error.read(), error.code, error.headers
        self.send_response(status)
        for name, value in given.items():
            if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", given.get("Content-Length", str(len(body))))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_HEAD = _serve

    def log_message(self, *args):
        pass


def test_an_address_of_another_kind_is_refused():
    for pipe in ("list_files_by_s3", "load_files_by_s3"):
        with pytest.raises(ValueError, match="begins with s3://"):
            list(getattr(IterableWrapper(["http://bucket/a"]), pipe)())


if INSTALLED:
    import boto3
    from moto.server import ThreadedMotoServer

    @pytest.fixture(scope="module")
    def store():
        server = ThreadedMotoServer(port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        url = f"http://127.0.0.1:{port}"
        client = boto3.client(
            "s3",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )
        client.create_bucket(Bucket="data")
        client.create_bucket(Bucket="empty")
        for i in range(1205):  # more than one page of a thousand
            client.put_object(Bucket="data", Key=f"many/{i:04}.txt", Body=b"%d" % i)
        for name in ("a.txt", "sub/b c.txt", "sub/ü+%.txt", "zero"):
            client.put_object(
                Bucket="data", Key=f"few/{name}", Body=name.encode() * (name != "zero")
            )
        yield url
        server.stop()

    @pytest.fixture
    def between(store):
        Between.target, Between.rules, Between.asked = store, {}, []
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Between)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        server.server_close()

    def pipe(name, address, url, **more):
        step = getattr(IterableWrapper([address]), name)
        return step(region="us-east-1", endpoint_url=url, **KEYS, **more)

    @pytest.mark.parametrize(
        "rule, kind",
        [(403, PermissionError), (404, FileNotFoundError), (500, OSError), ("cut", Exception)],
    )
    def test_other_ways_to_the_same_objects_name_the_address(between, rule, kind, monkeypatch):
        import s3fs

        monkeypatch.setattr(s3fs.core.S3FileSystem, "retries", 1)
        settings = {
            **KEYS,
            "client_kwargs": {"region_name": "us-east-1", "endpoint_url": between},
            "config_kwargs": {"retries": {"max_attempts": 1}},
        }
        address = "s3://data/few/a.txt"

        def taken():
            files = IterableWrapper([address]).open_files_by_fsspec(mode="rb", **settings)
            return [line for _, line in files.readlines(decode=True)]

        assert taken() == ["a.txt"]
        words = IterableWrapper([address]).open_files_by_fsspec(mode="r", **settings)
        assert [stream.read() for _, stream in words] == ["a.txt"]
        folder = IterableWrapper(["s3://data/few/"]).list_files_by_fsspec
        assert len(list(folder(**settings))) == 3
        Between.rules = {"data": rule}
        with pytest.raises(kind, match=rf"\[open_files_by_fsspec\] {address} could not be read"):
            taken()
        with pytest.raises(
            kind, match=r"^\[list_files_by_fsspec\] s3://data/few/ could not be read"
        ):
            list(folder(**settings))
        with pytest.raises(Exception, match=r"^\[save_by_fsspec\] s3://data/few/new could not be"):
            list(IterableWrapper([("s3://data/few/new", b"x")]).save_by_fsspec("wb", **settings))

    def test_all_pages_of_a_list_come(store):
        names = list(pipe("list_files_by_s3", "s3://data/many/", store))
        assert names == [f"s3://data/many/{i:04}.txt" for i in range(1205)]
        assert len(list(pipe("list_files_by_s3", "s3://data/many/12", store))) == 5
        assert list(pipe("list_files_by_s3", "s3://empty", store)) == []
        assert list(pipe("list_files_by_s3", "s3://data/nothing", store)) == []

    def test_objects_with_odd_names_and_without_bytes(store):
        names = list(pipe("list_files_by_s3", "s3://data/few/", store))
        held = {}
        for name in names:
            for address, stream in pipe("load_files_by_s3", name, store):
                held[address.rpartition("few/")[2]] = stream.read().decode()
        assert held == {
            "a.txt": "a.txt",
            "sub/b c.txt": "sub/b c.txt",
            "sub/ü+%.txt": "sub/ü+%.txt",
            "zero": "",
        }

    @pytest.mark.parametrize("rule", [403, 404, "cut"])
    def test_what_an_object_refuses_names_its_address(between, rule):
        Between.rules = {"a.txt": rule}
        with pytest.raises(RuntimeError, match=r"s3://data/few/a\.txt could not be read"):
            list(pipe("load_files_by_s3", "s3://data/few/a.txt", between, request_timeout_ms=5000))

    @pytest.mark.parametrize("rule", [403, 404])
    def test_what_a_list_refuses_names_its_address(between, rule):
        Between.rules = {"list-type": rule, "prefix": rule}
        with pytest.raises(RuntimeError, match="s3://data/few/ could not be read"):
            list(pipe("list_files_by_s3", "s3://data/few/", between, request_timeout_ms=5000))

    def test_a_server_that_recovers_is_asked_again(between):
        Between.rules = {"few/a.txt": [500, 503]}
        loaded = pipe("load_files_by_s3", "s3://data/few/a.txt", between)
        assert [stream.read() for _, stream in loaded] == [b"a.txt"]
        assert sum("few/a.txt" in path for path in Between.asked) >= 3

    def test_buckets_and_objects_that_do_not_exist(store):
        for name, address in (
            ("load_files_by_s3", "s3://data/none"),
            ("load_files_by_s3", "s3://nobody/none"),
            ("list_files_by_s3", "s3://nobody/"),
        ):
            with pytest.raises(RuntimeError, match=f"{address} could not be read"):
                list(pipe(name, address, store))
