"""Tests that state what they may cost: perfpy's plugin for pytest."""
