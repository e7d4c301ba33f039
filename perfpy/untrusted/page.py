"""Embed JSON values, with names from recordings, in an HTML page.

The text is for a script element of type application/json (HTML Standard, 4.12.1.3): nothing in it ends the element or opens a comment.
Names are escaped as on screens (perfpy.untrusted.text), because browsers obey bidirectional overrides, too.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, Self

from perfpy.untrusted.text import visible

if TYPE_CHECKING:
    from collections.abc import Mapping

_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}")


class Base64(str):
    """Text in base64, which needs no escapes. Raises ValueError for any other text."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Check the text."""
        if not _BASE64.fullmatch(text):
            raise ValueError("no base64")
        return super().__new__(cls, text)


#: Characters that begin markup, in the element or where the data are copied to, and line ends in scripts.
_MARKUP: Final = re.compile("[<>&\u2028\u2029]")


def page_json(value: Mapping[str, Any]) -> str:
    r"""Return the value as JSON for a script element, with visible texts.

    >>> page_json({"name": "</script>\u202e"})
    '{"name":"\\u003c/script\\u003e\\\\u202e"}'
    """
    text = json.dumps(_escape(value), separators=(",", ":"), ensure_ascii=False)
    return _MARKUP.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)


def _escape(value: Any) -> Any:
    if isinstance(value, Base64):
        return value
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible(key): _escape(one) for key, one in value.items()}
    return [_escape(one) for one in value] if isinstance(value, (list, tuple)) else value
