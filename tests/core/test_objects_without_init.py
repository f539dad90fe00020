"""Objects of the core made by `cls.__new__(cls)`: whatever is done with them is an answer or an error.

Each class is used in a process of its own kind: a fault of memory would end it.
"""

import subprocess
import sys

_USES = r"""
import gc
from facula import core

ARGUMENTS = ((), (None,), (0,), (1, 2), ([],), ({},), ("f4",), (lambda *a: None,))

def used(made):
    for ask in (repr, str, hash, len, bool, iter, list):
        try:
            ask(made)
        except Exception:
            pass
    for name in dir(made):
        try:
            value = getattr(made, name)
        except Exception:
            continue
        if name in ("__class__", "__init_subclass__", "__subclasshook__") or not callable(value):
            continue
        for given in (*ARGUMENTS, (made,), (made, made)):
            try:
                value(*given)
            except Exception:
                pass
    for name in dir(made):
        try:
            setattr(made, name, None)
        except Exception:
            pass

count = 0
for name, cls in sorted(vars(core).items()):
    if not isinstance(cls, type):
        continue
    try:
        made = cls.__new__(cls)
    except Exception:
        continue
    print(name, flush=True)
    used(made)
    del made
    gc.collect()
    count += 1
print("used", count)
"""


def test_no_class_of_the_core_crashes_without_its_init():
    ran = subprocess.run(
        [sys.executable, "-c", _USES], capture_output=True, text=True, timeout=300, check=False
    )
    last = ran.stdout.strip().split("\n")[-1]
    assert ran.returncode == 0, f"{last}: {ran.returncode}\n{ran.stderr[-2000:]}"
    assert last.startswith("used") and int(last.split()[1]) > 30
