"""Recordings in other formats: `data convert --to-json`."""
