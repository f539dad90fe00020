"""Linear algebra leaves the threads of NumPy's OpenBLAS as it found them: the number is read from the
library itself, before, during and after.
"""

import ctypes
import os
import threading

import numpy
import pytest
from numpy.linalg import _umath_linalg

import facula


def openblas(name):
    """A function of the OpenBLAS that NumPy is linked to."""
    library = ctypes.CDLL(_umath_linalg.__file__)
    for symbol in (f"scipy_openblas_{name}64_", f"openblas_{name}64_", f"openblas_{name}"):
        if hasattr(library, symbol):
            return getattr(library, symbol)
    raise LookupError(f"NumPy's library has no {name}: these tests are about OpenBLAS")


read, write = openblas("get_num_threads"), openblas("set_num_threads")


@pytest.fixture(params=[1, 2, 3])
def standing(request):
    """A number of threads that the program has set."""
    before = read()
    write(request.param)
    yield read()
    write(before)


@pytest.fixture
def seen(monkeypatch):
    """The numbers that stood while NumPy's svd ran."""
    numbers, svd = [], numpy.linalg.svd

    def watched(*arguments, **settings):
        numbers.append(read())
        return svd(*arguments, **settings)

    monkeypatch.setattr(numpy.linalg, "svd", watched)
    return numbers


@pytest.mark.parametrize("size", [3, 250])
def test_the_number_of_threads_is_as_before_a_call(standing, seen, size):
    facula.linalg.svdvals(facula.rand(size, size))
    assert seen == [1 if size == 3 else facula.get_num_threads()]
    assert read() == standing


def test_the_number_of_threads_is_as_before_a_call_that_fails(standing):
    with pytest.raises(facula.linalg.LinAlgError, match="converge"):
        facula.linalg.svdvals(facula.full((3, 3), float("nan")))
    assert read() == standing


def test_calls_at_once_leave_the_number_as_before(standing, monkeypatch):
    svd, inside, numbers = numpy.linalg.svd, threading.Barrier(2, timeout=60), {}
    leave = threading.Event()

    def held(a, **settings):
        """The small call is still under way when the large one has come back."""
        inside.wait()
        numbers[a.shape[-1]] = read()
        if a.shape[-1] == 3:
            assert leave.wait(60)
        return svd(a, **settings)

    monkeypatch.setattr(numpy.linalg, "svd", held)
    small = threading.Thread(target=facula.linalg.svdvals, args=(facula.rand(3, 3),))
    small.start()
    facula.linalg.svdvals(facula.rand(250, 250))
    leave.set()
    small.join()
    assert numbers[250] == facula.get_num_threads()
    assert read() == standing


def test_many_calls_of_many_threads_leave_the_number_as_before(standing):
    matrices = [facula.rand(size, size) for size in (2, 200, 5, 220)]

    def work(matrix):
        for _ in range(5):
            facula.linalg.eigvalsh(matrix @ matrix.mT)

    workers = [threading.Thread(target=work, args=(matrix,)) for matrix in matrices]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert read() == standing


def test_a_number_that_somebody_sets_meanwhile_stays(monkeypatch):
    svd, before = numpy.linalg.svd, read()

    def setting(*arguments, **settings):
        write(3)
        return svd(*arguments, **settings)

    monkeypatch.setattr(numpy.linalg, "svd", setting)
    write(2)
    facula.linalg.svdvals(facula.rand(3, 3))
    assert read() == 3
    write(before)


def test_a_child_of_a_fork_during_a_call_has_the_number_of_before(standing, monkeypatch):
    svd, inside, leave = numpy.linalg.svd, threading.Event(), threading.Event()

    def held(*arguments, **settings):
        inside.set()
        assert leave.wait(60)
        return svd(*arguments, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(numpy.linalg, "svd", held)
        other = threading.Thread(target=facula.linalg.svdvals, args=(facula.rand(3, 3),))
        other.start()
        assert inside.wait(60)
        child = os.fork()
        if not child:
            os._exit(read())
        leave.set()
        other.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == standing
    assert read() == standing
