"""Verdicts: one to three sentences that begin each view, made from its numbers."""
