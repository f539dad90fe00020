"""Builds the manual: `python tools/build_site.py [--output build/site]`.

Takes `docs/`, the operator table and the docstrings of the package; needs mkdocs-material (the extra
`site`). Gives a site of static files, with search, in the folder `html` of the output.
Keeps true: nothing derived is kept by hand or committed; tutorials are run, and a fault in one, a
broken link or any warning of mkdocs ends the build.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import site_pages

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
#: the chapters of hand-written pages, in the order in which they are read
GUIDES = {
    "Start": ["coming_from_pytorch", "from_scratch"],
    "Guides": [
        "data", "files", "compiler", "export", "packages", "code_packages", "torchscript", "onnx", "distributed",
        "quantization", "nested", "masked", "domains", "cpp_extensions", "fx", "torch_programs",
        "random_numbers", "settings", "benchmarks",
    ],
    "Inside": ["architecture", "kernel_interfaces", "adding_an_operator", "adding_a_device", "cuda", "glossary"],
}  # fmt: skip
#: the pages that stand before those of their folder
LISTS = ("operators/by_name.md", "errors/index.md", "breaks/index.md")
TUTORIALS = ["train", "compile", "graph_break", "operator", "device", "export"]
STYLE = """
.md-typeset h2 { overflow-wrap: anywhere; }
.md-typeset table:not([class]) { display: block; overflow-x: auto; }
.md-typeset pre > code { font-size: 0.8em; }
"""


def _title(text: str) -> str:
    found = re.search(r"^# (.+)$", text, re.M)
    return found[1] if found else "?"


def _relinked(text: str, page: str) -> str:
    """Links out of `docs/`: to pages that the manual has, and to sources as plain text."""
    text = re.sub(r"\]\((?:\.\./)+(README|CONTRIBUTING|CHANGELOG)\.md", r"](\1.md", text)
    text = re.sub(r"\]\(docs/", "](", text)
    return re.sub(
        r"\[([^\]]+)\]\((?:\.\./)*(?:examples|src|benchmarks|LICENSE)[^)]*\)", r"\1", text
    )


def _run_tutorial(name: str) -> str:
    command = [sys.executable, "-W", "error", str(ROOT / "tools" / "site_tutorials.py")]
    done = subprocess.run(
        [*command, str(DOCS / "tutorials" / f"{name}.md")], capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"tutorial {name}: {done.stderr}")
    return done.stdout


def pages() -> tuple[dict[str, str], list[object]]:
    """Every page by its path, and the table of contents."""
    made = {"index.md": _relinked((ROOT / "README.md").read_text(), "index.md")}
    for name in ("CONTRIBUTING", "CHANGELOG"):
        made[f"{name}.md"] = _relinked((ROOT / f"{name}.md").read_text(), f"{name}.md")
    for path in sorted(DOCS.glob("*.md")):
        made[path.name] = _relinked(path.read_text(), path.name)
    for name in TUTORIALS:
        made[f"tutorials/{name}.md"] = _run_tutorial(name)
    reference = site_pages.Reference()
    made |= {path: reference.page(path) for path in reference.pages}
    derived = site_pages.operator_pages(reference.places)
    made |= derived | site_pages.break_pages() | site_pages.error_pages(reference.places)

    def rows(prefix: str) -> list[object]:
        paths = sorted(path for path in made if path.startswith(prefix) and path not in LISTS)
        return [{_title(made[path]): path} for path in paths]

    def guide(title: str) -> dict[str, object]:
        return {title: [{_title(made[f"{n}.md"]): f"{n}.md"} for n in GUIDES[title]]}

    tutorials = [{_title(made[f"tutorials/{n}.md"]): f"tutorials/{n}.md"} for n in TUTORIALS]
    contents: list[object] = [{"Home": "index.md"}, guide("Start"), {"Tutorials": tutorials}]
    contents.append(guide("Guides"))
    chapters = [{c: [{t: p} for t, p in rows]} for c, rows in reference.contents()]
    operators = ["operators/by_name.md", *rows("operators/")]
    contents.append({"Reference": [*chapters, {"Operators": operators}]})
    contents.append({"Errors": ["errors/index.md", *rows("errors/")]})
    contents.append({"Graph breaks": ["breaks/index.md", *rows("breaks/")]})
    about = [{"Contributing": "CONTRIBUTING.md"}, {"Changes": "CHANGELOG.md"}]
    inside = guide("Inside")["Inside"]
    contents.append({"Inside": [*about, *inside]})  # type: ignore[misc]
    return made, contents


def configuration(contents: list[object], output: Path) -> dict[str, object]:
    """What mkdocs is told; a JSON file is a YAML file."""
    return {
        "site_name": "facula",
        "docs_dir": str(output / "pages"),
        "site_dir": str(output / "html"),
        "use_directory_urls": False,
        "nav": contents,
        "theme": {
            "name": "material",
            "font": False,
            "features": ["navigation.tabs", "navigation.prune", "navigation.top", "content.code.copy",
                         "search.suggest", "search.highlight", "toc.follow"],
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default"},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate"},
            ],
        },  # fmt: skip
        "plugins": ["search"],
        "extra_css": ["style.css"],
        "markdown_extensions": [
            "attr_list", "tables", "fenced_code", "sane_lists", {"toc": {"permalink": True}},
            "pymdownx.highlight", "pymdownx.superfences",
        ],
        "validation": {
            "nav": {"omitted_files": "warn"},
            "links": {"anchors": "warn", "unrecognized_links": "warn"},
        },
    }  # fmt: skip


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "site")
    output = parser.parse_args().output.resolve()
    shutil.rmtree(output, ignore_errors=True)
    made, contents = pages()
    for name, text in (made | {"style.css": STYLE}).items():
        path = output / "pages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    config = output / "mkdocs.yml"
    config.write_text(json.dumps(configuration(contents, output), indent=1))
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config)]
    subprocess.run(command, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    print(f"{len(made)} pages in {output / 'html'}")


if __name__ == "__main__":
    main()
