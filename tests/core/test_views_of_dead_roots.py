"""Views and their root die in any order, also while Python puts deallocations off."""

import gc

import facula


class Sub(facula.Tensor):
    pass


def test_root_dies_before_views_that_wait_in_the_trashcan():
    for depth in (10, 60, 400):
        root = facula.ones(4).as_subclass(Sub)
        views = [root[i % 4] for i in range(depth)]
        nested = None
        for (
            view
        ) in views:  # each dies inside of the one before: deeper than Python deallocates at once
            view.inner = nested
            nested = view
        root.cycle = root
        nested.cycle = nested
        del root, views, view, nested
        gc.collect()


def test_chains_of_roots_and_views():
    nested = None
    for _ in range(300):
        root = facula.ones(2, requires_grad=True).as_subclass(Sub)
        view = (root * 2).view(1, 2)[0]
        view.inner, root.view_of, nested = nested, view, root
        root.cycle = root
    del root, view, nested
    gc.collect()
    assert facula.ones(2).sum() == 2
