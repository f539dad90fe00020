"""The version, in one place. `__version__` follows semantic versioning; `git_version` is unknown in a wheel."""

__version__ = "0.1.0"
git_version = None
cuda = None
hip = None
debug = False
xpu = None
