"""Launches are checked against what kernels say of their operands.

Expected extents are numbers worked out by hand; wrong kernels are C libraries made here.
"""

import subprocess
import sys

import pytest

import facula
from facula import core
from facula.runtime.compile import compile_library

DRIVER = """
#include "facula_abi.h"
static int run(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt) { return 0; }
static void map(char *const *p, const fk_scalar *s, int64_t n) { }
const int facula_abi = FACULA_ABI;
const fk_entry facula_kernels[] = { ENTRIES {0} };
"""


def library(*entries):
    """A library with drivers (or maps) of these names and operands."""
    rows = [
        f"{{\"{name}\", '{kind}', (void *){'map' if kind == 'm' else 'run'}, {text}}},"
        for name, kind, text in entries
    ]
    return compile_library(DRIVER.replace("ENTRIES", " ".join(rows)))


def launched(name, tensors, ints=(), scalars=(), **more):
    with pytest.raises(RuntimeError) as caught:
        core.kernel(name)(tensors, ints, scalars, **more)
    return str(caught.value)


def empty(*shape, dtype="float32"):
    return core.empty(shape, dtype=getattr(facula, dtype))


def test_dtype():
    said = launched("sum:i32", (empty(2, dtype="int32"), empty(2, 3, dtype="int32")), (2, 3, 1, 1))
    assert said.startswith("[kernel sum:i32] int64 was required as 'result' (operand 0)")
    assert "got int32\nhint: " in said


@pytest.mark.parametrize("given", [(1, 6), (2, 5)])
def test_extent(given):
    said = launched("sum:f32", (empty(given[0]), empty(given[1])), (2, 3, 1, 1))
    short = given.index(min(given)) if given[0] < 2 else 1
    name, wanted = (("result", 2), ("x", 6))[short]
    assert f"memory for {wanted} elements was required as '{name}' (operand {short}): got" in said


def test_memory_from_the_tensor_on_counts():
    whole = facula.zeros(10)
    core.kernel("sum:f32")((empty(2), whole[4:]), (2, 3, 1, 1))
    said = launched("sum:f32", (empty(2), whole[5:]), (2, 3, 1, 1))
    assert "memory for 6 elements was required as 'x' (operand 1): got 5" in said
    core.kernel("sum:f32")((empty(2), whole[4:5]), (2, 3, 1, 1))  # the storage has the rest


def test_memory_before_a_tensor_counts():
    x = facula.arange(6, dtype=facula.float32)
    out = empty(3)
    core.kernel("arrange:b4")((out, x[2:]), (1, 0, 3, -1), (), total=1)
    assert out.tolist() == [2, 1, 0]
    said = launched("arrange:b4", (out, x[1:]), (1, 0, 3, -1), total=1)
    assert (
        "memory for 2 elements before its first was required as 'self' (operand 1): got 1" in said
    )


def test_counts_and_missing_operands():
    x, out = empty(6), empty(2)
    assert "4 sizes were required: got 3" in launched("sum:f32", (out, x), (2, 3, 1))
    assert "0 scalars were required: got 1" in launched("sum:f32", (out, x), (2, 3, 1, 1), (1.0,))
    assert "2 operands or more were required: got 1" in launched("sum:f32", (out,), (2, 3, 1, 1))
    assert "2 operands were required: got 3" in launched("sum:f32", (out, x, x), (2, 3, 1, 1))
    assert "a tensor was required as 'x'" in launched("sum:f32", (out, None), (2, 3, 1, 1))


def test_a_launch_of_nothing_needs_no_memory():
    core.kernel("arange:f32")((empty(0),), (), (0.0, 1.0), total=0)


def test_any_dtype_of_a_size():
    out, x = empty(2, 2, dtype="int32"), empty(2, 2)
    core.kernel("triangle:b4")((out, x), (2, 2, 0, 0), (), total=2)
    wide = empty(2, 2, dtype="float64")
    assert "a dtype of 4 bytes was required as 'self'" in launched(
        "triangle:b4", (out, wide), (2, 2, 0, 0), total=2
    )


#: extent, sizes, elements
EXPRESSIONS = [
    ("n0*n1+1", (3, 4), 13),
    ("2+3*4-(5-1)*2", (), 6),
    ("17/5*100+17%5", (), 302),
    ("n[n0+1]", (1, 7, 9), 9),
    ("max(n0,n1)*10+min(n0,n1)", (3, 4), 43),
    ("if(n0=2,5,7)*10+if(n0<2,5,7)", (2,), 57),
    ("span(2,100,3,10,4,1)", (), 124),
    ("span(2,100,0,10)+1", (), 1),
    ("span(5,0)", (), 1),
    ("high(2,0,2)", (3, 4, 10, 2), 27),
    ("high(2,0,2)-low(2,0,2)", (3, 4, 10, -2), 27),
    ("product(3,1)*100+sum(3,1)", (9, 2, 3, 4), 2409),
    ("n9+5", (1,), 5),
]


def test_expressions():
    entries = [
        (f"probe{k}", "d", f'"{len(sizes)};0;w out x1 {extent}+1000"')
        for k, (extent, sizes, _) in enumerate(EXPRESSIONS)
    ]
    core.load_library(library(*entries))
    for k, (extent, sizes, wanted) in enumerate(EXPRESSIONS):
        said = launched(f"probe{k}", (empty(1, dtype="uint8"),), sizes)
        assert f"memory for {wanted + 1000} elements was required as 'out'" in said, extent


def test_groups_come_in_turn():
    text = '"1+n0;0;*n0 r x f32 n[1+i];*n0 r y i64 i+1;*n0=2 w z f64 5"'
    core.load_library(library(("turns", "d", text)))
    short, long = empty(1), empty(4)
    places = [empty(k, dtype="int64") for k in (1, 2, 3)]
    core.kernel("turns")((long, places[0], short, places[1], empty(5, dtype="float64")), (2, 4, 1))
    core.kernel("turns")((long, places[0], short, places[1], long, places[2]), (3, 4, 1, 2))
    assert "for 4 elements was required as 'x' (operand 0)" in launched(
        "turns", (short, places[0]), (1, 4)
    )
    assert "for 2 elements was required as 'y' (operand 3)" in launched(
        "turns", (long, places[0], long, places[0], long), (2, 4, 4)
    )
    assert "float64 was required as 'z' (operand 4)" in launched(
        "turns", (long, places[0], long, places[1], long), (2, 4, 4)
    )


@pytest.mark.parametrize(
    "text",
    ["", "1", "1;0;w out f32", "1;0;q out f32 n0", "1;0;w out f33 n0", "1;0;w out f32 n0*",
     "1;0;w out f32 m0", "1;0;w out f32 (n0", "1;0;w out f32 max(n0)", "1;0;w out f32 span(n0,1,2)",
     "1;x;w out f32 n0", "1;0;w out f32 n0n1", "1;0;c n0", "1;0;m map n0"],
)  # fmt: skip
def test_texts_that_say_nothing_are_refused(text):
    with pytest.raises(ValueError, match="was required in the text of a kernel's operands"):
        core.check_operands(text)


def test_a_library_whose_kernels_say_nothing_is_refused():
    path = library(("silent", "d", "0"))
    with pytest.raises(ImportError, match="a text of its operands was required .* got none of sil"):
        core.load_library(path)
    assert not core.has_kernel("silent")


def test_every_loaded_kernel_says_what_it_touches():
    assert len(core.KERNELS) > 1000
    for name in core.KERNELS:
        contract = core.kernel(name).contract
        assert len(contract.dtypes) == len(contract.names) > 0 or name.startswith("fft.lanes"), name


#: a kernel of a wrong kind in place of a right one, and a call that finds it
REPLACED = [
    ("sinh:f64", "m", "0;0;w result f32 N;r x f64 N", "facula.rand(3).double().sinh()"),
    ("sinh:f32", "m", "0;0;w result f32 N", "facula.rand(3).sinh()"),
    ("sinh.grad0:f32", "m", "0;0;w result f32 N;r grad f32 N;r x f64 N",
     "facula.rand(3, requires_grad=True).sinh().sum().backward()"),
    ("sum:f32", "d", "4;0;w result f64 n0*n2;r x f32 n0*n1*n2*n3", "facula.rand(3).sum()"),
    ("softmax:f32", "d", "4;0;w result f32 n0*n1*n2;r x f32 n0*n1*n2", "facula.rand(3).softmax(0)"),
    ("gemm:f32", "d", "13;2;u C f32 n1*n2;r A f32 n1*n3;r B f32 n2*n3;r? bias f32 n2",
     "facula.mm(facula.rand(2, 2), facula.rand(2, 2))"),
]  # fmt: skip


@pytest.mark.parametrize("name, kind, text, call", REPLACED, ids=[r[0] for r in REPLACED])
def test_launches_from_the_core_know_what_their_kernels_touch(name, kind, text, call):
    path = library((name, kind, f'"{text}"'))
    program = (
        f"import facula\nfrom facula import core\ncore.load_library({str(path)!r})\n"
        f"try:\n    {call}\nexcept RuntimeError as error:\n    print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith(f"[kernel {name}] "), run.stdout + run.stderr


def test_a_compiled_graph_is_checked_when_it_is_made():
    core.load_library(library(("planned", "d", '"0;0;w out f32 4;r x f32 4;u arena bytes 64"')))
    four, three, other = ((4,), (1,), facula.float32), ((3,), (1,), facula.float32), None
    other = ((4,), (1,), facula.int32)

    def made(inputs, results, arena):
        return core.GraphLaunch(
            core.kernel("planned"), [inputs], [results], [(1, 0), (0, 0), (3, 0)], [], [], arena,
            [(1, 0)],
        )  # fmt: skip

    made(four, four, 64)([facula.zeros(4)])
    for arguments, message in (
        ((four, three, 64), "for 4 elements was required as 'out' (operand 0): got 3"),
        ((other, four, 64), "float32 was required as 'x' (operand 1): got int32"),
        ((four, four, 63), "for 64 elements was required as 'arena' (operand 2): got 63"),
    ):
        with pytest.raises(RuntimeError) as caught:
            made(*arguments)
        assert message in str(caught.value)


@pytest.mark.parametrize(
    "sizes",
    [
        (2**62, 1, 4, 1),  # 2**64 results are 0 in 64 bits
        (2**32, 2**31, 2**31, 2),
        (-1, 3, -2, 1),  # two negative sizes are no positive one
        (-1, 3, 2, 1),
    ],
)
def test_sizes_that_do_not_fit(sizes):
    said = launched("sum:f32", (empty(8), empty(8)), sizes)
    assert "of at least 0, with products of at most 64 bits, were required for 'result'" in said


def test_items_whose_bytes_do_not_fit():
    said = launched("square:f32", (empty(1), empty(1)), total=2**62)
    assert f"memory for {2**62} elements was required as 'result0' (operand 0): got 1" in said


def test_numbers_of_coordinates_that_do_not_fit():
    index = empty(4, dtype="int64")
    for count in (-1, 2**62):  # 5 + 4 * 2**62 sizes are 5 in 64 bits
        said = launched("gather:b4", (empty(4), empty(4), index), (count, 0, 1, 0, 0), total=2)
        assert "sizes of at least 0, with products of at most 64 bits, were required" in said


def test_quotients_of_zero():
    """Planes of no pixels: the number of images would be their quotient."""
    sizes = [1] * 22
    sizes[5] = 0
    said = launched("max_pool:f32", (empty(64), empty(64), empty(64)), sizes, total=1)
    assert "were required for 'input'" in said


POOL = (6, 1, 1, 7, 8, 1, 4, 7, 1, 3, 2, 1, 2, 1, 0, 1, 0, 1, 1, 1, 1, 0)
CONV = (2, 3, 5, 6, 4, 3, 2, 1, 2, 1, 0, 1, 1, 1, 5, 3, 0, 0, 0)
FOLD = (6, 5, 6, 3, 4, 3, 2, 1, 2, 1, 0, 2, 1)
ATTENTION = (1, 2, 2, 5, 7, 4, 3, 0, 0, 0, 0, 0, 0, 40, 20, 4, 56, 28, 4, 42, 21, 3, 30, 15, 3)
GRID = (2, 3, 1, 5, 6, 1, 4, 3, 2, 0, 0, 0)
#: kernel, elements of its operands, sizes that serve, (place of a size, what it becomes) each of
#: which is refused, items
BAD_SIZES = [
    ("avg_pool:f32", (168, 336), POOL, [(13, 0), (11, -1), (17, 0), (10, 9), (14, -1), (13, 9)], 24),
    ("avg_pool.grad:f32", (336, 168), POOL, [(13, 0), (12, 0), (11, 0), (18, 0), (10, 2**62)], 6),
    ("max_pool:f32", (168, 168, 336), (*POOL[:20], 4, 0), [(13, 0), (19, 0), (8, 0), (10, 2**62)], 24),
    ("conv2d_forward:f32", (216, 180, 72, None), CONV,
     [(7, 0), (11, 0), (13, 0), (13, 2), (1, 0), (5, 0), (14, 9)], None),
    ("conv2d_backward_data:f32", (180, 120, 72), CONV, [(7, 0), (8, 0), (7, -3), (4, 0), (6, 0)], None),
    ("conv2d_backward_weight:f32", (72, 120, 180, None), CONV, [(8, 0), (13, 5), (15, 0), (12, 0)], None),
    ("fold:f32", (180, 432), FOLD, [(11, 0), (12, 0), (7, -1)], 6),
    ("unfold:b4", (432, 180), FOLD, [(11, 0), (12, 0), (8, 0)], 36),
    ("attention:f32", (30, 10, 40, 56, 42, None), ATTENTION, [(2, 0)], None),
    ("arrange:b4", (12, 12), (2, 0, 3, 4, 4, 1), [(2, 0), (3, 0)], 3),
    ("triangle:b4", (20, 20), (4, 5, 1, 0), [(0, 0)], 4),
    ("roll", (3, 3), (12, 4), [(1, -1), (1, 12)], 1),
    ("grid_sample:f32", (72, 180, 48), GRID, [(5, 0), (6, 0), (6, 1)], 8),
    ("grid_sample.grad.input:f32", (180, 72, 48), GRID, [(1, 0)], 2),
    ("topk:f32", (24, 24, 20), (4, 5, 2, 1), [(1, 0), (2, 6)], None),
    ("kth:f32", (4, 4, 20), (4, 5, 1, 0), [(1, 0), (2, -1), (2, 5)], None),
    ("sum:f32", (4, 4), (4, 0, 1, 1), [(3, 2**62)], None),
    ("gemm:f32", (15, 12, 20, None), (1, 3, 5, 4, 0, 4, 1, 0, 5, 1, 0, 5, 0), [(12, -1)], None),
    ("gather:b4", (4, 12, 4), (2, 1, 3, 0, 0, 4, 1, 1, 1, 3, 1, 1, 1), [(5, 0), (1, 5)], 4),
]  # fmt: skip
#: operands that are no float32
OTHERS = {
    "max_pool": {1: "int32"},
    "topk": {1: "int64"},
    "kth": {1: "int64"},
    "gather": {2: "int64"},
}
OTHERS["sum"] = {}


@pytest.mark.parametrize(
    "name, elements, sizes, changes, items", BAD_SIZES, ids=lambda v: str(v)[:16]
)
def test_sizes_that_a_kernel_would_divide_by_or_run_with(name, elements, sizes, changes, items):
    """Straight through `core.kernel` a stride of 0 ended the process with SIGFPE."""
    dtypes = OTHERS.get(name.partition(":")[0], {})
    tensors = [
        None
        if count is None
        else facula.zeros(count, dtype=getattr(facula, dtypes.get(k, "float32")))
        for k, count in enumerate(elements)
    ]
    numbers = {"attention": (0.5, 0.0, 0, 0), "gemm": (1.0, 0.0)}.get(name.partition(":")[0], ())
    core.kernel(name)(tensors, sizes, numbers, total=items)
    for at, value in changes:
        changed = (*sizes[:at], value, *sizes[at + 1 :])
        said = launched(name, tensors, changed, numbers, total=items)
        assert said.startswith(f"[kernel {name}] ") and "were required" in said, (at, value)


GEMM_WITH_MAP = (1, 3, 5, 4, 0, 4, 1, 0, 5, 1, 0, 5, 4096)


@pytest.mark.parametrize(
    "map, numbers, got",
    [
        ("mul:f32", (), "got mul:f32 for operands of"),
        ("sinh:f64", (), "got sinh:f64 for operands of"),
        ("eq:f32", (), "got eq:f32 for operands of"),
        ("sum:f32", (), "got an address where none stands"),
        (None, (), "got an address where none stands"),
        ("sinh:f32", (0.5,), "the scalars of sinh:f32 were required behind the first 2"),
    ],
)
def test_the_map_that_a_product_takes_has_one_operand(map, numbers, got):
    """A function of two operands read through a pointer that was not there."""
    out, a, b = empty(15), facula.ones(3, 4), facula.ones(4, 5)
    address = core.kernel(map).address if map else 64
    said = launched("gemm:f32", (out, a, b, None), (*GEMM_WITH_MAP, address), (1.0, 0.0, *numbers))
    assert said.startswith("[kernel gemm:f32] ") and "'map'" in said and got in said
    if map:
        numbers_of = (*CONV[:-1], 1, core.kernel(map).address)
        tensors = (empty(120), empty(180), empty(72), None)
        said = launched("conv2d_forward:f32", tensors, numbers_of, numbers)
        assert said.startswith("[kernel conv2d_forward:f32] ") and "'map'" in said


def test_a_map_of_one_operand_is_taken():
    out, a, b = facula.empty(3, 5), facula.ones(3, 4), facula.ones(4, 5)
    address = core.kernel("sinh:f32").address
    core.kernel("gemm:f32")((out, a, b, None), (*GEMM_WITH_MAP, address), (1.0, 0.0))
    assert out.tolist() == facula.full((3, 5), 4.0).sinh().tolist()


class Lying(list):
    """Says that it is short."""

    def __len__(self):
        return 1


def test_what_is_longer_than_it_says():
    """It was written behind the arrays that the said length had been checked against."""
    x = facula.ones(4)
    with pytest.raises((RuntimeError, ValueError), match="required"):
        core.kernel("square:f32")(Lying([x] * 5000), (), (), total=4)
    with pytest.raises((RuntimeError, ValueError), match="required"):
        core.kernel("square:f32")((x, x), Lying([1] * 5000), (), total=4)


@pytest.mark.parametrize("operator", ["var", "std", "var_mean", "std_mean"])
def test_nothing_may_be_read_from_behind_the_end(operator):
    """The imaginary parts of no elements start behind the storage's end: it was refused."""
    x = facula.zeros(2, 0, 3, dtype=facula.complex64)
    found = getattr(facula, operator)(x, 1)
    for part in found if isinstance(found, tuple) else (found,):
        assert part.shape == (2, 3) and bool(part.isnan().all())


@pytest.mark.parametrize("flags", [1, 2, 4, -8])
def test_weights_are_packed_without_what_follows_their_product(flags):
    """Flags tell of operands that packing has none of."""
    weight, room = facula.ones(4, 3, 3, 3), facula.empty(1 << 16, dtype=facula.uint8)
    sizes = (1, 3, 6, 6, 4, 3, 3, 1, 1, 0, 0, 1, 1, 1, 4, 4, 1, 1)
    pack = core.kernel("conv2d_pack:f32")
    pack((room, weight), (*sizes, 8))
    with pytest.raises(RuntimeError, match="conv2d_pack"):
        pack((room, weight), (*sizes, flags, *((0,) if flags & 1 else ())))
