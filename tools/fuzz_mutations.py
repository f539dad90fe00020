"""How sound files become others: by bytes, operations of a pickle, values of JSON, parts of an archive.

Takes bytes and a generator of random numbers. Gives bytes.
Keeps true: the same generator gives the same bytes.
"""

from __future__ import annotations

import copy
import io
import json
import pickletools
import random
import struct
import warnings
import zipfile
from typing import Any


def mutated_bytes(data: bytes, generator: random.Random) -> bytes:
    """A copy with bytes cut off, changed, replaced, repeated, or numbers made extreme."""
    found = bytearray(data)
    for _ in range(generator.choice((1, 1, 1, 2, 4))):
        if not found:
            break
        kind = generator.randrange(6)
        first, second = generator.randrange(len(found)), generator.randrange(len(found))
        length = generator.randint(1, 20)
        if kind == 0:
            del found[first:]
        elif kind == 1:
            found[first] = generator.randrange(256)
        elif kind == 2:
            found[first] ^= 1 << generator.randrange(8)
        elif kind == 3:
            found[first : first + length] = generator.randbytes(generator.randint(0, 20))
        elif kind == 4:
            found[first : first + length] = found[second : second + length]
        else:
            width = generator.choice((1, 2, 4, 8))
            extreme = generator.choice((0, 1, (1 << 8 * width) - 1, 1 << (8 * width - 1)))
            found[first : first + width] = extreme.to_bytes(width, "little")
    return bytes(found)


def _operations(data: bytes) -> list[bytes]:
    places = [place for _, _, place in pickletools.genops(data) if place is not None]
    return [data[a:b] for a, b in zip(places, [*places[1:], len(data)], strict=True)]


_STRANGE = [
    b"cos\nsystem\n",
    b"cbuiltins\neval\n",
    b"cbuiltins\ngetattr\n",
    b"ctorch._utils\n_rebuild_tensor_v2\n",
    b"ctorch.nn.modules.linear\nLinear\n",
    b"cfacula\nload\n",
    b"(S'true'\ni__main__\nx\n",
    b"\x81",
    b"R",
    b"b",
    b"Q",
    b"u",
    b"e",
    b"K\xff",
    b"J\xff\xff\xff\xff",
    b"\x8a\x08" + b"\xff" * 7 + b"\x7f",
    b"\x88",
    b"N",
    b")",
    b"}",
    b"]",
    b"(",
    b"0",
    b"2",
]


def mutated_operations(data: bytes, generator: random.Random) -> bytes:
    """A pickle whose operations are left out, swapped, repeated, or joined by strange ones."""
    found = _operations(data)
    for _ in range(generator.choice((1, 1, 2, 3, 8))):
        first, second = generator.randrange(len(found)), generator.randrange(len(found))
        kind = generator.randrange(5)
        if kind == 0 and len(found) > 2:
            del found[first]
        elif kind == 1:
            found[first], found[second] = found[second], found[first]
        elif kind == 2:
            found.insert(first, found[second])
        elif kind == 3:
            found.insert(first, generator.choice(_STRANGE))
        else:
            found[first] = generator.choice(_STRANGE)
    return b"".join(found)


# ------------------------------------------------------------------ JSON

CODE = "__import__('os').system('true')"
STRANGE_TEXTS = [
    "", ".", "..", "../outside", "/tmp/outside", "a/b", "x\0y", "class", "self", "a b", "é", "\u2028",
    CODE, f"x={CODE}", f'a", 0) or {CODE} or getattr(0, "', f"a\n    {CODE}", f"a\r{CODE}", "'''", '"', "\\",
    "__class__", "__init__.__globals__", "forward", "os.system", "builtins.eval", "operator.attrgetter",
    "operator.methodcaller", "operator.call", "builtins.pow", "aten.numpy.default", "aten.set_.default",
    "aten.as_strided.default", "aten.__class__.mro", "subprocess.Popen", "symbol", "n" * 5000, "NaN", "1e999",
    "cuda:0", "meta", "float64",
]  # fmt: skip
_STRANGE_VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63), 2**64, 10**40, 0.5, float("inf"), float("nan"), [], {},
    [[]], {"": None}, {"node": "x"}, {"tuple": []}, {"device": CODE}, {"dtype": "load_library"},
    {"slice": [0, 1, 2]}, {"dict": [[[], 1]]}, {"value": {"node": "x"}}, {"float": "inf"},
]  # fmt: skip


def _places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """All containers with their keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        found.append((value, key))
        if isinstance(inner, (dict, list)):
            _places(inner, found)
    return found


def mutated_json(data: bytes, generator: random.Random) -> bytes:
    """JSON with values replaced, left out, repeated, renamed, nested or taken from elsewhere."""
    if generator.randrange(10) == 0:
        return mutated_bytes(data, generator)
    whole = json.loads(data)
    for _ in range(generator.choice((1, 1, 1, 2, 4))):
        places = _places(whole, [])
        if not places:
            break
        _mutate_place(places, generator)
    text = json.dumps(whole)
    if generator.randrange(100) == 0:
        text = text.replace("{", "[" * 3000 + "{", 1)
    return text.encode(errors="surrogatepass")


def _mutate_place(places: list[tuple[Any, Any]], generator: random.Random) -> None:
    holder, key = generator.choice(places)
    other_holder, other_key = generator.choice(places)
    kind = generator.randrange(7)
    if kind == 0:
        holder[key] = generator.choice(STRANGE_TEXTS)
    elif kind == 1:
        holder[key] = copy.deepcopy(generator.choice(_STRANGE_VALUES))
    elif kind == 2:
        holder[key] = json.loads(json.dumps(other_holder[other_key]))
    elif kind == 3:
        del holder[key]
    elif kind == 4 and isinstance(holder, list):
        holder.insert(key, holder[key])
    elif kind == 5 and isinstance(holder, dict):
        holder[generator.choice(STRANGE_TEXTS)] = holder.pop(key)
    elif isinstance(holder[key], str):
        text, at = holder[key], generator.randrange(len(holder[key]) + 1)
        holder[key] = text[:at] + generator.choice(STRANGE_TEXTS)[:100] + text[at:]
    else:
        holder[key] = [holder[key]]


# ------------------------------------------------------------------ archives


def parts_of(archive: bytes) -> list[tuple[str, bytes]]:
    """The files of a ZIP archive."""
    with zipfile.ZipFile(io.BytesIO(archive)) as source:
        return [(name, source.read(name)) for name in source.namelist()]


def packed(parts: list[tuple[str, bytes]]) -> bytes:
    """A ZIP archive of stored files."""
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w") as archive:
        warnings.simplefilter("ignore")  # of names that stand twice
        for name, content in parts:
            entry = zipfile.ZipInfo("placeholder")
            entry.filename = name[:60000]
            archive.writestr(entry, content)
    return stream.getvalue()


def mutated_parts(data: bytes, generator: random.Random) -> bytes:
    """An archive whose files have other names, contents, or numbers in their headers."""
    parts = parts_of(data)
    for _ in range(generator.choice((1, 1, 2, 3))):
        kind = generator.randrange(5)
        first, second = generator.randrange(len(parts)), generator.randrange(len(parts))
        name, content = parts[first]
        if kind == 0:
            strange = generator.choice(STRANGE_TEXTS).encode(errors="ignore").decode()
            parts[first] = generator.choice((strange, f"{name}/{strange}", f"../{name}")), content
        elif kind == 1:
            parts[first] = name, parts[second][1]
        elif kind == 2 and len(parts) > 1:
            del parts[first]
        elif kind == 3:
            parts.insert(second, parts[first])
        else:
            parts[first] = name, mutated_bytes(content, generator)
    made = bytearray(packed(_without_doubles(parts, generator)))
    if generator.randrange(2):
        _mutate_header(made, generator)
    return bytes(made)


def _without_doubles(parts: list[tuple[str, bytes]], generator: random.Random) -> Any:
    """Names twice only now and then: `zipfile` warns of them."""
    return parts if generator.randrange(4) == 0 else list(dict(parts).items())


#: signature, and where the numbers of a header stand behind it: method, CRC, sizes, lengths, offset
_HEADERS = (
    (b"PK\3\4", ((8, "H"), (14, "I"), (18, "I"), (22, "I"), (26, "H"), (28, "H"))),
    (b"PK\1\2", ((10, "H"), (16, "I"), (20, "I"), (24, "I"), (28, "H"), (30, "H"), (42, "I"))),
    (b"PK\5\6", ((8, "H"), (10, "H"), (12, "I"), (16, "I"), (20, "H"))),
)


def _mutate_header(data: bytearray, generator: random.Random) -> None:
    signature, numbers = generator.choice(_HEADERS)
    starts = []
    at = data.find(signature)
    while at >= 0:
        starts.append(at)
        at = data.find(signature, at + 1)
    if not starts:
        return
    offset, layout = generator.choice(numbers)
    at = generator.choice(starts) + offset
    size = struct.calcsize(layout)
    if at + size <= len(data):
        largest = (1 << 8 * size) - 1
        (present,) = struct.unpack_from(f"<{layout}", data, at)
        changed = generator.choice(
            (0, 1, largest, largest >> 1, present + 1, present * 2, len(data))
        )
        struct.pack_into(f"<{layout}", data, at, changed & largest)
