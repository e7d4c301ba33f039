"""The arithmetic of counting, shared by the measuring and the reading half. Imports no numpy."""
