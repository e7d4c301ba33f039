"""Whole stacks of a recording with their weights, for flame graphs and exports.

Modules:

stack_builder   fold a recording to Stacks
stacks          Stacks and their prefix tree
single_samples  single samples as columns
code_sites      addresses, mappings and source lines of frames
matching        match the stacks of two recordings
"""
