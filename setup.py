"""Builds the core extension and, with it, the kernel libraries.

Takes the Cython core under `src/facula/core` and the operator table; gives `facula.core._core` and
`facula/_kernels/<isa>.so`, in a wheel the runtime of packaged models beside them, and the type stubs.
Keeps true: kernels are built by the package that was just built, in a process of its own
(`tools/build_kernels.py`), so that they always agree with the operator table beside them.  Everything
else about the package stands in `pyproject.toml`.

Environment: `FACULA_BUILD_ISA` (a comma-separated list of variants, `native` or `all`; default:
`native` in place, `all` for a wheel), `FACULA_BUILD_JOBS` (compiler processes, default 2),
`FACULA_BUILD_SYMBOLS=1` (names for debuggers stay in the core).
"""

import hashlib
import os
import platform
import subprocess
import sys
from pathlib import Path

from Cython.Build import cythonize
from Cython.Compiler import Options
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
CORE = Path("src/facula/core")
BASELINE = ["-march=x86-64-v2"] if platform.machine() in ("x86_64", "AMD64") else []

OPTIONS = ["-O2", "-g0", "-fno-strict-aliasing", "-pthread"]
OPTIONS += ["-Wno-unused-function", "-Wno-maybe-uninitialized"]  # Cython's own code
# what a warning says of the core is a fault of the core; `FACULA_BUILD_LENIENT=1` builds it with a
# compiler that knows warnings of its own
STRICT = os.environ.get("FACULA_BUILD_LENIENT") != "1"
OPTIONS += ["-Werror"] if STRICT else []
Options.warning_errors = STRICT
# nothing reads the names of the core's own functions but debuggers: `FACULA_BUILD_SYMBOLS=1` keeps them
SYMBOLS = [] if os.environ.get("FACULA_BUILD_SYMBOLS") == "1" else ["-s"]

# the package runs from the folder that becomes the wheel: its byte code is no part of that
PYTHON = [sys.executable, "-B"]
sys.dont_write_bytecode = True


def core_extension() -> Extension:
    """The one extension module; it depends on everything that its source file includes."""
    depends = [str(path) for kind in ("**/*.pxi", "**/*.h") for path in CORE.glob(kind)]
    return Extension(
        "facula.core._core",
        [str(CORE / "_core.pyx")],
        include_dirs=[str(CORE / "include"), str(CORE)],
        extra_compile_args=[*OPTIONS, *BASELINE],
        extra_link_args=["-pthread", *SYMBOLS],
        depends=sorted(depends),
    )


class BuildPython(build_py):
    """Copies the Python files, and drops what an earlier build left of files that are gone."""

    def run(self) -> None:
        if not self.editable_mode:
            self.drop_leftovers()
        super().run()

    def drop_leftovers(self) -> None:
        built = Path(self.build_lib)
        for path in built.rglob("*.py"):
            if not (ROOT / "src" / path.relative_to(built)).exists():
                path.unlink()


class BuildCoreAndKernels(build_ext):
    """Compiles the core, then has it write, compile and link the kernels."""

    def finalize_options(self) -> None:
        # cythonize only here: `python setup.py --version` and sdist need no translation to C
        self.distribution.ext_modules = cythonize(
            [core_extension()],
            build_dir="build/cython",
            include_path=[str(CORE)],
            compiler_directives={"language_level": 3},
            force=self.force,
        )
        super().finalize_options()

    def run(self) -> None:
        super().run()
        tree = ROOT / "src" if self.inplace else Path(self.build_lib).resolve()
        self.build_kernels(tree)
        self.write_stubs(tree)
        self.write_examples(tree)

    def build_extension(self, ext: Extension) -> None:
        # a wheel after a checkout, or the other way round, finds the object that the first one compiled
        ext.extra_objects = [self.object_of(ext, Path(source)) for source in ext.sources]
        ext.sources = []
        super().build_extension(ext)

    def object_of(self, extension: Extension, source: Path) -> str:
        """The object file of C text, compiled where text, headers, compiler or flags are new."""
        read = [source, *sorted(CORE.glob("**/*.h"))]
        told = [sys.version, *self.compiler.compiler_so, *extension.extra_compile_args]
        digest = hashlib.sha256("\0".join(told).encode())
        for path in read:
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        kept = ROOT / "build" / "core" / f"{source.stem}-{digest.hexdigest()[:16]}.o"
        if not kept.exists():
            (made,) = self.compiler.compile(
                [str(source)],
                output_dir=self.build_temp,
                include_dirs=extension.include_dirs,
                extra_postargs=extension.extra_compile_args,
                depends=extension.depends,
            )
            kept.parent.mkdir(parents=True, exist_ok=True)
            os.replace(made, kept)
            for old in sorted(kept.parent.glob("*.o"), key=os.path.getmtime)[:-4]:
                old.unlink()
        return str(kept)

    def write_examples(self, tree: Path) -> None:
        """Writes what the examples in operators' docstrings print, by the package in `tree`."""
        command = [*PYTHON, str(ROOT / "tools" / "gen_api.py"), "examples"]
        # PYTHONPATH stays: it is how an isolated build finds NumPy. The tree is not added to it, since such a
        # build takes away what the environment has already, as it has the checkout once that is installed
        command += ["--output", str(tree / "facula" / "ops"), "--tree", str(tree)]
        subprocess.run(command, check=True, cwd=ROOT)

    def write_stubs(self, tree: Path) -> None:
        """Writes the type stubs of the package in `tree`, out of its operator table."""
        command = [*PYTHON, str(ROOT / "tools" / "gen_api.py"), "stubs"]
        command += ["--output", str(tree / "facula")]
        # in a checkout they would stand beside the folders, once for each module in a room
        command += [] if self.inplace else ["--public"]
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        subprocess.run(command, env=environment, check=True, cwd=ROOT)

    def build_kernels(self, tree: Path) -> None:
        """Runs the build tool against the package in `tree`, in a clean interpreter."""
        environment = {**os.environ, "PYTHONPATH": str(tree), "FACULA_BUILDING": "1"}
        wanted = os.environ.get("FACULA_BUILD_ISA") or ("native" if self.inplace else "all")
        command = [*PYTHON, str(ROOT / "tools" / "build_kernels.py")]
        command += ["--output", str(tree / "facula" / "_kernels"), "--isa", wanted]
        command += ["--work", str(ROOT / "build" / "kernels")]
        command += ["--jobs", os.environ.get("FACULA_BUILD_JOBS", "2")]
        # a checkout compiles it on first use, again where its sources changed
        command += [] if self.inplace else ["--runtime"]
        subprocess.run(command, env=environment, check=True, cwd=ROOT)

    def copy_extensions_to_source(self) -> None:
        # a process that runs keeps the file it has mapped: it must not be written over
        for extension in self.extensions:
            built = ROOT / "src" / self.get_ext_filename(self.get_ext_fullname(extension.name))
            built.unlink(missing_ok=True)
        super().copy_extensions_to_source()

    def get_outputs(self) -> list[str]:
        package = Path(self.build_lib) / "facula"
        made = [*(package / "_kernels").glob("*"), *package.rglob("*.pyi"), package / "py.typed"]
        made.append(package / "ops" / "_examples.json")
        return [*super().get_outputs(), *map(str, sorted(made))]


setup(
    ext_modules=[core_extension()],
    cmdclass={"build_ext": BuildCoreAndKernels, "build_py": BuildPython},
)
