"""The version of perfpy: read by the build, told in recordings."""

__version__ = "0.1.0"
