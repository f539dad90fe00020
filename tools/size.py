"""How large the source is: `python tools/size.py [--check]`.

Takes the repository; prints lines per package and the longest files.  Keeps true: with `--check`, a
file above the limit is an error, so that files stay readable in one sitting.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 800
AIM = 400
KINDS = {".py", ".pyx", ".pxi", ".h"}


def lines_of(path: Path) -> int:
    """Lines of a file."""
    with path.open("rb") as stream:
        return sum(1 for _ in stream)


def measure() -> dict[Path, int]:
    """Lines of every source file, by path below the root."""
    folders = ("src", "tools", "tests", "examples", "benchmarks")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    return {p.relative_to(ROOT): lines_of(p) for p in paths if p.suffix in KINDS}


def report(sizes: dict[Path, int]) -> None:
    """Prints lines per package and the longest files."""
    packages: Counter[str] = Counter()
    for path, count in sizes.items():
        parts = path.parts
        packages["/".join(parts[:3] if parts[0] == "src" else parts[:1])] += count
    for package, count in packages.most_common():
        print(f"{count:7d}  {package}")
    print(f"{sum(sizes.values()):7d}  in {len(sizes)} files")
    long = sorted((count, str(path)) for path, count in sizes.items() if count > AIM)
    print(f"\n{len(long)} files above {AIM} lines")
    for count, name in reversed(long[-15:]):
        print(f"{count:7d}  {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help=f"fail above {LIMIT} lines a file")
    sizes = measure()
    if not parser.parse_args().check:
        report(sizes)
        return
    tall = {path: count for path, count in sizes.items() if count > LIMIT}
    for tall_path, count in sorted(tall.items()):
        print(f"{tall_path}: {count} lines, at most {LIMIT} are allowed")
    sys.exit(1 if tall else 0)


if __name__ == "__main__":
    main()
