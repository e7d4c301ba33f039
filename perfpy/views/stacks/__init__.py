"""Whole stacks for other programs and as a page: flame graphs, the formats of other viewers."""
