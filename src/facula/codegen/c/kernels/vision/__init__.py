"""Boxes, regions, deformed windows, sampling of images."""
