# ruff: noqa: B905, E741, F841, UP031 - the cases use all of Python
"""Python in compiled functions: results, effects and errors are those of the plain function.

PYTEST_DONT_REWRITE: captured functions hold assertions of their own.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import math
import operator

import numpy as np
import pytest
from capturing import Graphs, equal

import facula
from facula.utils.checkpoint import checkpoint

CASES: list = []


def case(*args, **kw):
    def put(f):
        CASES.append((f, args, kw))
        return f

    return put


x = facula.arange(1.0, 5.0)


class Color(enum.Enum):
    R = 1
    B = 2


@dataclasses.dataclass
class P:
    a: object
    b: int = 2

    def tot(self):
        return self.a * self.b


class Prop:
    k = 3

    def __init__(self, v):
        self._v = v
        self.n = 0

    @property
    def v(self):
        return self._v

    @v.setter
    def v(self, val):
        self._v = val
        self.n += 1

    @classmethod
    def make(cls, v):
        return cls(v)

    @staticmethod
    def st(a):
        return a * 2

    def __call__(self, q):
        return q * self._v

    def __getitem__(self, i):
        return self._v + i

    def __len__(self):
        return 4

    def __iter__(self):
        return iter([1, 2, self._v])

    def __contains__(self, i):
        return i == 7

    def __add__(self, o):
        return Prop(self._v + (o._v if isinstance(o, Prop) else o))

    __radd__ = __add__

    def __eq__(self, o):
        return isinstance(o, Prop) and self._v == o._v

    def __enter__(self):
        self.n += 10
        return self

    def __exit__(self, *e):
        self.n -= 1
        return e[0] is ValueError

    def __bool__(self):
        return self._v > 0


class Desc:
    def __get__(self, o, t=None):
        return o._d * 2

    def __set__(self, o, v):
        o._d = v


class WithDesc:
    d = Desc()
    __slots__ = ("_d",)

    def __init__(self):
        self.d = 5


class Sub(Prop):
    def __call__(self, q):
        return super().__call__(q) + 1


@case(x)
def prop(x):
    p = Prop.make(3)
    p.v = 4
    s = Sub(2)
    with p as q:
        z = q(x)
    with p:
        raise ValueError
    return (
        p.n,
        z,
        p.st(x),
        p[1],
        len(p),
        list(p),
        7 in p,
        8 in p,
        (p + 1)._v,
        (1 + p)._v,
        p == Prop(4),
        bool(p),
        s(x),
        Prop.k,
        sum(p),
        [*p],
        isinstance(s, Prop),
    )


@case(x)
def desc(x):
    w = WithDesc()
    w.d = 7
    return x * w.d


@case(x)
def gen(x):
    def g(n):
        for i in range(n):
            r = yield x * i
            if r:
                yield r
        return 5

    def h():
        v = yield from g(2)
        yield v

    it = g(3)
    a = next(it)
    b = it.send(9)
    return (
        a,
        b,
        list(h()),
        [*g(2)],
        sum(v for v in g(3)),
        dict((i, v) for i, v in enumerate(g(2))),
        {k: v for k, v in zip("ab", g(2), strict=True)},
    )


@case(x)
def coll(x):
    d = collections.OrderedDict(a=1)
    d["b"] = x
    dd = collections.defaultdict(list)
    dd["q"].append(x)
    dq = collections.deque([1, 2], maxlen=2)
    dq.append(x)
    dq.appendleft(3)
    l = [3, 1, 2]
    l.sort(reverse=True)
    l.insert(1, 9)
    l.remove(1)
    l += [4]
    l *= 2
    l[1:3] = [0]
    del l[0]
    s = {1, 2} | {3}
    s.add(5)
    s -= {1}
    t = (1,) * 2 + (3,)
    e = {**d, "c": 2}
    e.update(z=1)
    e.pop("c")
    e.setdefault("y", 7)
    return (
        d,
        dict(dd),
        dq,
        l,
        sorted(s),
        t,
        e,
        list(e.keys()),
        list(e.items())[-1],
        max(l),
        min(3, 1),
        any(l),
        all(l),
        l.index(4),
        l.count(4),
        list(reversed(l)),
        l[::-1],
        sorted(l, key=lambda v: -v),
        tuple(map(lambda a, b: a + b, [1, 2], [3, 4])),
        list(filter(None, [0, 1])),
    )


@case(x)
def func(x):
    def outer(a, /, b, *c, d=1, **e):
        def inner(z):
            nonlocal b
            b += 1
            return a * z + b + sum(c) + d + sum(e.values())

        return inner

    f = outer(x, 2, 3, 4, d=5, q=6)
    p = functools.partial(outer, x, b=1)

    @functools.wraps(f)
    def w(*a, **k):
        return f(*a, **k)

    return (
        f(2),
        f(2),
        p(d=2)(1),
        w(1),
        functools.reduce(lambda a, b: a * b, [1, 2, 3]),
        (lambda *a: a)(*[1, 2]),
        w.__name__,
    )


@case(x)
def exc(x):
    out = []

    def bad(k):
        if k == 0:
            raise KeyError("k")
        if k == 1:
            raise ValueError("v", 1)
        return [][k]

    for k in range(3):
        try:
            bad(k)
        except KeyError as e:
            out.append(str(e))
            out.append(repr(e))
        except (ValueError, IndexError) as e:
            out.append(e.args)
            out.append(type(e).__name__)
        else:
            out.append("no")
        finally:
            out.append(k)
    try:
        try:
            raise RuntimeError("a")
        except RuntimeError as e:
            raise TypeError("b") from e
    except TypeError as e:
        out.append(str(e.__cause__))

    def fin():
        try:
            return 1
        finally:
            out.append("f")

    fin()
    try:
        assert x.dim() == 3, "dim"
    except AssertionError as e:
        out.append(str(e))
    return out


@case(x)
def ctx(x):
    with facula.no_grad():
        a = facula.is_grad_enabled()
        y = x * 2
    with facula.enable_grad():
        b = facula.is_grad_enabled()
    with facula.set_grad_enabled(False):
        c = facula.is_grad_enabled()
    with contextlib.nullcontext(3) as n:
        pass
    with contextlib.ExitStack() as st:
        st.enter_context(facula.no_grad())
        d = facula.is_grad_enabled()
    with contextlib.suppress(ValueError):
        raise ValueError

    @contextlib.contextmanager
    def cm(v):
        try:
            yield v * 2
        finally:
            pass

    with cm(x) as q:
        pass
    with facula.inference_mode():
        z = facula.is_inference_mode_enabled()
    return a, b, c, d, n, q, z, facula.is_grad_enabled()


@case(x)
def ng(x):
    @facula.no_grad()
    def f(y):
        return y * 2, facula.is_grad_enabled()

    return f(x)


@case(x)
def autocast(x):
    with facula.autocast("cpu", dtype=facula.bfloat16):
        y = x.reshape(2, 2) @ x.reshape(2, 2)
    return y.dtype == facula.bfloat16, y.float()


@case(x)
def text(x):
    n = 3
    s = "a,b".split(",")
    return (
        f"{n:03d}{x.shape[0]}{x.dtype}",
        s,
        ",".join(s),
        "%d-%s" % (n, "q"),
        f"{1} {2}",
        s[0].upper(),
        "a" in "abc",
        str(n),
        repr("x"),
        ascii("q"),
        int("3"),
        float("2.5"),
        round(2.567, 1),
        divmod(7, 2),
        abs(-3),
        chr(65),
        ord("A"),
        hex(10),
        math.sqrt(4),
        math.pi,
        7 // 2,
        -7 % 3,
        2**5,
    )


@case(x)
def enumeration(x):
    c = Color.R
    return x if c is Color.R else -x, c.value, c.name, {Color.R: 1}[c], Color(2) == Color.B


@case(x, P(x, 3))
def dc(x, p):
    q = P(x * 2)
    r = dataclasses.replace(q, b=5)
    p.b += 1
    return q, r, p.tot(), dataclasses.asdict(r)["b"], [f.name for f in dataclasses.fields(p)]


@case(x)
def iteration(x):
    c = itertools
    return (
        list(c.chain([1], [2])),
        list(c.product([1, 2], [3])),
        list(c.islice(c.count(), 3)),
        list(c.accumulate([1, 2, 3])),
        list(c.zip_longest([1], [2, 3])),
        list(c.permutations([1, 2])),
        [a for a, _ in zip(c.repeat(1), range(2))],
        list(c.starmap(pow, [(2, 3)])),
        list(c.combinations([1, 2, 3], 2)),
        operator.add(1, 2),
        operator.itemgetter(1)([5, 6]),
    )


@case(x)
def loop(x):
    r = x
    for i, m in enumerate([facula.sin, facula.cos]):
        if i == 5:
            break
        r = m(r)
    else:
        r = r + 1
    i = 0
    while True:
        i += 1
        if i == 2:
            continue
        if i > 3:
            break
    return r, i


@case(x)
def tens(x):
    a, b = x.reshape(2, 2)
    y = facula.zeros(3)
    y[1] = 2.0
    y[1:] += 1
    z = [v * 2 for v in x]
    return (
        a,
        b,
        y,
        z,
        x.T if x.dim() == 2 else x,
        x.shape,
        x.size(0),
        x.numel(),
        len(x),
        x.dtype,
        x.device,
        x.ndim,
        x.requires_grad,
        x.is_contiguous(),
        -x,
        ~(x > 2),
        2 - x,
        x // 2,
        x % 2,
        x**2,
        2**x,
        x @ x,
        x[None].shape,
        x[..., 0],
        x[[0, 1]],
        x.max(0),
        facula.stack([a, b]).mean(dim=0, keepdim=True),
        x.split(2),
        x.to(facula.float64),
        x.new_zeros(2),
        facula.ones_like(x),
        isinstance(x, facula.Tensor),
        facula.is_tensor(x),
        x is x,
        x.clone() is x,
        hasattr(x, "foo"),
        getattr(x, "foo", 3),
        x.T.shape,
    )


@case(x, {"k": [x, (1, x)]}, flag=True)
def keywords(x, d, *r, flag=False, **k):
    d["k"].append(5)
    d["n"] = {"m": x + 1}
    a, *b = d["k"]
    return b, flag, r, k, d


class MyFn(facula.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a * 3

    @staticmethod
    def backward(ctx, g):
        return g * 3


@case(x)
def fn(x):
    return MyFn.apply(x) + 1


@case(x)
def transforms(x):
    return facula.vmap(lambda v: v * 2)(x), facula.func.grad(lambda v: (v**2).sum())(x)


@case(x)
def ck(x):
    return checkpoint(lambda v: v.sin() * 2, x, use_reentrant=False)


G = [0]
GV = 1


@case(x)
def globals_(x):
    global GV
    GV += 1
    G[0] += 1
    G.append(2)
    return x * GV, G[0], len(G)


@case(x)
def builtins_(x):
    a = 1
    return (
        sorted(locals()),
        type(x).__name__,
        callable(fn),
        vars(P(1))["b"],
        isinstance(3, (int, str)),
        issubclass(bool, int),
        id(x) == id(x),
        P(1) == P(1),
        P.__name__,
        hasattr(P(1), "zz"),
        slice(1, 2).start,
        range(5)[1:3],
        list(range(3)),
        bytes(2),
        type(None),
        NotImplemented is NotImplemented,
    )


@case(x)
def matching(x):
    def m(c):
        match c:
            case P(a=v, b=2):
                return v
            case Color.R:
                return "r"
            case [1, [a, *_]]:
                return a
            case 1 | 2:
                return "n"
            case {"q": y, **r}:
                return (y, r)
            case str():
                return "s"
            case _ if c is None:
                return "none"

    return m(P(x)), m(Color.R), m([1, [7, 8]]), m(2), m({"q": 1, "z": 2}), m("s"), m(None)


@case(x)
def closure_mut(x):
    cnt = 0
    fs = []
    for i in range(3):
        fs.append(lambda y, i=i: y * i)

    def inc():
        nonlocal cnt
        cnt += 1
        return cnt

    inc()
    inc()
    return [f(x) for f in fs], cnt, inc()


@case(x)
def numpy_(x):
    return x * np.float32(2.0), np.pi, x + float(np.sqrt(4.0))


def outcome(function, arguments, words):
    """What a call gives, and what it did to its arguments and the globals."""
    global GV
    GV, G[:] = 1, [0]
    arguments = copy.deepcopy(arguments)
    try:
        result = function(*arguments, **words)
    except Exception as error:  # noqa: BLE001 - it is compared
        result = repr(error)
    return result, list(arguments), GV, list(G)


@pytest.mark.parametrize(
    ("function", "arguments", "words"), CASES, ids=lambda v: getattr(v, "__name__", "")
)
def test_equals_plain(function, arguments, words):
    compiled = facula.compile(function, backend=Graphs())
    for _ in range(2):
        assert equal(outcome(compiled, arguments, words), outcome(function, arguments, words))


@pytest.mark.parametrize(
    ("function", "arguments", "words"),
    [c for c in CASES if c[0].__name__ not in ("dc", "builtins_")],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_is_one_graph(function, arguments, words):
    compiled = facula.compile(function, backend=Graphs(), fullgraph=True)
    assert equal(outcome(compiled, arguments, words), outcome(function, arguments, words))
