"""Stacks in the formats of other programs."""
