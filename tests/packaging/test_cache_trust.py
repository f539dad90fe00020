"""The disk cache takes nothing on trust: folders, files and links of others, and changed content."""

import os
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import facula
from facula.runtime import cache, trust

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from loader_watch import forbidden  # noqa: E402

KEY = "ab" * 20
UNIT = """
#include "facula_abi.h"
static void twice(char *const *p, const fk_scalar *s, int64_t n) {
    float *out = (float *)p[0]; const float *in = (const float *)p[1];
    for (int64_t i = 0; i < n; i++) out[i] = %d * in[i];
}
const fk_entry facula_kernels[] = { {"%s:f32", 'm', twice, "0;0;w result f32 N;r x f32 N"}, {0} };
const int facula_abi = FACULA_ABI;
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """An empty cache, an empty home and a memory of nothing."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir(mode=0o700)
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("FACULA_CACHE_DIR", str(tmp_path / "cache"))
    forget()
    yield tmp_path / "cache"
    forget()


def forget() -> None:
    cache._refused.clear()
    trust._secret.cache_clear()
    trust.private_folder.cache_clear()


def mode(path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def made(content: bytes = b"content", key: str = KEY) -> list[int]:
    """Ask for an entry; gives a list that says whether it was made."""
    calls: list[int] = []

    def make(path: str) -> None:
        calls.append(1)
        Path(path).write_bytes(content)

    entry = cache.entry("k", key, ".x", make)
    assert bytes(entry.content) == content
    entry.close()
    return calls


def path_of(folder, key: str = KEY) -> Path:
    return folder / "k" / key[:2] / f"{key[2:]}.x"


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_folders_and_files_are_closed_to_others_whatever_the_umask(own_cache, mask):
    before = os.umask(mask)
    try:
        assert made()
    finally:
        os.umask(before)
    for path in (own_cache, own_cache / "k", own_cache / "k" / "ab"):
        assert mode(path) == 0o700
    assert mode(path_of(own_cache)) == 0o600
    assert mode(Path(trust.user_folder()) / "secret") == 0o600
    assert mode(trust.user_folder()) == 0o700
    assert not made()


@pytest.mark.parametrize("place", ["root", "kind", "key"])
@pytest.mark.parametrize("bits", [0o777, 0o770, 0o702])
def test_a_folder_that_others_may_write_to_is_left_alone(own_cache, place, bits):
    assert made()
    folder = {"root": own_cache, "kind": own_cache / "k", "key": own_cache / "k" / "ab"}[place]
    folder.chmod(bits)
    before = sorted(p.name for p in folder.iterdir())
    with pytest.warns(UserWarning, match="user's alone was required") as seen:
        assert made()
    assert len(seen) == 1 and str(seen[0].message).count("\n") == 0
    assert sorted(p.name for p in folder.iterdir()) == before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not made()  # it is in the private one, and said once
    if place == "root":
        assert cache.directory() == trust.private_folder()
    assert mode(trust.private_folder()) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_folder_of_another_user_is_left_alone(own_cache):
    assert made()
    os.chown(own_cache, 12345, -1)
    with pytest.warns(UserWarning, match="belongs to user 12345"):
        assert made()
    os.chown(own_cache, os.geteuid(), -1)
    forget()
    os.chown(path_of(own_cache), 12345, -1)
    assert made() and os.stat(path_of(own_cache)).st_uid == os.geteuid()


def test_a_foreign_owner_is_refused(own_cache, monkeypatch):
    """The same without being root: the user is another one than the files' owner."""
    assert made()
    real = os.fstat
    monkeypatch.setattr(trust.os, "geteuid", lambda: 54321)
    with pytest.raises(trust.Refused, match="belongs to user"):
        trust.open_folder(str(own_cache))
    assert real(0) is not None


def test_a_link_is_not_followed(own_cache, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    own_cache.symlink_to(elsewhere)
    with pytest.warns(UserWarning, match="is a link"):
        assert made()
    assert not list(elsewhere.iterdir())


def test_a_file_that_is_a_link_is_a_miss(own_cache, tmp_path):
    assert made()
    path = path_of(own_cache)
    kept = tmp_path / "kept"
    path.rename(kept)
    content = kept.read_bytes()
    path.symlink_to(kept)
    assert made() and not path.is_symlink()
    assert kept.read_bytes() == content


def _truncated(path, content):
    path.write_bytes(content[:20])


def _emptied(path, content):
    path.write_bytes(b"")


def _changed(path, content):
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])


def _extended(path, content):
    path.write_bytes(content + b"x")


def _unsealed(path, content):
    path.write_bytes(content[: -cache.SEAL_BYTES])


def _of_another_user(path, content):
    body = content[: -cache.SEAL_BYTES]
    path.write_bytes(body + cache._MARK + trust.seal(b"x" * 32, f"k/{KEY}.x".encode(), body))


def _opened_to_others(path, content):
    path.chmod(0o666)


def _a_folder(path, content):
    path.unlink()
    path.mkdir()
    (path / "inside").write_text("")


def _a_pipe(path, content):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "change",
    [_truncated, _emptied, _changed, _extended, _unsealed, _of_another_user, _opened_to_others,
     _a_folder, _a_pipe],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_a_broken_entry_is_a_miss(own_cache, change):
    assert made()
    path = path_of(own_cache)
    change(path, path.read_bytes())
    assert cache.find("k", KEY, ".x") is None
    assert made()
    assert not made()


def test_an_entry_serves_its_own_key_only(own_cache):
    other = "ab" + "cd" * 19
    assert made() and made(b"other", other)
    path_of(own_cache, other).write_bytes(path_of(own_cache).read_bytes())
    assert made(b"other", other)


def test_a_secret_that_others_may_read_is_made_anew(own_cache):
    assert made()
    place = Path(trust.user_folder()) / "secret"
    before = place.read_bytes()
    place.chmod(0o644)
    forget()
    assert made()  # what was sealed with it is a miss
    assert place.read_bytes() != before and mode(place) == 0o600


def test_processes_that_want_the_secret_at_once_get_one(own_cache, tmp_path):
    program = "from facula.runtime import trust; print(trust.secret().hex())"
    started = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) for _ in range(4)
    ]
    found = {process.communicate(timeout=60)[0] for process in started}
    assert len(found) == 1 and len(next(iter(found)).strip()) == 64


def test_without_a_home_the_secret_lies_in_the_cache(own_cache, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    assert made()
    assert mode(own_cache / "secret") == 0o600
    forget()
    assert not made()


# ---------------------------------------------------------------- libraries


PROGRAM = """
import sys
import facula
from facula import core
from facula.runtime import compile as runtime_compile
unit, compiled = sys.argv[1], []
run = runtime_compile.programs.run
runtime_compile.programs.run = lambda command: compiled.append(command) or run(command)
for number in map(int, sys.argv[2:]):
    library = runtime_compile.library(unit % (number, f"trust_{number}"))
    core.load_library(library.loadable())
    library.close()
    x, out = facula.ones(3), facula.zeros(3)
    core.kernel(f"trust_{number}:f32")((out, x), (), (), total=3)
    print(out.tolist() == [number] * 3, len(compiled))
"""


def loaded(*numbers: int) -> list[str]:
    """In another process: whether each unit's kernel is its own, and how many were compiled by then."""
    command = [sys.executable, "-c", PROGRAM, UNIT, *map(str, numbers)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split("\n")


def test_libraries_are_loaded_by_their_descriptor_each_as_itself(own_cache):
    """A descriptor's number is used again; the library that was loaded by it before is not."""
    assert loaded(3, 4, 5)[:3] == ["True 1", "True 2", "True 3"]
    assert loaded(4, 3, 5)[:3] == ["True 0"] * 3


def test_a_library_that_somebody_replaced_is_not_loaded(own_cache, tmp_path):
    assert loaded(7)[0] == "True 1"
    (path,) = own_cache.glob("kernels/??/*.so")
    evil = tmp_path / "evil.c"
    evil.write_text(
        "void _Exit(int);\n__attribute__((constructor)) static void f(void) { _Exit(66); }"
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", path, evil], check=True)
    path.chmod(0o600)
    assert loaded(7)[0] == "True 1"
    assert loaded(7)[0] == "True 0"


# ---------------------------------------------------------------- stored graphs


def test_a_stored_graph_runs_no_code(own_cache):
    """A file under a graph's name, as anybody could have put there: it was unpickled."""
    import pickle

    from facula.compiler import disk_cache, pipeline
    from facula.fx.experimental.proxy_tensor import make_fx

    x = facula.randn(5)
    module = make_fx(lambda x: (x * 11 + 2,), tracing_mode="fake")(x)
    pipeline.compile_graph(module)
    (path,) = [p for p in own_cache.glob("graphs/??/*") if p.name != "lock"]

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(own_cache / "ran"),)

    path.write_bytes(pickle.dumps(Evil()))
    path.chmod(0o600)
    with forbidden(own_cache) as seen:
        assert disk_cache.load(disk_cache.key_of(module), module) is None
    assert not (own_cache / "ran").exists()
    assert not [event for event in seen if not event.startswith("import")]


def test_without_a_home_that_may_be_written_to_the_cache_is_a_private_folder(
    own_cache, tmp_path, monkeypatch
):
    nobodys = tmp_path / "no folder"
    nobodys.write_text("")
    monkeypatch.setenv("HOME", str(nobodys))
    monkeypatch.delenv("FACULA_CACHE_DIR")
    with pytest.warns(UserWarning, match="that this user may write to was required.*no folder"):
        assert made() == [1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert made() == []
    private = tmp_path / "tmp" / f"facula-{os.geteuid()}"
    assert cache.directory() == str(private)
    assert path_of(private).is_file() and mode(private) == 0o700


def test_a_home_that_may_only_be_read_serves_what_it_has(own_cache, tmp_path, monkeypatch):
    monkeypatch.delenv("FACULA_CACHE_DIR")
    assert made() == [1]
    home = tmp_path / "home" / ".cache" / "facula"
    assert path_of(home).is_file()
    monkeypatch.setattr(os, "access", lambda path, mode, dir_fd=None, effective_ids=False: not (
        os.readlink(f"/proc/self/fd/{dir_fd}").startswith(str(home))
    ))  # fmt: skip
    assert made() == []
    other = KEY[:2] + "cd" * 19
    with pytest.warns(UserWarning, match="that this user may write to was required"):
        assert made(key=other) == [1]
    assert path_of(Path(trust.private_folder()), other).is_file()


def test_a_named_folder_that_can_not_be_had_is_an_error(own_cache, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FACULA_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(RuntimeError, match="must be writable"):
        made()
