"""The sources that stand for mocked modules in a package.

Gives texts: `OBJECTS`, the module `_mock` of every package with mocks, and `MODULE`, what a mocked module holds.
"""

__all__ = ["MODULE", "OBJECTS"]

OBJECTS = '''"""Stands for objects that were left out when this package was made."""


class MockedObject:
    def __init__(self, name):
        self.__dict__["_name"] = name

    def _refuse(self):
        raise NotImplementedError(
            f"Object '{self._name}' was mocked out during packaging but it is being used. "
            "hint: intern or extern its module when the package is made"
        )

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        self._refuse()

    def __setattr__(self, name, value):
        self._refuse()

    def __call__(self, *args, **kwargs):
        self._refuse()
'''

MODULE = """from _mock import MockedObject


def __getattr__(name):
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(name)
    return MockedObject(__name__ + "." + name)
"""
