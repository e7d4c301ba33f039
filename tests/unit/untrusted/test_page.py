"""JSON for a script element."""

from __future__ import annotations

import json

import pytest

from perfpy.untrusted.page import Base64, page_json


def test_nothing_in_a_text_ends_the_element() -> None:
    text = page_json({"</script>": ["<!--", "\u2028&"]})
    assert not set(text) & set("<>&\u2028")
    assert json.loads(text) == {"</script>": ["<!--", "\\u2028&"]}


@pytest.mark.parametrize("text", ["</script>", "QUJD\n", "QU JD", "\u202e", "===", "QUJD-_"])
def test_only_base64_is_taken_for_base64(text: str) -> None:
    with pytest.raises(ValueError, match="no base64"):
        Base64(text)
    assert page_json({"z": Base64("QUJD+/==")}) == '{"z":"QUJD+/=="}'
