"""`facula.package`: code, objects and files in one archive, in the format of `torch.package`.

Takes modules, objects and files. Gives archives, and their content back.
Keeps true: opening a package runs nothing of it; `import_module` and `load_pickle` run its code.
"""

from .analyze import is_from_package
from .errors import EmptyMatchError, PackagingError
from .file_structure_representation import Directory
from .glob_group import GlobGroup
from .importer import (
    Importer,
    ObjMismatchError,
    ObjNotFoundError,
    OrderedImporter,
    sys_importer,
)
from .package_exporter import PackageExporter
from .package_importer import PackageImporter

__all__ = [
    "Directory",
    "EmptyMatchError",
    "GlobGroup",
    "Importer",
    "ObjMismatchError",
    "ObjNotFoundError",
    "OrderedImporter",
    "PackageExporter",
    "PackageImporter",
    "PackagingError",
    "is_from_package",
    "sys_importer",
]
