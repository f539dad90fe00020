"""Building, caching and choosing kernel libraries."""

import ctypes
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from facula.runtime import cache, cpu_features, libraries, programs
from facula.runtime import compile as runtime_compile

TEXT = """
#include "facula_abi.h"
static void twice(char *const *p, const fk_scalar *s, int64_t n) {
    float *out = (float *)p[0]; const float *in = (const float *)p[1];
    for (int64_t i = 0; i < n; i++) out[i] = 2 * in[i];
}
const fk_entry facula_kernels[] = { {"twice:f32", 'm', twice, "0;0;w result f32 N;r x f32 N"}, {0} };
const int facula_abi = FACULA_ABI;
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FACULA_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def fresh_choice(monkeypatch):
    cpu_features._detected.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    cpu_features._detected.cache_clear()


def test_compiled_library_runs():
    library = ctypes.CDLL(runtime_compile.compile_library(TEXT))
    assert ctypes.c_int.in_dll(library, "facula_abi").value == 2


def test_second_compilation_is_a_look_up(monkeypatch):
    first = runtime_compile.compile_library(TEXT)

    def refuse(*arguments, **named):
        raise AssertionError("the compiler ran again")

    monkeypatch.setattr(runtime_compile.programs, "run", refuse)
    assert runtime_compile.compile_library(TEXT) == first
    with pytest.raises(AssertionError, match="ran again"):
        runtime_compile.compile_library(TEXT + "\n")


def test_rejected_text_names_error_command_and_file():
    with pytest.raises(runtime_compile.CompileError) as caught:
        runtime_compile.compile_library("int x = missing_name;")
    text = str(caught.value)
    assert "missing_name" in text and "-O3" in text and "hint: look at" in text
    path = text.partition("look at ")[2].partition(", compiled")[0]
    assert "missing_name" in Path(path).read_text()


def test_missing_compiler_is_one_clear_line(monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(runtime_compile.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(runtime_compile.CompileError, match="pip install ziglang"):
        runtime_compile.compile_library(TEXT)


def test_compiler_that_is_not_there(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler --flag")
    with pytest.raises(runtime_compile.CompileError, match="no-such-compiler"):
        runtime_compile.compile_library(TEXT)


def test_processes_that_want_one_kernel_compile_it_once(tmp_path):
    program = textwrap.dedent(
        """
        import sys
        from facula.runtime import compile
        run, count = compile.programs.run, []
        compile.programs.run = lambda *a, **k: (count.append(1), run(*a, **k))[1]
        compile.compile_library(sys.argv[1])
        print(len(count))
        """
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, TEXT], stdout=subprocess.PIPE, env=os.environ
        )
        for _ in range(4)
    ]
    counts = [int(process.communicate(timeout=120)[0]) for process in started]
    assert sum(counts) == 1
    kept = [p for p in (tmp_path / "cache" / "kernels").rglob("*") if p.is_file()]
    assert sorted(p.suffix for p in kept) == ["", ".so"]  # the lock and the library


def test_failed_make_leaves_nothing(tmp_path):
    def broken(path):
        Path(path).write_bytes(b"half")
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        cache.cached_file("kernels", "ab" * 20, ".so", broken)
    assert not list((tmp_path / "cache").rglob("*.so"))


def test_cache_that_cannot_be_written(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FACULA_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(RuntimeError, match="FACULA_CACHE_DIR"):
        runtime_compile.compile_library(TEXT)


def test_trim_keeps_what_was_used_last():
    for number in range(4):
        path = cache.cached_file(
            "k", f"{number:040d}", ".so", lambda p: Path(p).write_bytes(b"x" * 100)
        )
        os.utime(path, (number, number))
    each = 100 + cache.SEAL_BYTES
    assert cache.size() == 4 * each
    assert cache.trim(2 * each + 50) == 2 * each
    assert [p.name[-4:] for p in sorted(Path(cache.directory()).rglob("*.so"))] == ["2.so", "3.so"]
    assert cache.clear() == 2 * each and cache.size() == 0


def test_variants_are_ordered_by_what_they_need():
    needs = [set(cpu_features.requirements(v)) for v in cpu_features.variants()]
    assert all(one <= other for one, other in zip(needs, needs[1:], strict=False))


def test_flags_are_those_of_the_code_generator():
    from facula.codegen.c.isa import ISAS

    for variant in cpu_features.variants():
        assert ISAS[variant].flags == cpu_features.march_flags(variant)


def test_richest_variant_that_runs_is_chosen(fresh_choice):
    fresh_choice.delenv("FACULA_ISA", raising=False)
    fresh_choice.setattr(cpu_features, "features", lambda: frozenset(cpu_features._V3))
    assert cpu_features.detected() == "v3"
    assert cpu_features.choose(["v2", "v3", "v4"]) == "v3"
    assert cpu_features.choose(["v2", "v4"]) == "v2"
    with pytest.raises(RuntimeError, match="got v4"):
        cpu_features.choose(["v4"])


def test_forced_variant(fresh_choice):
    fresh_choice.setenv("FACULA_ISA", "v2")
    assert cpu_features.choose(["v2", "v3"]) == "v2"
    with pytest.raises(RuntimeError, match="FACULA_BUILD_ISA=v2"):
        cpu_features.choose(["v3"])


def test_forced_variant_that_cannot_run(fresh_choice):
    fresh_choice.setenv("FACULA_ISA", "v4")
    fresh_choice.setattr(cpu_features, "features", lambda: frozenset(cpu_features._V3))
    with pytest.raises(RuntimeError, match="avx512f"):
        cpu_features.detected()


def test_unknown_variant(fresh_choice):
    fresh_choice.setenv("FACULA_ISA", "v9")
    with pytest.raises(ValueError, match="one of v2, v3"):
        cpu_features.detected()


def test_a_variant_that_adds_to_another_needs_both_libraries(fresh_choice):
    fresh_choice.setattr(cpu_features, "detected", lambda: "v4x")
    assert cpu_features.parts("v4x") == ("v4", "v4x")
    assert cpu_features.choose(["v3", "v4", "v4x"]) == "v4x"
    assert cpu_features.choose(["v3", "v4x"]) == "v3"
    assert cpu_features.parts("v4a") == ("v4", "v4x", "v4a")


def test_libraries_of_this_machine_are_there():
    paths = libraries.kernel_libraries()
    assert paths and all(os.path.isfile(path) for path in paths)


def test_without_a_path_programs_find_others_where_they_were_found(monkeypatch):
    monkeypatch.delenv("PATH")
    code = "import os, sys; sys.stderr.write(os.environ.get('PATH', 'none'))"
    assert programs.run([sys.executable, "-c", code]) == (0, os.defpath)
