"""`from facula import *`, in a process of its own: every name that it promises is there, and only PyTorch's."""

import subprocess
import sys


def test_all_names_are_there():
    code = (
        "from facula import *\nimport facula\n"
        "assert add is facula.add and nn is facula.nn\n"
        "assert not {'vision', 'audio', 'text', 'arrow', 'csprng'} & set(globals())"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
