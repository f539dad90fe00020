"""The layers that import-linter cannot see: names that are reached through the root package.

`import facula` is no import of what lies behind it, since the root looks names up on first use. So what
a package says of `facula.name` is checked here: the name's home must not lie above the package.
"""

import ast
import tomllib
from pathlib import Path

import pytest

import facula
from facula import core
from facula.ops.table.registry import PLACES
from facula.public import NAMES, SUBMODULES

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "facula"
#: the folders whose modules are modules of the root package
ROOMS = [Path(folder) for folder in facula.__path__[1:]]
#: methods that hand over to a package above, which is loaded when they are called
CALLS_UP = {
    ("nn", "compile"),  # Module.compile
    ("nn", "distributed"),  # SyncBatchNorm
    ("nn", "accelerator"),  # DataParallel's devices
    ("data", "distributed"),  # DistributedSampler
    ("data", "cuda"),  # the step `pin_memory`
}


def layers():
    """The height of each part of the package, by name."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    heights = {}
    for height, layer in enumerate(reversed(contract["layers"])):
        for name in layer.replace("|", ":").split(":"):
            heights[name.strip(" ()")] = height
    return heights


HEIGHTS = layers()


def home_of(name):
    """The part of the package in which a public name lives."""
    if name in PLACES[""]:
        return "ops"
    if name in NAMES:
        name = NAMES[name].split(".")[1]
    for room in ROOMS:
        if (room / f"{name}.py").exists() or (room / name).is_dir():
            return room.name
    if name in SUBMODULES or name in HEIGHTS:
        return name
    assert hasattr(core, name), name
    return "core"


def names_of_the_root(path):
    """Each `name` of `facula.name` in a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "facula":
                yield node.attr


def test_every_part_has_a_layer():
    parts = {p.stem for p in SOURCE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert sorted(parts - {"__init__"}) == sorted(parts & set(HEIGHTS))


@pytest.mark.parametrize("part", sorted(p.name for p in SOURCE.iterdir() if p.name in HEIGHTS))
def test_the_root_hides_no_way_up(part):
    up = set()
    for path in (SOURCE / part).rglob("*.py"):
        for name in names_of_the_root(path):
            if name.startswith("__"):
                continue
            if HEIGHTS[home_of(name)] > HEIGHTS[part]:
                up.add((part, name))
    assert up <= CALLS_UP


def test_no_exception_is_out_of_use():
    used = {
        (part, name)
        for part in {part for part, _ in CALLS_UP}
        for path in (SOURCE / part).rglob("*.py")
        for name in names_of_the_root(path)
    }
    assert CALLS_UP <= used


def test_no_helper_of_the_core_is_seen_from_the_root():

    own = {n for n in vars(core) if not n.startswith("_")} - core.PUBLIC
    shown = {
        n for n in own & set(dir(facula)) if getattr(facula, n, None) is getattr(core, n, None)
    }
    assert not shown - set(PLACES[""]) - set(NAMES)
    assert all(getattr(facula, n) is getattr(core, n) for n in core.PUBLIC - set(PLACES[""]))
    for name in ("foreign_buffer", "take_history", "set_type_attribute", "kernel", "BACKENDS"):
        assert not hasattr(facula, name)
