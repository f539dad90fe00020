"""Sizes that no loop may walk: empty tensors with dimensions of 2**60, and windows of 2**40.

Each call runs in one child process, which an alarm ends where a call takes seconds: what takes none
here would take years. Values come from short windows that reach as far.
"""

import subprocess
import sys

import facula

VAST = 2**60

#: calls that give an empty tensor of such a shape, or one that is written beside
EMPTY = {
    "F.softmax(rows, 1)": (VAST, 0),
    "F.softmax(rows, 0)": (VAST, 0),
    "F.log_softmax(rows.half(), 1)": (VAST, 0),
    "rows.clone().requires_grad_().softmax(1).sum().backward() or rows": (VAST, 0),
    "F.gumbel_softmax(rows)": (VAST, 0),
    "facula.compile(lambda x: x.softmax(1) + 1)(rows)": (VAST, 0),
    "rows.sort(0)[0]": (VAST, 0),
    "rows.sort(1)[1]": (VAST, 0),
    "rows.cumsum(0)": (VAST, 0),
    "rows.sum(0)": (0,),
    "rows.logsumexp(0)": (0,),
    "F.batch_norm(facula.zeros(VAST, 3, 0), facula.zeros(3), facula.ones(3))": (VAST, 3, 0),
    "F.max_pool1d(facula.zeros(0, 3, VAST), 2)": (0, 3, VAST // 2),
    "facula.linalg.matrix_power(facula.zeros(VAST, 0, 0), 3)": (VAST, 0, 0),
    "rows.unique(dim=1)": (VAST, 0),
    "facula.ops.table.registry.F._lstm_layer(facula.zeros(VAST, 0, 2), *[facula.zeros(0, 3)] * 2, "
    "facula.zeros(12, 2), facula.zeros(12, 3), None, False)[0]": (VAST, 0, 3),
}
#: calls that could only give more objects than there is memory for
REFUSED = (
    "columns.unbind(1)",
    "columns.split(1, 1)",
    "columns.chunk(VAST, 1)",
    "columns.tensor_split(VAST, 1)",
    "next(iter(rows))",
    "rows.tolist()",
    "facula.nn.GRU(3, 4)(facula.zeros(VAST, 0, 3))",
)
#: windows longer than the image, and as long as the image
WINDOWS = {
    "F.avg_pool1d(x, 2**40, 2**40, ceil_mode=True)": "x.mean(2, True)",
    "F.max_pool1d(x, 2**40, 2**40, ceil_mode=True)": "x.amax(2, True)",
    "F.max_pool1d(x, 7, 2**62, padding=3)": "F.max_pool1d(x, 7, 100, padding=3)",
    "F.local_response_norm(x, 2**40, alpha=2.0**40)": "x / (1 + (x * x).sum(1, True)) ** 0.75",
    "F.local_response_norm(x, 9, alpha=9.0)": "x / (1 + (x * x).sum(1, True)) ** 0.75",
    "F.local_response_norm(x, 3, alpha=3.0)": "x / (1 + (x * x).sum(1, True)) ** 0.75",
}

CHILD = """
import signal, warnings
import facula
F, VAST = facula.nn.functional, 2**60
rows, columns = facula.zeros(VAST, 0), facula.zeros(0, VAST)
x = facula.rand(2, 2, 6)
warnings.simplefilter("ignore")

def call(text):
    print(text, end=": ", flush=True)
    signal.alarm(20)
    try:
        return eval(text)
    finally:
        signal.alarm(0)

for text, shape in EMPTY.items():
    found = call(text)
    print(tuple(found.shape) == shape)
for text in REFUSED:
    try:
        print("gave", type(call(text)))
    except RuntimeError as error:
        print(str(error).startswith("[") and "at most 2147483648" in str(error))
for text, short in WINDOWS.items():
    found = call(text)
    print(bool(facula.isclose(found, eval(short)).all()))
print("all")
"""


def test_nothing_walks_what_is_not_there():
    given = f"EMPTY, REFUSED, WINDOWS = {EMPTY!r}, {REFUSED!r}, {WINDOWS!r}\n"
    run = subprocess.run([sys.executable, "-c", given + CHILD], capture_output=True, text=True)
    said = run.stdout.splitlines()
    wrong = [line for line in said if not line.endswith(": True")]
    assert wrong == ["all"], (wrong, run.returncode, run.stderr[-2000:])
    assert len(said) == 1 + len(EMPTY) + len(REFUSED) + len(WINDOWS)


def test_a_window_of_no_channels_is_refused():
    for size in (0, -3):
        try:
            facula.nn.functional.local_response_norm(facula.ones(1, 2, 3), size)
        except RuntimeError as error:
            assert "kernel size should be greater than zero" in str(error)
        else:
            raise AssertionError(size)
