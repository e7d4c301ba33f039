"""The tools: each command beyond the core in one module or folder, with its options, its recording, its analysis and its text."""
