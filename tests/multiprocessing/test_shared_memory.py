"""Memory that processes share is shared: what one writes the others see, under both strategies.

Each child is a process that Python starts anew (`spawn`), and it is waited for with a deadline.
"""

import copy
import gc
import glob
import io
import os
import pickle
import subprocess
import sys
import textwrap
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

import facula
import facula.multiprocessing as mp
from facula import core, shared_memory

SECONDS = 240
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture(params=["file_descriptor", "file_system"])
def strategy(request):
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy(request.param)
    yield request.param
    mp.set_sharing_strategy(before)


@pytest.fixture
def strategy_of_files():
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy("file_system")
    yield
    mp.set_sharing_strategy(before)


def named_files(process="*"):
    """The files that a process made, or all but those of other living families of processes."""
    found = set(glob.glob(f"/dev/shm/facula-shared-*-*-{process}-*"))
    return {path for path in found if not of_others(int(path.split("-")[3]))}


def of_others(family):
    """Whether the first process of a family runs, and is neither above this one nor below it."""
    own = os.getpid()
    return os.path.exists(f"/proc/{family}") and family not in line(own) and own not in line(family)


def line(process):
    """A process, and those that it descends from."""
    found = []
    while process != 0:
        found.append(process)
        try:
            with open(f"/proc/{process}/stat") as status:
                process = int(status.read().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            break
    return found


def run(function, *args):
    """One new process; its exit status must be 0."""
    process = mp.get_context("spawn").Process(target=function, args=args)
    process.start()
    process.join(SECONDS)
    alive = process.is_alive()
    if alive:
        process.kill()
        process.join()
    assert not alive and process.exitcode == 0


def add_one(tensor):
    assert tensor.is_shared()
    tensor.add_(1)


def echo(questions, answers, strategy):
    mp.set_sharing_strategy(strategy)
    while True:
        tensor = questions.get(timeout=SECONDS)
        if tensor is None:
            return
        tensor.mul_(10)
        answers.put(tensor)
        questions.get(timeout=SECONDS)  # lives until the other side has it


def make_and_wait(answers, questions, strategy):
    mp.set_sharing_strategy(strategy)
    tensor = facula.arange(4.0)
    answers.put(tensor)
    answers.put("sent")
    questions.get(timeout=SECONDS)
    assert tensor.tolist() == [7.0, 1.0, 2.0, 3.0]


def same_storage(pair):
    whole, part = pair
    part.fill_(5)
    assert whole.tolist() == [0.0, 5.0, 5.0, 3.0]


def train(rank, model, ready):
    facula.manual_seed(rank)
    optimizer = facula.optim.SGD(model.parameters(), lr=0.05)
    ready.put(rank)
    for _ in range(200):
        inputs = facula.randn(16, 2)
        wanted = inputs @ facula.tensor([[2.0], [-3.0]]) + 0.5
        optimizer.zero_grad()
        facula.nn.functional.mse_loss(model(inputs), wanted).backward()
        optimizer.step()


def write_rank(rank, tensor):
    tensor[rank] = rank + 1.0


def write_typed(storage):
    storage[1] = 9.0


# ------------------------------------------------------------------ in one process


def test_sharing_moves_the_storage_under_every_tensor_on_it(strategy):
    whole = facula.arange(6.0)
    part, storage, later = whole[2:], whole.untyped_storage(), whole.view(2, 3)
    assert not whole.is_shared() and not storage.is_shared()
    assert part.share_memory_() is part
    assert whole.is_shared() and later.is_shared() and storage.is_shared()
    part[0] = 50
    later[1, 2] = 70
    assert whole.tolist() == [0.0, 1.0, 50.0, 3.0, 4.0, 70.0]
    assert part.data_ptr() - whole.data_ptr() == 8
    assert storage.data_ptr() == whole.data_ptr()


def test_sharing_keeps_what_earlier_views_of_others_read(strategy):
    array = np.arange(4.0)
    tensor = facula.from_numpy(array)
    seen = tensor.numpy()
    assert tensor.share_memory_().is_shared()
    tensor[0] = 9
    assert tensor.tolist() == [9.0, 1.0, 2.0, 3.0]
    assert array.tolist() == seen.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_gradients_and_parameters_survive_sharing(strategy):
    weight = facula.nn.Parameter(facula.tensor([1.0, 2.0]))
    loss = (weight * weight).sum()
    weight.share_memory_()
    loss.backward()
    assert weight.is_shared() and weight.grad.tolist() == [2.0, 4.0]
    module = facula.nn.Linear(2, 3)
    assert module.share_memory() is module
    assert all(p.is_shared() for p in module.parameters())


def test_copies_of_shared_memory_are_not_shared(strategy):
    shared = facula.ones(3).share_memory_()
    for other in (shared.clone(), copy.deepcopy(shared), shared + 0, shared.double()):
        assert not other.is_shared()
    assert pickle.loads(pickle.dumps(shared)).tolist() == [1.0] * 3
    kept = io.BytesIO()
    facula.save(shared, kept)
    kept.seek(0)
    assert facula.load(kept).tolist() == [1.0] * 3


def test_shared_storages_do_not_grow(strategy):
    shared = facula.ones(3).share_memory_()
    assert not shared.untyped_storage().resizable()
    with pytest.raises(RuntimeError, match="not resizable"):
        shared.untyped_storage().resize_(1 << 16)
    with pytest.raises(RuntimeError, match="not resizable"):
        shared.resize_(1 << 16)


def test_a_resized_storage_can_be_shared(strategy):
    tensor = facula.ones(2)
    tensor.resize_(1 << 12)
    tensor.fill_(3)
    tensor.share_memory_()
    assert tensor.is_shared() and tensor.sum().item() == 3 << 12


def test_storages_are_shared_as_tensors_are(strategy):
    tensor = facula.ones(4)
    assert tensor.untyped_storage().share_memory_().is_shared() and tensor.is_shared()
    typed = facula.ones(4).storage()
    assert typed.share_memory_().is_shared()
    fresh = facula.UntypedStorage._new_shared(16)
    assert fresh.is_shared() and fresh.nbytes() == 16


def test_empty_storages_count_as_shared():
    assert not facula.empty(0).is_shared()
    assert facula.empty(0).share_memory_().is_shared()


def test_memory_without_bytes_cannot_be_shared():
    for share in (
        lambda: facula.zeros(2, device="meta").share_memory_(),
        lambda: facula.zeros(2, device="meta").storage().share_memory_(),
        lambda: facula.zeros(2, device="meta").untyped_storage().share_memory_(),
    ):
        with pytest.raises(RuntimeError, match="only available on CPU"):
            share()


def test_a_mapped_file_is_shared(tmp_path):
    path = str(tmp_path / "numbers")
    np.arange(4, dtype=np.float32).tofile(path)
    own = facula.from_file(path, shared=False, size=4)
    tensor = facula.from_file(path, shared=True, size=4)
    assert tensor.is_shared() and not own.is_shared()
    assert tensor.untyped_storage().filename == path
    run(add_one, tensor)
    assert np.fromfile(path, dtype=np.float32).tolist() == [1.0, 2.0, 3.0, 4.0]


def test_strategies():
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    before = mp.get_sharing_strategy()
    assert before == "file_descriptor"
    with pytest.raises(AssertionError):
        mp.set_sharing_strategy("pigeons")
    assert mp.get_sharing_strategy() == before


def test_memory_goes_when_its_tensors_go(strategy):
    def open_files():
        return len(os.listdir("/proc/self/fd"))

    gc.collect()
    files, before = named_files(os.getpid()), open_files()
    tensors = [facula.ones(1000).share_memory_() for _ in range(5)]
    if strategy == "file_system":
        assert len(named_files(os.getpid()) - files) == 5 and open_files() == before
    else:
        assert named_files(os.getpid()) == files and open_files() == before + 5
    views = [t[1:] for t in tensors]
    tensors.clear()
    gc.collect()
    assert views[0].sum().item() == 999
    views.clear()
    gc.collect()
    assert named_files(os.getpid()) == files and open_files() == before


# ------------------------------------------------------------------ between processes


def test_a_child_writes_to_its_parents_tensor(strategy):
    tensor = facula.zeros(3).share_memory_()
    run(add_one, tensor)
    assert tensor.tolist() == [1.0] * 3


def test_an_argument_that_was_not_shared_becomes_so(strategy):
    tensor = facula.zeros(3)
    other = tensor[1:]
    run(add_one, tensor)
    assert tensor.is_shared() and other.tolist() == [1.0, 1.0]


def test_forked_children_share_too(strategy):
    tensor = facula.zeros(3).share_memory_()
    child = os.fork()
    if child == 0:
        tensor.add_(2)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert tensor.tolist() == [2.0] * 3


def test_a_queue_carries_memory_both_ways(strategy):
    context = mp.get_context("spawn")
    questions, answers = context.Queue(), context.Queue()
    process = context.Process(target=echo, args=(questions, answers, strategy))
    process.start()
    files = named_files()
    try:
        tensor = facula.arange(3.0)
        for expected in ([0.0, 10.0, 20.0], [0.0, 100.0, 200.0]):
            questions.put(tensor)
            back = answers.get(timeout=SECONDS)
            assert tensor.tolist() == back.tolist() == expected
            # the same memory is one storage, however often it comes
            assert back.data_ptr() == tensor.data_ptr()
            questions.put("next")
            del back
        questions.put(None)
        process.join(SECONDS)
        assert process.exitcode == 0
    finally:
        process.kill()
        process.join()
        questions.close()
        answers.close()
    del tensor
    gc.collect()
    assert not named_files() - files


def test_memory_of_a_child_reaches_its_parent(strategy):
    context = mp.get_context("spawn")
    questions, answers = context.Queue(), context.Queue()
    process = context.Process(target=make_and_wait, args=(answers, questions, strategy))
    process.start()
    try:
        tensor = answers.get(timeout=SECONDS)
        assert answers.get(timeout=SECONDS) == "sent"
        assert tensor.is_shared() and tensor.tolist() == [0.0, 1.0, 2.0, 3.0]
        tensor[0] = 7
        questions.put("look")
        process.join(SECONDS)
        assert process.exitcode == 0
        assert tensor[3].item() == 3  # lives on without its maker
    finally:
        process.kill()
        process.join()
        questions.close()
        answers.close()


def test_views_that_are_sent_together_stay_together(strategy):
    whole = facula.arange(4.0)
    run(same_storage, (whole, whole[1:3]))
    assert whole.tolist() == [0.0, 5.0, 5.0, 3.0]


def test_typed_storages_are_sent_as_memory(strategy):
    storage = facula.zeros(3).storage()
    run(write_typed, storage)
    assert storage.tolist() == [0.0, 9.0, 0.0]


def test_spawned_processes_write_to_one_tensor(strategy):
    tensor = facula.zeros(2).share_memory_()
    mp.spawn(write_rank, (tensor,), nprocs=2)
    assert tensor.tolist() == [1.0, 2.0]


def test_hogwild_training_changes_the_shared_model():
    """As in the example of two processes that train one model without locks."""
    facula.manual_seed(0)
    model = facula.nn.Linear(2, 1).share_memory()
    context = mp.get_context("spawn")
    ready = context.Queue()
    processes = [context.Process(target=train, args=(r, model, ready)) for r in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(SECONDS)
    assert [p.exitcode for p in processes] == [0, 0]
    assert sorted(ready.get(timeout=SECONDS) for _ in processes) == [0, 1]
    ready.close()
    assert np.allclose(model.weight.detach().numpy(), [[2.0, -3.0]], atol=0.05)
    assert np.allclose(model.bias.detach().numpy(), [0.5], atol=0.05)


def test_results_with_a_history_are_not_sent():
    tensor = facula.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="Cowardly refusing"):
        ForkingPickler.dumps(tensor)
    leaf = facula.ones(2, requires_grad=True)
    assert pickle.loads(ForkingPickler.dumps(leaf)).requires_grad


def test_pythons_own_module_sends_memory_too():
    """Also where it was imported before, or comes after."""
    program = """
        {first}
        {second}
        from multiprocessing.reduction import ForkingPickler
        import pickle
        x = facula.zeros(3)
        y = pickle.loads(ForkingPickler.dumps(x))
        y[1] = 4
        assert x.tolist() == [0, 4, 0], x
    """
    imports = ["import facula", "import multiprocessing"]
    for first, second in (imports, imports[::-1]):
        text = textwrap.dedent(program.format(first=first, second=second))
        subprocess.run([sys.executable, "-c", text], check=True, timeout=SECONDS)


def test_a_killed_process_leaves_nothing_behind_without_names():
    program = """
        import facula, os, signal
        x = facula.zeros(1 << 16).share_memory_()
        os.kill(os.getpid(), signal.SIGKILL)
    """
    files = named_files()
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], timeout=SECONDS)
    assert ended.returncode == -9 and not named_files() - files


def test_named_files_of_killed_processes_are_removed_later():
    program = """
        import facula, os, signal
        import facula.multiprocessing as mp
        mp.set_sharing_strategy("file_system")
        x = facula.zeros(1 << 10).share_memory_()
        {end}
    """
    files = named_files()
    killed = textwrap.dedent(program.format(end="os.kill(os.getpid(), signal.SIGKILL)"))
    subprocess.run([sys.executable, "-c", killed], timeout=SECONDS)
    assert len(named_files() - files) == 1
    ended = textwrap.dedent(program.format(end=""))
    subprocess.run([sys.executable, "-c", ended], check=True, timeout=SECONDS)
    assert not named_files() - files


def send_and_end(answers):
    mp.set_sharing_strategy("file_system")
    answers.put(facula.ones(100))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_files_of_messages_that_nobody_takes_go_with_the_family(method):
    program = f"""
        import glob, os
        import facula.multiprocessing as mp
        from tests.multiprocessing.test_shared_memory import send_and_end
        if __name__ == "__main__":
            context = mp.get_context({method!r})
            mp.set_sharing_strategy("file_system")
            answers = context.Queue()
            process = context.Process(target=send_and_end, args=(answers,))
            process.start()
            process.join({SECONDS})
            assert process.exitcode == 0
            send_and_end(answers)
            answers.close(), answers.join_thread()
            # what the child sent is still there to be taken
            assert len(glob.glob(f"/dev/shm/facula-shared-*-{{os.getpid()}}-*")) == 2
    """
    files = named_files()
    command = [sys.executable, "-c", textwrap.dedent(program)]
    subprocess.run(
        command, check=True, timeout=SECONDS, cwd=ROOT, env={**os.environ, "PYTHONPATH": "."}
    )
    assert not named_files() - files


def test_a_message_can_be_taken_after_its_sender_ended(strategy_of_files):
    context = mp.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=send_and_end, args=(answers,))
    process.start()
    process.join(SECONDS)
    assert process.exitcode == 0
    assert answers.get(timeout=SECONDS).sum().item() == 100
    answers.close()


def wait_and_send(tensor, questions, answers):
    questions.get(timeout=SECONDS)
    answers.put(tensor)
    questions.get(timeout=SECONDS)


def test_a_forked_child_sends_memory_that_its_parent_dropped(strategy_of_files):
    context = mp.get_context("fork")
    questions, answers = context.Queue(), context.Queue()
    files = named_files()
    tensor = facula.arange(4.0).share_memory_()
    process = context.Process(target=wait_and_send, args=(tensor, questions, answers))
    process.start()
    process._args = ()
    del tensor
    gc.collect()
    questions.put("go")
    try:
        assert answers.get(timeout=SECONDS).tolist() == [0.0, 1.0, 2.0, 3.0]
        questions.put("end")
        process.join(SECONDS)
        assert process.exitcode == 0
    finally:
        process.kill()
        process.join()
        questions.close()
        answers.close()
    gc.collect()
    assert not named_files() - files


def test_a_plain_fork_counts_as_well(strategy_of_files):
    files = named_files()
    tensor = facula.ones(4).share_memory_()
    child = os.fork()
    if child == 0:
        del tensor
        gc.collect()
        os._exit(len(named_files() - files) - 1)
    assert os.waitpid(child, 0)[1] == 0
    assert pickle.loads(ForkingPickler.dumps(tensor)).sum().item() == 4
    del tensor
    gc.collect()
    assert not named_files() - files


def test_files_of_another_namespace_are_left_alone():
    path = "/dev/shm/facula-shared-1-1-999999999-0-00000000"
    open(path, "wb").close()
    try:
        shared_memory._at_end()
        assert os.path.exists(path)
    finally:
        os.unlink(path)


class _Descriptor:
    """What a message brings instead of a descriptor that was sent."""

    def __init__(self, nbytes):
        self.own = os.memfd_create("other")
        os.ftruncate(self.own, nbytes)

    def detach(self):
        return os.dup(self.own)


@pytest.mark.parametrize("nbytes", [0, -5, 101, 1 << 20, 1 << 62])
def test_a_message_about_more_bytes_than_there_are_is_refused(nbytes):
    given = _Descriptor(100)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises((RuntimeError, ValueError)):
        shared_memory._open_descriptor(given, nbytes)
    assert len(os.listdir("/proc/self/fd")) == before
    os.close(given.own)


def test_a_message_about_a_foreign_file_is_refused_and_the_file_stays_as_it_is(tmp_path):
    foreign = tmp_path / "facula-shared-1-0-00000000"
    foreign.write_bytes(b"x" * 200)
    names = [
        str(foreign),
        f"/dev/shm/../..{foreign}",
        f"/dev/shm/facula-shared-1/../../..{foreign}",
    ]
    link = f"/dev/shm/facula-shared-{os.getpid()}-link"
    os.symlink(foreign, link)
    try:
        for name in [*names, link]:
            with pytest.raises((RuntimeError, OSError)):
                shared_memory._open_file(name, 100)
    finally:
        os.unlink(link)
    assert foreign.read_bytes() == b"x" * 200


def test_a_named_file_that_is_too_short_is_refused():
    path = f"/dev/shm/facula-shared-{os.getpid()}-short"
    with open(path, "wb") as file:
        file.write(bytes(100))
    try:
        with pytest.raises(RuntimeError, match="164 bytes"):
            shared_memory._open_file(path, 100)
    finally:
        os.unlink(path)


def test_a_file_that_is_too_short_is_refused():
    descriptor = os.memfd_create("short")
    try:
        os.ftruncate(descriptor, 100)
        for sizes in ((101,), (1 << 20,), (60, 64), (1 << 62, 64), ((1 << 63) - 1,)):
            with pytest.raises(ValueError, match="bytes"):
                core.SharedMemory(descriptor, *sizes)
        assert core.SharedMemory(descriptor, 100).storage().nbytes() == 100
    finally:
        os.close(descriptor)
