"""Shares of functions, within them: of instructions, and of lines of source code."""
