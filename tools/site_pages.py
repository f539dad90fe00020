"""Pages of the manual that are derived: public classes and functions, operators, errors, breaks.

Takes the importable package, the contents of `api_reference` and the operator table. Gives Markdown by
path, and the manual's table of contents.
Keeps true: every public name has one heading, on one page; what stands there is its signature, its
docstring and its public methods, in this order; nothing is written here that the package does not say.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import api_docs
import api_reference

from facula import core
from facula.capture import breaks
from facula.ops.table.documentation import documentation
from facula.ops.table.registry import own_operators

ROOT = Path(__file__).resolve().parent.parent
#: a module with more names has a page for each file that they are defined in
MOST_ON_A_PAGE = 40
SECTIONS = "Args|Shape|Raises|Returns|Yields|Note|Example"
_CODE = re.compile(r"(``.+?``|`[^`\n]+`)", re.S)


def escaped(text: str, places: dict[str, str], here: str) -> str:
    """Prose as Markdown: code stays, `names` of this manual become links, other signs are plain."""

    def part(piece: str) -> str:
        if piece.startswith("``"):
            return f"`{' '.join(piece[2:-2].split())}`" if "`" not in piece[2:-2] else piece
        if piece.startswith("`"):
            name = piece[1:-1]
            place = places.get(name) or places.get(f"nn.{name}") or places.get(f"optim.{name}")
            return f"[{piece}]({relative(place, here)})" if place else piece
        piece = piece.replace("<", "&lt;").replace("[", r"\[").replace("]", r"\]")
        return re.sub(r"(?<!\*)\*(?![*\w])|(?<![\w*])\*(?=\s)|_", lambda m: "\\" + m[0], piece)

    return "".join(part(piece) for piece in _CODE.split(text))


def relative(place: str, here: str) -> str:
    """A link from one page to a place on another."""
    path, _, anchor = place.partition("#")
    if path == here:
        return f"#{anchor}"
    up = "../" * here.count("/")
    return f"{up}{path}#{anchor}"


def _entries(lines: list[str]) -> list[str]:
    """The entries of a section: a line and what is indented below it."""
    found: list[str] = []
    for line in lines:
        if line.startswith(" ") and found:
            found[-1] += " " + line.strip()
        elif line.strip():
            found.append(line.strip())
    return found


def _section(title: str, body: str, places: dict[str, str], here: str) -> list[str]:
    lines = inspect.cleandoc("\n" + body).splitlines()
    if title == "Example":
        return ["```pycon", *lines, "```", ""]
    made = [f"**{title}**", ""]
    if title in ("Args", "Raises"):
        for entry in _entries(lines):
            name, _, words = entry.partition(": ")
            made.append(f"- `{name}`: {escaped(words, places, here)}" if words else f"- {entry}")
        return [*made, ""]
    return [*made, escaped("\n".join(lines), places, here), ""]


def markdown(doc: str, places: dict[str, str], here: str) -> str:
    """A docstring as Markdown."""
    summary, *titled = re.split(rf"^({SECTIONS}):$", doc, flags=re.M)
    lines = []
    for paragraph in re.split(r"\n{2,}", summary.strip()):
        if paragraph.startswith(">>> "):
            lines += ["```pycon", paragraph, "```", ""]
        else:
            lines += [escaped(paragraph, places, here), ""]
    for title, body in zip(titled[::2], titled[1::2], strict=True):
        lines += _section(title, body, places, here)
    return "\n".join(lines)


def _argument(p: inspect.Parameter) -> str:
    """An argument with its annotation, where that says something, and its default."""
    text = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "") + p.name  # type: ignore[call-overload]
    kind = p.annotation if isinstance(p.annotation, str) else getattr(p.annotation, "__name__", "")
    if kind and kind not in ("Any", "_empty"):
        text += f": {kind}"
    if p.default is p.empty:
        return text
    default = re.sub(
        r"<(?:built-in )?(?:function|operator|class)\s'?([\w.]+)[^>]*>", r"\1", repr(p.default)
    )
    return f"{text} = {default}" if ":" in text else f"{text}={default}"


def signature(name: str, value: Any) -> str:
    """How it is called, a line for each argument where one line is too long."""
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return name
    shown: list[str] = []
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not any(text[0] == "*" for text in shown):
            shown.append("*")
        shown.append(_argument(p))
    line = f"{name}({', '.join(shown)})"
    return line if len(line) <= 88 else f"{name}(\n    " + ",\n    ".join(shown) + ",\n)"


def _methods(value: Any, documented: set[Any]) -> list[tuple[str, str]]:
    """The public methods of a class, its hidden bases included, with the first lines of their docs."""
    found: dict[str, str] = {}
    for cls in inspect.getmro(value):
        if cls is object or (cls is not value and cls in documented):
            break
        if not cls.__module__.startswith("facula"):
            continue
        for name, method in vars(cls).items():
            if isinstance(method, (classmethod, staticmethod)):
                method = method.__func__
            if name.startswith("_") or name in found or not callable(method):
                continue
            doc = inspect.getdoc(method) or ""
            if doc:
                found[name] = doc.partition("\n\n")[0].replace("\n", " ")
    return sorted(found.items())


def _source(value: Any) -> str:
    try:
        path = Path(inspect.getsourcefile(inspect.unwrap(value)) or "").resolve()
        return path.relative_to(ROOT).as_posix()
    except (TypeError, ValueError, OSError):
        return ""


class Reference:
    """The pages of public classes and functions."""

    def __init__(self) -> None:
        self.pages: dict[str, list[api_reference.Public]] = defaultdict(list)
        self.titles: dict[str, str] = {}
        self.places: dict[str, str] = {}
        names = list(api_reference.public_names())
        counts: dict[str, int] = defaultdict(int)
        for public in names:
            counts[public.module] += 1
        for public in names:
            path = self._page_of(public, counts[public.module])
            self.pages[path].append(public)
            anchor = f"{path}#{public.full}"
            short = public.full.removeprefix("facula.")
            for name in (short, public.full, public.name):
                self.places.setdefault(name, anchor)
        self.documented = {p.value for p in names if inspect.isclass(p.value)}

    def _page_of(self, public: api_reference.Public, count: int) -> str:
        short = public.module.removeprefix("facula").removeprefix(".") or "facula"
        title, path = public.module, f"reference/{short}.md"
        if count > MOST_ON_A_PAGE:
            part = getattr(public.value, "__module__", "facula").rpartition(".")[2]
            title = f"{public.module}: {part.removeprefix('_').replace('_', ' ')}"
            path = f"reference/{short}/{part.removeprefix('_')}.md"
        self.titles[path] = title
        return path

    def _entry(self, public: api_reference.Public, here: str) -> str:
        kind = "class " if inspect.isclass(public.value) else ""
        doc = markdown(inspect.getdoc(public.value) or "", self.places, here)
        lines = [f"## {escaped(public.full, {}, here)} {{ #{public.full} }}", ""]
        lines += ["```python", kind + signature(public.full, public.value), "```", "", doc]
        if inspect.isclass(public.value):
            methods = _methods(public.value, self.documented)
            if methods:
                lines += ["**Methods**", ""]
                lines += [f"- `{n}`: {escaped(d, self.places, here)}" for n, d in methods] + [""]
        source = _source(public.value)
        if source:
            lines += [f"<small>{source}</small>", ""]
        return "\n".join(lines)

    def _row(self, public: api_reference.Public, here: str) -> str:
        """A name in the list at the top of a page, with what it is."""
        first = (inspect.getdoc(public.value) or "").partition("\n\n")[0].replace("\n", " ")
        link = f"[`{public.name}`]({relative(self.places[public.full], here)})"
        return f"- {link}: {escaped(first, self.places, here)}" if first else f"- {link}"

    def page(self, path: str) -> str:
        """One page: what the module says of itself, and its names."""
        publics = self.pages[path]
        about = ""
        if ":" not in self.titles[path]:
            module = importlib.import_module(publics[0].module)
            first = inspect.cleandoc(module.__doc__ or "").partition("\n\n")[0]
            about = escaped(first, self.places, path)
        listed = "\n".join(self._row(public, path) for public in publics)
        entries = "\n".join(self._entry(public, path) for public in publics)
        return f"# {self.titles[path]}\n\n{about}\n\n{listed}\n\n{entries}\n"

    def contents(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """The chapters, with title and path of their pages."""
        made = []
        for chapter, modules in api_reference.CONTENTS.items():
            rows = [
                (self.titles[path], path)
                for module in modules
                for path, publics in sorted(self.pages.items())
                if publics[0].module == module
            ]
            made.append((chapter, rows))
        return made


def operator_pages(places: dict[str, str]) -> dict[str, str]:
    """A page for each family of operators, and an index of all their names."""
    families: dict[str, list[core.Op]] = defaultdict(list)
    for _, operator in sorted(own_operators().items()):
        if operator.definition.names:
            families[api_docs.family_of(operator.definition)].append(operator)
    pages, rows = {}, []
    for family, operators in sorted(families.items()):
        path = f"operators/{family}.md"
        about = inspect.cleandoc(inspect.getmodule(operators[0].definition.body).__doc__ or "")
        entries = []
        for operator in operators:
            definition = operator.definition
            # without underscores at its ends, which Markdown would take for emphasis
            anchor = f"op-{operator.name.strip('_')}-{operator.name.count('_')}"
            text = documentation(definition)
            call, _, rest = text.partition("\n\n")
            entries += [
                f"## {escaped(definition.public_name, {}, path)} {{ #{anchor} }}",
                "",
                "```python",
                call,
                "```",
            ]
            entries += ["", markdown(rest, places, path)]
            rows += [f"- [`facula.{name}`]({family}.md#{anchor})" for name in definition.names]
        title = family.replace("-", ": ").replace("_", " ")
        first = escaped(about.partition("\n\n")[0], places, path)
        pages[path] = f"# {title}\n\n{first}\n\n" + "\n".join(entries) + "\n"
    pages["operators/by_name.md"] = "# Operators by name\n\n" + "\n".join(sorted(rows)) + "\n"
    return pages


def break_pages() -> dict[str, str]:
    """A page for each code of a graph break, and a list of them."""
    rows = [f"- [`{code}`]({code}.md): {e.title}" for code, e in sorted(breaks.CATALOGUE.items())]
    pages = {f"breaks/{code}.md": breaks.page(code) for code in breaks.CATALOGUE}
    about = (
        "Why capture can stop, and what to write instead. `facula.compiler.explain` names the code."
    )
    pages["breaks/index.md"] = f"# Graph breaks\n\n{about}\n\n" + "\n".join(rows) + "\n"
    return pages


def error_pages(places: dict[str, str]) -> dict[str, str]:
    """A page for each kind of error and warning that facula has of its own, and a list of them."""
    kinds: dict[str, type] = {}
    for file in sorted((ROOT / "src" / "facula").rglob("errors.py")):
        name = ".".join(file.relative_to(ROOT / "src").with_suffix("").parts)
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, type) and issubclass(value, (Exception, Warning)):
                if value.__module__.startswith("facula") and not value.__name__.startswith("_"):
                    kinds[value.__name__] = value
    for public in api_reference.public_names():
        if inspect.isclass(public.value) and issubclass(public.value, BaseException):
            kinds[public.name] = public.value
    pages, rows = {}, []
    for name, kind in sorted(kinds.items()):
        path = f"errors/{name}.md"
        doc = inspect.getdoc(kind) or ""
        base = kind.__mro__[1].__name__
        pages[path] = (
            f"# {name}\n\nA `{base}` of `{kind.__module__}`.\n\n{markdown(doc, places, path)}\n"
        )
        rows.append(f"- [`{name}`]({name}.md): {escaped(doc.partition(chr(10))[0], places, path)}")
    about = inspect.cleandoc(core.errors.__doc__ or "").partition("\n\n")[2]
    pages["errors/index.md"] = (
        f"# Errors\n\n{escaped(about, places, 'errors/index.md')}\n\nThe kinds are Python's and "
        "PyTorch's for each occasion. These are defined here:\n\n" + "\n".join(rows) + "\n"
    )
    return pages
