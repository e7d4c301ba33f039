"""The version of perfpy, which the build reads and recordings contain."""

__version__ = "0.1.0"
