"""Packages of code, objects and files: against archives read by `zipfile`, and what Python itself does."""

import inspect
import io
import os
import pickletools
import platform
import sys
import textwrap
import types
import zipfile

import pytest

import facula
from facula import package
from facula.package import (
    EmptyMatchError,
    GlobGroup,
    PackageExporter,
    PackageImporter,
    PackagingError,
    is_from_package,
)

SOURCE = """
import math
from . import helper

class Model:
    def __init__(self, weight):
        self.weight = weight

    def __call__(self, x):
        return helper.scaled(x @ self.weight, math.sqrt(4))
"""
HELPER = "def scaled(x, by):\n    return x * by\n"


@pytest.fixture
def models(tmp_path, monkeypatch):
    """An installed package of two modules."""
    folder = tmp_path / "installed" / "pk_models"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("name = 'models'\n")
    (folder / "model.py").write_text(SOURCE)
    (folder / "helper.py").write_text(HELPER)
    monkeypatch.syspath_prepend(str(folder.parent))
    yield __import__("pk_models.model").model
    for name in [n for n in sys.modules if n.partition(".")[0] == "pk_models"]:
        del sys.modules[name]


def packed(fill, **options):
    stream = io.BytesIO()
    with PackageExporter(stream, **options) as exporter:
        fill(exporter)
    stream.seek(0)
    return stream


def test_a_model_comes_back_with_its_code(models):
    model = models.Model(facula.arange(6.0).reshape(2, 3))

    def fill(exporter):
        exporter.intern("pk_models.**")
        exporter.save_pickle("model", "model.pkl", model)

    importer = PackageImporter(packed(fill))
    loaded = importer.load_pickle("model", "model.pkl")
    assert loaded(facula.ones(1, 2)).tolist() == [[6, 10, 14]]
    kind = type(loaded)
    assert kind is not models.Model and is_from_package(loaded) and not is_from_package(model)
    assert kind is importer.import_module("pk_models.model").Model
    assert kind.__module__ == importer.id() + ".pk_models.model" not in sys.modules
    assert inspect.getsource(kind).strip() == inspect.getsource(models.Model).strip()
    assert importer.import_module("math") is __import__("math")
    with pytest.raises(ModuleNotFoundError, match="one of its extern modules"):
        importer.import_module("json")
    again = PackageImporter(packed(fill)).load_pickle("model", "model.pkl")
    assert type(again) is not kind


def test_what_stands_in_the_archive(models, tmp_path):
    path = tmp_path / "kept.pt"
    both = facula.arange(4.0)
    with PackageExporter(path) as exporter:
        exporter.intern("pk_models.**")
        exporter.save_pickle("a.b", "x.pkl", [models.Model(both), both[1:]])
        exporter.save_text("a", "t.txt", "grüße")
        exporter.save_binary("a", "raw", b"\0\1")
        exporter.save_source_string("own.part", "import os\n")
    with zipfile.ZipFile(path) as archive:
        found = {n.partition("/")[2]: archive.read(n) for n in archive.namelist()}
    assert {n.partition("/")[0] for n in archive.namelist()} == {"kept"}
    assert found["pk_models/model.py"].decode() == SOURCE
    assert found["a/t.txt"] == "grüße".encode() and found["a/raw"] == b"\0\1"
    assert found[".data/0.storage"] == both.numpy().tobytes() and ".data/1.storage" not in found
    assert found[".data/python_version"].decode() == platform.python_version()
    externs = found[".data/extern_modules"].decode().split()
    assert {"torch._utils", "math", "os"} <= set(externs)
    names = {o[1] for o in pickletools.genops(found["a/b/x.pkl"]) if o[0].name == "GLOBAL"}
    assert {"torch._utils _rebuild_tensor_v2", "torch FloatStorage"} <= names
    importer = PackageImporter(path)
    assert (
        importer.load_text("a", "t.txt") == "grüße" and importer.load_binary("a", "raw") == b"\0\1"
    )
    model, part = importer.load_pickle("a.b", "x.pkl")
    part.zero_()
    assert model.weight.tolist() == [0, 0, 0, 0]  # one storage, as before
    tree = importer.file_structure(include="**/*.txt")
    assert tree.has_file("a/t.txt") and not tree.has_file("a/raw") and "t.txt" in str(tree)
    assert importer.get_source("own.part") == "import os\n"


def test_opening_runs_nothing(tmp_path):
    mark = tmp_path / "ran"
    source = f"open({str(mark)!r}, 'w').close()\n"
    stream = packed(lambda e: e.save_source_string("loud", source))
    importer = PackageImporter(stream)
    importer.file_structure()
    importer.get_source("loud")
    assert not mark.exists()
    importer.import_module("loud")
    assert mark.exists()


def test_modules_nobody_decided_about():
    with pytest.raises(PackagingError, match="did not match against any action pattern") as caught:
        packed(lambda e: e.save_source_string("m", "import numpy.linalg, yaml"), debug=True)
    assert "numpy.linalg" in str(caught.value) and "m -> yaml" in str(caught.value)
    chains = package.analyze.find_first_use_of_broken_modules(caught.value)
    assert chains["yaml"] == ["m", "yaml"]


def test_extern_mock_and_deny():
    def fill(exporter):
        exporter.extern("numpy.**")
        exporter.mock(["yaml", "absent.*"])
        exporter.save_source_string(
            "m", "import numpy.linalg\nimport yaml\nfrom absent.part import Thing"
        )
        assert exporter.externed_modules() == ["numpy.linalg"]
        assert exporter.mocked_modules() == ["yaml", "absent.part"]
        assert (
            exporter.get_rdeps("yaml") == ["m"]
            and '"m" -> "yaml"' in exporter.dependency_graph_string()
        )

    module = PackageImporter(packed(fill)).import_module("m")
    assert module.numpy.linalg is __import__("numpy.linalg").linalg
    for use in (lambda: module.yaml.load("x"), lambda: module.Thing(), lambda: module.Thing.part):
        with pytest.raises(NotImplementedError, match="was mocked out"):
            use()

    def denied(exporter):
        exporter.deny("yaml")
        exporter.save_source_string("m", "import yaml")

    with pytest.raises(PackagingError, match="denied"):
        packed(denied)
    with pytest.raises(EmptyMatchError, match="did not match any modules"):
        packed(lambda e: e.extern("numpy.**", allow_empty=False))


def test_mocked_modules_of_pickled_objects_are_refused(models):
    def fill(exporter):
        exporter.mock("pk_models.**")
        exporter.save_pickle("m", "m.pkl", models.Model(1))

    with pytest.raises(PackagingError, match="still being used"):
        packed(fill)


def test_imports_of_every_kind():
    sources = {
        "top": "value = 1",
        "top.one": "from . import two\nfrom .two import value as v\nimport top.deep.er as e",
        "top.two": "from top import value as up\nvalue = up + 1",
        "top.deep.er": "from ..two import *\nhere = __name__\n",
    }

    def fill(exporter):
        for name, source in sources.items():
            exporter.save_source_string(name, source, is_package=name == "top")

    importer = PackageImporter(packed(fill))
    one = importer.import_module("top.one")
    assert one.v == 2 and one.e.value == 2 and one.two is importer.import_module("top.two")
    assert one.e.here == importer.id() + ".top.deep.er"
    assert importer.import_module(".two", package="top") is one.two
    with pytest.raises(PackagingError, match="beyond top-level package"):
        packed(lambda e: e.save_source_string("a.b", "from ... import c"))


def test_resources_and_the_importer_inside():
    source = textwrap.dedent("""
        import importlib.resources
        import torch_package_importer
        import words
        read = importlib.resources.files(words).joinpath("w.txt").read_text()
        same = torch_package_importer.load_text("words", "w.txt")
    """)

    def fill(exporter):
        exporter.save_source_string("reader", source)
        exporter.save_text("words", "w.txt", "hello")

    importer = PackageImporter(packed(fill))
    module = importer.import_module("reader")
    assert module.read == module.same == "hello"
    reader = importer.get_resource_reader("words")
    assert list(reader.contents()) == ["w.txt"] and reader.is_resource("w.txt")
    assert importer.get_resource_reader("none") is None


def test_a_package_of_an_importers_module(models):
    def fill(exporter):
        exporter.intern("**")
        exporter.save_pickle("m", "m.pkl", models.Model(facula.ones(2, 2)))

    first = PackageImporter(packed(fill))
    loaded = first.load_pickle("m", "m.pkl")

    def refill(exporter):
        exporter.intern("**")
        exporter.save_pickle("m", "m.pkl", loaded)

    second = PackageImporter(packed(refill, importer=(first, package.sys_importer)))
    assert second.load_pickle("m", "m.pkl")(facula.ones(2)).tolist() == [4, 4]
    with pytest.raises(Exception, match="the object that is imported as pk_models.model.Model"):
        packed(refill)


def test_graph_modules():
    class Module(facula.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = facula.nn.Linear(3, 2)

        def forward(self, x):
            return facula.relu(self.layer(x)) + 1

    module = Module()
    traced = facula.fx.symbolic_trace(module)
    loaded = PackageImporter(packed(lambda e: e.save_pickle("g", "g.pkl", traced))).load_pickle(
        "g", "g.pkl"
    )
    x = facula.randn(4, 3)
    assert isinstance(loaded, facula.fx.GraphModule) and facula.equal(loaded(x), module(x))


def test_graph_modules_of_packaged_functions(models):
    graph = facula.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(models.helper.scaled, (x, 3)))
    module = facula.fx.GraphModule(facula.nn.Module(), graph)

    def fill(exporter):
        exporter.intern("pk_models.**")
        exporter.save_pickle("g", "g.pkl", module)

    importer = PackageImporter(packed(fill))
    assert importer.load_pickle("g", "g.pkl")(facula.ones(2)).tolist() == [3, 3]
    assert importer.import_module("pk_models.helper") is not models.helper


def test_map_location_and_folders(tmp_path):
    path = tmp_path / "p.pt"
    with PackageExporter(path) as exporter:
        exporter.save_pickle("t", "t.pkl", facula.ones(2))
        exporter.save_source_string("m", "x = 3")
    assert PackageImporter(path).load_pickle("t", "t.pkl", map_location="meta").is_meta
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "open")
    importer = PackageImporter(tmp_path / "open" / "p")
    assert importer.import_module("m").x == 3 and importer.load_pickle("t", "t.pkl").tolist() == [
        1,
        1,
    ]
    with pytest.raises(RuntimeError, match="inside of the package"):
        importer.load_text("..", "p.pt")


def test_a_failed_package_leaves_the_old_file(tmp_path):
    path = tmp_path / "p.pt"
    path.write_bytes(b"old")
    with pytest.raises(PackagingError), PackageExporter(path) as exporter:
        exporter.save_source_string("m", "import yaml")
    with pytest.raises(ZeroDivisionError), PackageExporter(path) as exporter:
        exporter.save_text("a", "b", str(1 // 0))
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["p.pt"]


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/x", "a//b", "a\\b"])
def test_names_that_lead_out_are_refused(name):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("p/.data/version", "6\n")
        archive.writestr(f"p/{name}", "evil")
    with pytest.raises(RuntimeError, match="inside of the package"):
        PackageImporter(stream)


def test_damage_is_named():
    good = packed(lambda e: e.save_pickle("t", "t.pkl", facula.ones(100))).getvalue()
    with pytest.raises(RuntimeError):
        PackageImporter(io.BytesIO(good[: len(good) // 2]))
    at = good.index(facula.ones(100).numpy().tobytes())
    bad = bytearray(good)
    bad[at] ^= 1
    with pytest.raises(RuntimeError, match="checksum"):
        PackageImporter(io.BytesIO(bytes(bad))).load_pickle("t", "t.pkl")
    with pytest.raises(RuntimeError, match="package was required"):
        stream = io.BytesIO()
        facula.save(facula.ones(1), stream)
        with zipfile.ZipFile(stream, "a") as archive:
            archive.writestr("other/x", "")
        PackageImporter(stream)


def test_module_allowed_refuses():
    stream = packed(lambda e: e.save_source_string("m", "import subprocess"))
    with pytest.raises(ImportError, match="subprocess"):
        PackageImporter(stream, module_allowed=lambda name: name != "subprocess")


def test_hooks_hear_of_modules():
    heard = []

    def fill(exporter):
        exporter.extern("numpy")
        exporter.mock("yaml")
        exporter.register_extern_hook(lambda e, name: heard.append(("extern", name)))
        gone = exporter.register_mock_hook(lambda e, name: heard.append(("no", name)))
        gone.remove()
        exporter.register_mock_hook(lambda e, name: heard.append(("mock", name)))
        exporter.register_intern_hook(lambda e, name: heard.append(("intern", name)))
        exporter.save_source_string("m", "import numpy, yaml")

    packed(fill)
    assert heard == [("intern", "m"), ("extern", "numpy"), ("mock", "yaml")]


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a.*", ["a.b"], ["a", "a.b.c"]), ("a.**", ["a", "a.b", "a.b.c"], ["ab", "b.a"]),
        ("**.c", ["c", "a.c", "a.b.c"], ["c.d"]), ("a*.b", ["a.b", "axy.b"], ["a.b.b"]),
        ("a.**.z", ["a.z", "a.b.c.z"], ["a.b"]), ("**", ["a", "a.b"], []),
    ],
)  # fmt: skip
def test_patterns(pattern, yes, no):
    group = GlobGroup(pattern)
    assert all(map(group.matches, yes)) and not any(map(group.matches, no))
    assert not GlobGroup(pattern, exclude=yes).matches(yes[0])


def test_a_pattern_of_half_a_part():
    with pytest.raises(ValueError, match="entire path segment"):
        GlobGroup("a**")


def test_trace_dependencies():
    inner = types.ModuleType("pk_traced")
    exec("def f(x):\n    return x", vars(inner))
    assert "pk_traced" in package.analyze.trace_dependencies(inner.f, [(1,)])


def test_modules_with_ordered_dictionaries_of_older_versions():
    from collections import OrderedDict

    layer = facula.nn.Linear(2, 2, bias=False)
    state = dict(layer.__dict__, _parameters=OrderedDict(layer._parameters))
    made = facula.nn.Linear.__new__(facula.nn.Linear)
    made.__setstate__(state)
    assert made.bias is None and made.weight is layer.weight
