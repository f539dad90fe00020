"""Lists and dictionaries that can not be changed: what the arguments of nodes are made of.

Takes any iterable or mapping.  Gives `immutable_list` and `immutable_dict`, which compare, print and
pickle like the ordinary ones.
Keeps true: whoever changes an argument of a node assigns `node.args`, so the graph hears of it.
"""

from __future__ import annotations

import copy
from typing import Any, NoReturn

from facula.core.errors import fail
from facula.fx import _pytree

__all__ = ["immutable_dict", "immutable_list"]


def _refused(name: str) -> Any:
    def refuse(self: immutable_list, *args: object, **kwargs: object) -> NoReturn:
        fail(
            TypeError,
            name,
            (
                f"an ordinary {type(self).__mro__[1].__name__} was required: '{type(self).__name__}' "
                "object does not support mutation"
            ),
            hint=(
                "arguments of nodes are set as a whole: node.args = (...), node.kwargs = "
                "{...}, or node.update_arg(...)"
            ),
        )

    refuse.__name__ = name
    return refuse


class immutable_list(list):
    """A list that can be read only."""

    __hash__ = None

    def __reduce__(self) -> Any:
        return immutable_list, (tuple(self),)

    def __deepcopy__(self, memo: Any) -> immutable_list:
        return immutable_list(copy.deepcopy(x, memo) for x in self)


class immutable_dict(dict):
    """A dictionary that can be read only."""

    __hash__ = None

    def __reduce__(self) -> Any:
        return immutable_dict, (tuple(self.items()),)

    def __deepcopy__(self, memo: Any) -> immutable_dict:
        return immutable_dict((k, copy.deepcopy(v, memo)) for k, v in self.items())


for _name in (
    "__delitem__ __iadd__ __imul__ __setitem__ append clear extend insert pop remove reverse sort"
).split():
    setattr(immutable_list, _name, _refused(_name))
for _name in "__delitem__ __ior__ __setitem__ clear pop popitem setdefault update".split():
    setattr(immutable_dict, _name, _refused(_name))

# Containers like those that they stand for: what maps tensors of arguments finds those inside.
_pytree.register_pytree_node(
    immutable_list,
    lambda values: (list(values), None),
    lambda children, _: immutable_list(children),
    serialized_type_name="torch.fx.immutable_collections.immutable_list",
    flatten_with_keys_fn=_pytree._sequence_with_keys,
)
_pytree.register_pytree_node(
    immutable_dict,
    lambda values: (list(values.values()), list(values)),
    lambda children, keys: immutable_dict(zip(keys, children, strict=True)),
    serialized_type_name="torch.fx.immutable_collections.immutable_dict",
    flatten_with_keys_fn=_pytree._dict_flatten_with_keys,
)
