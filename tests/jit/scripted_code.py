"""Functions, classes and modules that the tests script: as a user would write them."""

# ruff: noqa: UP006, UP007, UP045
import enum
import math
from typing import Any, Dict, Final, List, NamedTuple, Optional, Tuple, Union  # noqa: UP035

import facula
from facula import Tensor, nn
from facula.nn import functional as F


class Pair(NamedTuple):
    a: Tensor
    b: int


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Counter:
    def __init__(self, start: int):
        self.n = start
        self.names: List[str] = []

    def add(self, k: int) -> int:
        self.n += k
        self.names.append("x")
        return self.n


def larger(x: int, y: int = 3) -> int:
    if x > y:
        return x
    elif x == y:
        raise ValueError("same")
    return y


def optional(x, k: Optional[Tensor] = None) -> Tensor:
    if k is not None:
        x = x + k
    else:
        x = x - 1
    return x


def loops(n: int):
    found: List[int] = []
    for i in range(n):
        if i == 2:
            continue
        if i > 6:
            break
        found.append(i * larger(i, 2 + i))
    return found


def early(n: int, limit: int):
    for i in range(n):
        for j in range(i):
            if i * j > limit:
                return i, j
    return -1, -1


def endless(r: int) -> int:
    while True:
        r += 1
        if r % 7 == 0:
            return r
    return 0


def lists(xs: List[Tensor]):
    total = facula.zeros(2, 3)
    for i, x in enumerate(xs):
        total = total + x * i
    for a, b in zip(xs, xs):  # noqa: B905
        total += a.sum() * b.mean(dim=-1, keepdim=True)
    return total, [x.size(0) + 1 for x in xs], {str(i): i for i in range(3)}


def indexing(x):
    p = Pair(x, 3)
    y = p.a[0, 1:, None] + p.b
    y[0] = 5
    z = x[..., 0]
    x[:, 1] += 1
    m = x[x > 0.5]
    v, i = x.max(dim=1)
    return y, z, m, v, i, f"{x.dim()} and {p.b}"


def dicts(x: Dict[str, int], c: Color) -> int:
    r = 0
    for k in x:
        r += x[k]
    if c == Color.RED:
        r = -r
    if "a" in x:
        r += 100
    return r


def union(x: Union[int, str, List[int]]) -> str:
    if isinstance(x, int):
        return "int " + str(x + 1)
    elif isinstance(x, str):
        return x.upper()
    else:
        return "list " + str(len(x))


def numbers(a: float, b: int):
    c = a * b + b // 2 - b % 3
    d = math.sqrt(c) if c > 0 else -1.0
    return c, d, max(a, 2.0), min(b, 3), int(a), abs(b), not (a > 1 and b < 2)


def texts(s: str):
    return s.upper().split(","), "{} {}".format(s, 1), "%d-%s" % (3, s), s[1:3], s.find("b")  # noqa: UP032, UP031


def anything(x: Any) -> int:
    if isinstance(x, int):
        return x + 1
    return 0


def object_of_a_class(k: int):
    a = Counter(k)
    a.add(2)
    a.n = a.n * 2
    return a.add(3) + len(a.names)


def functional(x):
    y = F.relu(x) + F.dropout(x, 0.5, False) + facula.cat([x, x], 0)[: x.shape[0]]
    y = F.softmax(y, dim=-1).to(facula.float64)
    return y.float() if y.dtype == facula.float64 else y


def forked(x):
    later = facula.jit.fork(larger, 2, 5)
    return facula.jit.wait(later) + x


def asserted(x):
    assert x.dim() == 2, f"want 2 got {x.dim()}"
    return x.t()


def where_it_runs(x):
    if facula.jit.is_scripting():
        return x + 1
    return x


def swapped(x: Tuple[int, Tensor]) -> Tuple[Tensor, int]:
    n, t = x
    return t, n


class Scaled(nn.Module):
    __constants__ = ["k"]
    flag: Final[bool]

    def __init__(self):
        super().__init__()
        self.k = 2
        self.flag = True
        self.lin = nn.Linear(3, 3)
        self.register_buffer("buf", facula.ones(3))
        self.opt: Optional[int] = None

    def forward(self, x: Tensor) -> Tensor:
        if self.flag:
            x = self.lin(x) * self.k
        return self.scale(x) + self.buf

    def scale(self, x):
        o = self.opt
        if o is not None:
            return x * o
        return x * 0.5

    @facula.jit.export
    def other(self, n: int):
        return n + self.k

    @facula.jit.ignore
    def in_python(self, x: int) -> int:
        return sum([x, 1])

    @facula.jit.unused
    def not_for_scripts(self, x):
        return eval("x")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.bn = nn.BatchNorm2d(2)
        self.seq = nn.Sequential(
            nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(1), nn.Dropout(0.1), nn.Linear(8, 3), nn.GELU()
        )
        self.subs = nn.ModuleList([Scaled(), Scaled()])
        self.rnn = nn.LSTM(3, 4)
        self.by_name = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Tanh()})
        self.settings = {"x": 1}

    def forward(self, x):
        x = self.seq(self.bn(self.conv(x)))
        for i, s in enumerate(self.subs):
            x = s(x) + i
        for _, m in self.by_name.items():
            x = m(x)
        x = self.subs[0](x) + self.settings["x"]
        out, (h, _) = self.rnn(x.unsqueeze(0))
        n = self.subs[1].in_python(3)
        if self.training:
            out = out * 2
        return out, h, n


class Unfit(nn.Module):
    def forward(self, x: Tensor) -> str:
        return x + 1


def unfit_operand(x: str):
    y = x
    return y - 1


def unfit_loop(n: int):
    x = 1
    for _ in range(n):
        x = "a"
    return x


def with_try(x):
    try:
        return x
    except ValueError:
        return x


def goes_on(n: int):
    t = 0
    for i in range(n):
        t += 1
        if i == 2:
            t += 50
            continue
        elif i == 5:
            t += 1000
            break
        elif t > 5000:
            return t
        t += 7
    return t


def exits_of_exits(n: int):
    t = 0
    for i in range(n):
        if i % 2 == 0:
            if i == 4:
                continue
            t += 1
        for j in range(3):
            if j == 1:
                break
            t += 10
        t += 100
    return t


def chained(x: List[int], i: int):
    return len(x) > i > x[i], 0 < x.pop() < 10, len(x)


def chained_tensors(x):
    return bool(0 < x.sum() < 10), 1 < x


def items_once(x: List[int], d: Dict[str, int], t: Tensor):
    q = [0, 1, 2]
    x[q.pop()] += 7
    d["a"] -= 2
    t[t > 0.5] += 10
    t[0, 1:] *= 3
    t[[0, 1], [1, 0]] -= 1
    return x, q, d, t


def stripped(s: str):
    return s.strip(), s.strip(" "), s.lstrip(" "), s.rstrip()
