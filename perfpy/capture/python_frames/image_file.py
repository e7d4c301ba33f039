"""The file of an image.

What enters: a path in a new folder of ours alone. What leaves: the file.
"""

from __future__ import annotations


def write_image(path: str, image: bytes) -> None:
    """Write a new file. Raises OSError."""
    with open(path, "xb") as file:
        file.write(image)
