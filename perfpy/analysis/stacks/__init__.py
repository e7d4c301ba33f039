"""Whole stacks of a recording with their weights: what flame graphs and exports are made of."""
