"""Writes what is derived from the operator table: type stubs, the operators' pages, and examples.

    python tools/gen_api.py stubs [--output src/facula] [--public]
    python tools/gen_api.py examples [--output src/facula/ops] [--tree src]
    python tools/gen_api.py docs [--output docs/operators]

Takes the importable package. Keeps true: a file is written only where its text changed, and files of
an earlier run that are no longer derived are removed; nothing here names an operator.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

if sys.argv[1:2] != ["examples"]:
    os.environ.setdefault("FACULA_BUILDING", "1")  # no kernels are needed to read definitions

ROOT = Path(__file__).resolve().parent.parent


def write(folder: Path, files: dict[str, str], stale: set[Path]) -> int:
    """Write the files that changed, and remove the stale ones; gives how many changed."""
    changed = 0
    for name, text in files.items():
        path = folder / name
        stale.discard(path)
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            changed += 1
    for path in stale:
        path.unlink()
    return changed + len(stale)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("stubs", "examples", "docs"))
    parser.add_argument("--output", type=Path)
    parser.add_argument("--public", action="store_true", help="stubs for users' imports (a wheel)")
    parser.add_argument(
        "--tree", type=Path, help="where the package lies, if not where Python finds it"
    )
    options = parser.parse_args()
    if options.tree:
        sys.path.insert(0, str(options.tree))
    if options.what == "stubs":
        import api_stubs
        import room_stubs

        folder = options.output or ROOT / "src" / "facula"
        files, stale = api_stubs.stubs(), set(folder.rglob("*.pyi"))
        if options.public:
            files = room_stubs.public_stubs() | files
    elif options.what == "examples":
        import api_examples

        folder = options.output or ROOT / "src" / "facula" / "ops"
        files, stale = {"_examples.json": json.dumps(api_examples.examples(), indent=0)}, set()
    else:
        import api_docs

        folder = options.output or ROOT / "docs" / "operators"
        files, stale = api_docs.pages(), set(folder.glob("*.md"))
    changed = write(folder, files, stale)
    print(f"{len(files)} files in {folder}, {changed} changed")


if __name__ == "__main__":
    main()
