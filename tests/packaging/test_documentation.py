"""The pages of the documentation: what they show runs, what they name is there."""

import ast
import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from facula.core import config
from facula.ops.expr import rows
from facula.ops.sparse_layouts import rules as sparse_rules
from facula.ops.table import registry

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
PAGES += sorted((DOCS / "tutorials").glob("*.md"))
TEXTS = {page.relative_to(ROOT).as_posix(): page.read_text() for page in PAGES}
FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```", re.S | re.M)
#: what a page takes for granted: its reader has these already
GIVEN = {
    "docs/adding_an_operator.md": "import numpy",
    "docs/architecture.md": (
        "import facula\n"
        "tensors = tuple(facula.empty(2, 3, dtype=d) for d in (facula.float32, facula.int64))\n"
        "tensors += (facula.rand(2, 3),)\nints, scalars, rows = (2, 3, 0), (), 2\n"
    ),
    "docs/distributed.md": (
        "import os\nfrom facula import nn\n"
        "model = nn.Linear(4, 3)\nos.environ.update(RANK='0', WORLD_SIZE='1')\n"
    ),
    "docs/export.md": "import facula\nmodel, x = facula.nn.Linear(4, 3), facula.ones(8, 4)",
    "docs/files.md": "import facula\nw = facula.ones(3)",
}


def blocks(page, language):
    """The fenced blocks of a page, with the words behind the language."""
    found = FENCE.findall(TEXTS[page])
    return [(words.strip(), text) for kind, words, text in found if kind == language]


def sessions(page):
    return "".join(text for _, text in blocks(page, "python") if text.startswith(">>>"))


def programs(page):
    return [text for _, text in blocks(page, "python") if not text.startswith(">>>")]


@pytest.mark.parametrize("page", [page for page in TEXTS if sessions(page)])
def test_sessions_run(page):
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    runner.run(parser.get_doctest(TEXTS[page], {}, page, page, 0))
    assert runner.tries >= 8 and runner.failures == 0


@pytest.mark.parametrize("page", [page for page in TEXTS if programs(page)])
def test_programs_run(page, tmp_path):
    """All blocks of a page, one after the other; a sketch leaves things out and is only read."""
    runs = [GIVEN.get(page, "")]
    for words, text in blocks(page, "python"):
        if text.startswith(">>>"):
            continue
        ast.parse(text)
        assert words in ("", "sketch", "raises")
        if not words:
            runs.append(text)
        elif words == "raises":
            body = "".join(f"    {line}\n" for line in text.splitlines())
            runs.append(
                f"try:\n{body}except Exception:\n    pass\nelse:\n    raise SystemExit(1)\n"
            )
    path = tmp_path / "page.py"
    path.write_text("\n".join(runs))
    command = [sys.executable, "-W", "error", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_quoted_operator_is_the_real_one():
    """README quotes a definition as it stands."""
    (quoted,) = (text for words, text in blocks("README.md", "python") if words == "sketch")
    assert quoted in (ROOT / "src/facula/ops/pointwise/activation.py").read_text()


@pytest.mark.parametrize("page", TEXTS)
def test_decorators_exist(page):
    for name in re.findall(r"`@(\w+)`", TEXTS[page]):
        assert any(hasattr(module, name) for module in (registry, rows, sparse_rules)), name


@pytest.mark.parametrize("page", TEXTS)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", FENCE.sub("", TEXTS[page])):
        assert ((ROOT / page).parent / target).exists(), target


@pytest.mark.parametrize("page", TEXTS)
def test_commands_exist(page):
    rules = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    for name in re.findall(r"(?:^|`)make ([\w-]+)", TEXTS[page], re.M):
        assert name in rules
    for path in re.findall(r"(?:tools|examples|benchmarks|tests|src|\.ci)/[\w./]+\w", TEXTS[page]):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", TEXTS)
def test_files_exist(page):
    """A file is named by the end of its path."""
    folders = [ROOT / name for name in ("src", "tests", "tools", "examples", "benchmarks")]
    present = ["/" + path.as_posix() for folder in folders for path in folder.rglob("*.*")]
    for name in re.findall(r"`([\w/]+\.(?:py|pxi|h))`", TEXTS[page]):
        assert any(path.endswith("/" + name) for path in present), name


def variables_read():
    """Every environment variable that the source names where it looks into the environment."""
    found = set()
    for path in [*(ROOT / "src").rglob("*.py"), ROOT / "setup.py"]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
                ("environ.get", "getenv")
            ):
                found.update(a.value for a in node.args[:1] if isinstance(a, ast.Constant))
            elif isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("environ"):
                found.update([node.slice.value] if isinstance(node.slice, ast.Constant) else [])
    return found | {setting.variable for setting in config.SETTINGS.values()}


def test_every_setting_is_documented():
    text, read = TEXTS["docs/settings.md"], variables_read()
    assert {"FACULA_TRACE", "FACULA_BUILDING", "FACULA_BUILD_JOBS"} <= read
    assert sorted(name for name in read if f"`{name}`" not in text) == []
    told = set(re.findall(r"`(FACULA_\w+)`", text))
    assert told == {name for name in read if name.startswith("FACULA_")}
    assert len(config.describe().splitlines()) == len(config.SETTINGS)


def test_every_page_is_listed():
    assert [p for p in TEXTS if f"({p})" not in TEXTS["README.md"] and p != "README.md"] == []


def test_every_figure_is_explained():
    text = TEXTS["docs/benchmarks.md"]
    table = re.search(r"<!-- bench: begin -->\n(.*)<!-- bench: end -->", TEXTS["README.md"], re.S)
    rows = [line.split(" | ")[0] for line in table[1].splitlines()[2:]]
    assert len(rows) >= 12
    assert [row for row in rows if f"\n{row} | " not in text] == []
    programs = [p.name for p in (ROOT / "benchmarks").glob("*.py")]
    assert [name for name in programs if f"`benchmarks/{name}`" not in text] == []


def test_no_machine_is_named():
    for page, text in TEXTS.items():
        assert not re.search(r"(?<![\w.])/(?:home|work|tmp|opt)/", text), page
    assert os.sep == "/"


def test_the_glossary_is_short_and_in_order():
    rows = (ROOT / "docs" / "glossary.md").read_text().partition("|---|---|\n")[2].splitlines()
    words = [row[2:].partition(" |")[0].casefold() for row in rows]
    assert len(words) <= 60 and words == sorted(set(words))
