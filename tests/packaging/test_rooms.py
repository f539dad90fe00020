"""The rooms: folders whose modules are modules of the root package, each one object under each name."""

import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import facula

ROOT = Path(__file__).resolve().parents[2]
ROOMS = [Path(folder) for folder in facula.__path__[1:]]
MODULES = sorted(
    (room.name, ".".join(path.relative_to(room).with_suffix("").parts).removesuffix(".__init__"))
    for room in ROOMS
    for path in room.rglob("*.py")
    if path.parent != room or path.name != "__init__.py"
    if "site" not in path.parts
)


def run(code):
    """What a new interpreter prints."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.mark.parametrize(("room", "name"), MODULES)
def test_a_module_in_a_room_is_a_module_of_the_root(room, name):
    public, inside = f"facula.{name}", f"facula.{room}.{name}"
    module = importlib.import_module(public)
    assert importlib.import_module(inside) is module
    assert sys.modules[public] is module and sys.modules[inside] is module
    if module.__name__ == public:  # `_subclasses.fake_tensor` is another module itself
        assert module.__spec__.name == public
        assert module.__spec__.parent == (
            public if hasattr(module, "__path__") else public.rpartition(".")[0]
        )
        assert Path(module.__file__).is_relative_to(Path(facula.__file__).parent / room)


def test_the_name_in_the_room_may_come_first():
    out = run(
        "from facula.namespaces.storage import TypedStorage as a\n"
        "import facula.torch_api.cuda.amp as amp, sys\n"
        "from facula.storage import TypedStorage as b\n"
        "print(a is b, a.__module__, amp is sys.modules['facula.cuda.amp'], amp.__name__)"
    )
    assert out.split() == ["True", "facula.storage", "True", "facula.cuda.amp"]


def test_an_import_by_either_name_binds_no_other_attribute():
    """`multiprocessing.spawn` is a function, and a module has its name; so it is with some others."""
    out = run(
        "import importlib, facula\n"
        f"for room, name in {[pair for pair in MODULES if '.' in pair[1]]!r}:\n"
        "    package, _, child = name.rpartition('.')\n"
        "    parent = importlib.import_module(f'facula.{package}')\n"
        "    before = vars(parent).get(child)\n"
        "    for way in (f'facula.{room}.{name}', f'facula.{name}'):\n"
        "        importlib.import_module(way)\n"
        "        if before is not None and vars(parent)[child] is not before: print(way)\n"
        "import facula.namespaces.multiprocessing.spawn\n"
        "print(facula.multiprocessing.spawn.__name__, facula._higher_order_ops.cond.__name__)"
    )
    assert out.split() == ["spawn", "cond"]


def test_a_module_of_pytorchs_name_leaves_the_function_of_that_name():
    out = run(
        "import facula, importlib\n"
        "module = importlib.import_module('facula.nn.parallel.data_parallel')\n"
        "print(facula.nn.parallel.data_parallel.__name__, module.data_parallel.__name__)\n"
        "importlib.import_module('facula.nn.parallel.scatter_gather')\n"
        "print(facula.nn.parallel.scatter_gather.__name__, type(facula.nn.parallel).__name__)"
    )
    assert out.split() == ["data_parallel", "data_parallel", "facula.nn.parallel.copies", "module"]


def test_a_plain_import_needs_no_second_names():
    out = run(
        "import facula, sys\n"
        "print([n for n in sys.modules if n.startswith(('facula.namespaces', 'facula.torch_api'))])"
    )
    assert out.strip() == "[]"


def test_modules_are_listed_under_their_public_names():
    listed = {module.name for module in pkgutil.iter_modules(facula.__path__, "facula.")}
    assert {f"facula.{name}" for _, name in MODULES if "." not in name} <= listed
    assert {"facula.nn", "facula.namespaces", "facula.torch_api"} <= listed


def test_a_module_in_a_room_is_loaded_again():
    out = run(
        "import facula, importlib, sys\n"
        "from facula.namespaces import legacy\n"
        "again = importlib.reload(facula.legacy)\n"
        "print(again is legacy is sys.modules['facula.legacy'], again.__spec__.name)"
    )
    assert out.split() == ["True", "facula.legacy"]


def test_under_torch():
    out = run(
        "import facula; facula.install_as_torch()\n"
        "import torch, torch.linalg, torch.cuda.amp, sys, importlib, pickle\n"
        "from facula.namespaces import linalg\n"
        "print(torch.linalg is linalg is sys.modules['facula.linalg'], torch.linalg.__name__)\n"
        "print(importlib.import_module('torch.storage').TypedStorage.__module__)\n"
        "print(pickle.loads(pickle.dumps(torch.overrides.is_tensor_like)) is torch.overrides.is_tensor_like)"
    )
    assert out.split() == ["True", "torch.linalg", "torch.storage", "True"]


@pytest.mark.parametrize("room", [room.name for room in ROOMS])
def test_what_is_in_no_room_is_not_found(room):
    with pytest.raises(ModuleNotFoundError, match=rf"facula\.{room}\.nothing"):
        importlib.import_module(f"facula.{room}.nothing")


def test_no_module_stands_twice():
    folders = [Path(facula.__file__).parent, *ROOMS]
    names = [
        path.stem
        for folder in folders
        for path in folder.iterdir()
        if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").exists()
    ]
    assert len(names) == len(set(names))


def test_few_entries_at_the_top():
    shown = subprocess.run(
        ["git", "ls-files", "--", str(Path(facula.__file__).parent)],
        capture_output=True, text=True, cwd=Path(facula.__file__).parent,
    )  # fmt: skip
    folder = Path(facula.__file__).parent
    entries = {line.split("/")[0] for line in shown.stdout.splitlines()} or {
        path.name
        for path in folder.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert len(entries) <= 31, sorted(entries)


def rows_of_the_map():
    """(layer, packages) of the table in docs/architecture.md."""
    text = (ROOT / "docs" / "architecture.md").read_text().partition("## The map")[2]
    for layer, packages in re.findall(r"^\| (\d+) \| (.+?) \|", text, re.M):
        yield int(layer), re.findall(r"`(\w+)`", packages)


def test_the_map_names_the_folders():
    named = [package for _, packages in rows_of_the_map() for package in packages]
    assert len(named) == len(set(named))
    folder = Path(facula.__file__).parent
    assert set(named) == {p.name for p in folder.iterdir() if (p / "__init__.py").exists()}


def test_the_map_has_the_layers_that_are_checked():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    checked = [set(re.findall(r"\w+", layer)) for layer in reversed(contract["layers"])]
    drawn: dict[int, set[str]] = {}
    for layer, packages in rows_of_the_map():
        drawn.setdefault(layer, set()).update(packages)
    assert [drawn[layer] for layer in sorted(drawn)] == [x for x in checked if x != {"__main__"}]


def test_the_folders_of_the_lower_packages_are_those_of_the_map():
    text = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", text.partition("| package | folders |")[2], re.M)
    for package, words in rows[:5]:
        folders = {
            path.name
            for path in (ROOT / "src" / "facula" / package).glob("*/")
            if path.is_dir() and path.name != "__pycache__"
        }
        named = set(re.findall(r"`(\w+)`", words))
        inner = {
            path.name
            for path in (ROOT / "src" / "facula" / package).glob("*/*/")
            if path.is_dir() and path.name != "__pycache__"
        }
        assert folders <= named <= folders | inner, package
    assert [package for package, _ in rows[:5]] == ["core", "ops", "capture", "lower", "codegen"]
