"""Datasets and loaders: this name *is* the package `facula.data`, so that what patches one patches the other."""

import sys

from facula import data

sys.modules[__name__] = data
