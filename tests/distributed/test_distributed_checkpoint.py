"""Checkpoints of many ranks: read by others, whole whatever happens while the next one is written."""

from __future__ import annotations

import ranks


def run(program: str, size: int, folder: object, **options) -> list:
    return ranks.run(f"{program} {folder}", size, script="sharded_programs.py", **options)


def test_what_some_ranks_wrote_others_read(tmp_path):
    for _ in range(2):  # the second one takes the first one's place
        names = run("save_state", 3, tmp_path)[0]
        assert len(names) == 3 and len(set(names)) == 1
    for size in (1, 2):
        for got in run("load_state", size, tmp_path):
            assert got[:6] == [True, [0, 1, 2, 3], 17, [1, 1], {"x": True}, "t"]
            assert "'other'" in got[6][1] and "size mismatch" in got[7][1]


def test_training_goes_on_from_a_checkpoint(tmp_path):
    for want, got, kind, rate in run("training", 2, tmp_path):
        assert got == want and kind == "Tensor" and rate == 0.05


def test_the_last_checkpoint_stays_whole(tmp_path):
    first = run("broken", 2, tmp_path, dying=[1])[0]
    assert first[0][0] == "CheckpointException" and "rank 1: OSError: no space left" in first[0][1]
    assert "rank 1" in first[1][1] and first[2:] == [17, [0, 1, 2, 3]]
