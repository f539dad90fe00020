"""What the programs of this folder begin with, inside of a rank.

Takes: the environment that `ranks.run` gives. Gives: `begin`, which joins the world; `error_of`.
Keeps true: nothing waits longer than it was told to.
"""

from __future__ import annotations

import datetime
import json
import os
from typing import Any

from facula import distributed as dist


def begin(seconds: float = 60) -> tuple[int, int]:
    """Join the world: this rank, and how many there are."""
    dist.init_process_group(
        os.environ.get("TEST_ENGINE", "gloo"), timeout=datetime.timedelta(seconds=seconds)
    )
    return dist.get_rank(), dist.get_world_size()


def tell(result: Any) -> None:
    """Give the test this rank's result: what several ranks print may mix."""
    folder = os.environ.get("TEST_RESULTS")
    if folder is None:
        print(json.dumps(result))
        return
    rank = next(os.environ[n] for n in ("OMPI_COMM_WORLD_RANK", "RANK") if n in os.environ)
    with open(os.path.join(folder, rank), "w") as file:
        json.dump(result, file)


def error_of(function: Any, *args: Any, **kwargs: Any) -> list[str]:
    """The type and text of what a call raises."""
    try:
        function(*args, **kwargs)
    except Exception as error:
        return [type(error).__name__, str(error)]
    return ["none", ""]
