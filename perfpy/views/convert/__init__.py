"""Recordings in other formats: `data convert --to-json` (sample_json)."""
