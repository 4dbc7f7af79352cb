"""Shapes: domains that are no boxes."""
