"""Filters of names: glob patterns joined by !, &, | and parentheses, such as "foo* & !bar". Syntax: perf-probe(1)."""

from __future__ import annotations

import re
from fnmatch import translate
from typing import TYPE_CHECKING, Final

from perfpy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    Test = Callable[[str], bool]

_TOKENS: Final = re.compile(r"\s*([!&|()]|(?:\\.|\[[^\]]*\]|[^!&|()\s\\\[])(?:\\.|\[[^\]]*\]|[^&|()\s\\\[])*)")
_LONGEST: Final = 1 << 12


def parse_filter(text: str) -> Test:
    """Return a function that tests a name. Raises UsageError."""
    tokens, offset = list[str](), 0
    if len(text) > _LONGEST:
        raise UsageError(f"--filter takes at most {_LONGEST} characters")
    while offset < len(text.rstrip()):
        match = _TOKENS.match(text, offset)
        if match is None:
            raise UsageError(f"--filter '{text}': unexpected '{text[offset]}'")
        tokens.append(match[1])
        offset = match.end()
    parser = _FilterParser(tokens, text)
    test = parser.either()
    if parser.tokens:
        raise UsageError(f"--filter '{text}': unexpected '{parser.tokens[0]}'")
    return test


class _FilterParser:
    """A parser with a function for each level of precedence: | below &, & below !."""

    def __init__(self, tokens: list[str], text: str) -> None:
        self.tokens = tokens
        self._text = text
        self._depth = 0

    def either(self) -> Test:
        """Parse patterns joined by |."""
        tests = [self._both()]
        while self._take("|"):
            tests.append(self._both())
        return tests[0] if len(tests) == 1 else lambda name: any(test(name) for test in tests)

    def _both(self) -> Test:
        tests = [self._one()]
        while self._take("&"):
            tests.append(self._one())
        return tests[0] if len(tests) == 1 else lambda name: all(test(name) for test in tests)

    def _one(self) -> Test:
        if self._take("!"):
            inner = self._nested(self._one)
            return lambda name: not inner(name)
        if self._take("("):
            inner = self._nested(self.either)
            if not self._take(")"):
                raise UsageError(f"--filter '{self._text}': a ')' is missing")
            return inner
        if not self.tokens or self.tokens[0] in "&|)":
            raise UsageError(f"--filter '{self._text}': a pattern is missing")
        return glob_test(self.tokens.pop(0))

    def _nested(self, parse: Callable[[], Test]) -> Test:
        self._depth += 1
        if self._depth > 100:
            raise UsageError("--filter: more than 100 levels")
        test = parse()
        self._depth -= 1
        return test

    def _take(self, token: str) -> bool:
        if self.tokens and self.tokens[0] == token:
            self.tokens.pop(0)
            return True
        return False


def glob_test(pattern: str) -> Test:
    """Return a function that tests whether a name matches a glob pattern."""
    match = re.compile(translate(re.sub(r"\\(.)", lambda escaped: f"[{escaped[1]}]", pattern))).match
    return lambda name: match(name) is not None


def is_glob(text: str) -> bool:
    """Whether a name is a pattern. Brackets alone also occur in C++ operators, and braces in Rust names."""
    return any(character in text for character in "*?") and "operator" not in text
