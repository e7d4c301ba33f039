"""Recordings in formats of others."""
