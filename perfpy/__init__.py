"""perfpy: Linux perf for everyone who has Python."""

__version__ = "0.1.0"
