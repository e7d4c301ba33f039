"""Frames, functions and lines from the memory of running interpreters (cpython). Imports neither capture nor views."""
