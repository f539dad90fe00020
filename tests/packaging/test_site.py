"""The manual's derived pages: one heading for each name, links that lead somewhere, docstrings as Markdown.

`make site` builds the whole and takes warnings as errors; what needs no mkdocs is held here.
"""

import importlib
import posixpath
import re
import sys
from pathlib import Path

import pytest

from facula.capture.breaks import CATALOGUE
from facula.ops.table.registry import own_operators

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
try:
    site, reference, tutorials, build = map(
        importlib.import_module, ("site_pages", "api_reference", "site_tutorials", "build_site")
    )
finally:
    sys.path.remove(str(ROOT / "tools"))


@pytest.fixture(scope="module")
def made():
    pages = site.Reference()
    found = {path: pages.page(path) for path in pages.pages}
    found |= site.operator_pages(pages.places)
    return found | site.break_pages() | site.error_pages(pages.places)


def anchors(text):
    return re.findall(r"^## .*\{ #(\S+) \}$", text, re.M)


def test_every_page_has_a_chapter():
    chapters = [page for pages in build.GUIDES.values() for page in pages]
    assert sorted(chapters) == sorted(path.stem for path in (ROOT / "docs").glob("*.md"))
    assert sorted(build.TUTORIALS) == sorted(
        path.stem for path in (ROOT / "docs" / "tutorials").glob("*.md")
    )


def test_every_name_has_one_heading(made):
    headings = [
        h.replace("\\", "") for text in made.values() for h in re.findall(r"^## (\S+)", text, re.M)
    ]
    for public in reference.public_names():
        assert headings.count(public.full) == 1, public.full
    listed = made["operators/by_name.md"]
    for operator in own_operators().values():
        assert all(f"`facula.{name}`" in listed for name in operator.definition.names)
    assert all(len(set(anchors(text))) == len(anchors(text)) for text in made.values())


def test_links_lead_somewhere(made):
    places = {path: {*anchors(text), ""} for path, text in made.items()}
    count = 0
    for page, text in made.items():
        prose = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
        for target in re.findall(r"\]\(([^)\s]+)\)", prose):
            path, _, anchor = target.partition("#")
            path = (
                posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
            )
            assert anchor in places[path], (page, target)
            count += 1
    assert count > 1000


def test_breaks_and_errors_have_pages(made):
    assert {f"breaks/{code}.md" for code in CATALOGUE} <= made.keys()
    assert {"errors/LinAlgError.md", "errors/Unsupported.md", "errors/DistError.md"} <= made.keys()


def test_docstrings_become_markdown():
    doc = (
        "Rows of `Linear`, <x> and ``a_b * c`` [He 2015].\n\nArgs:\n    p: a number\n        of two lines\n\n"
        "Example:\n    >>> 1\n    1"
    )
    text = site.markdown(doc, {"Linear": "reference/nn.md#linear"}, "reference/optim.md")
    assert (
        r"Rows of [`Linear`](../reference/nn.md#linear), &lt;x> and `a_b * c` \[He 2015\]." in text
    )
    assert "- `p`: a number of two lines\n" in text and "```pycon\n>>> 1\n1\n```" in text


def test_signatures_say_types_and_defaults():
    def call(x: "Any", size: "int" = 3, *, mode: "str" = "mean", f: "Any" = len):  # noqa: F821
        pass

    assert site.signature("call", call) == "call(x, size: int = 3, *, mode: str = 'mean', f=len)"


def run(text, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(text)
    return tutorials.executed(page)


def test_tutorials_show_what_their_blocks_print(tmp_path):
    text = run("# T\n\n```python\nx = 2\nprint(x)\nx + 1\n```\n\n```python\ny = x\n```\n", tmp_path)
    assert text.endswith("x + 1\n```\n\n```text\n2\n3\n```\n\n```python\ny = x\n```\n")


def test_tutorials_end_with_faults_that_nobody_announced(tmp_path):
    shown = run("```python raises\nint('a')\n```\n", tmp_path)
    assert "```text\nValueError: invalid literal" in shown
    for text in (
        "```python\nint('a')\n```\n",
        "```python raises\nint('1')\n```\n",
        "```python\nimport warnings\nwarnings.warn('w')\n```\n",
    ):
        with pytest.raises(RuntimeError, match=r"page\.py, block at line 1"):
            run(text, tmp_path)
