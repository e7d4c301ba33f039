"""Print notes, progress and results to terminals, pagers and files."""
