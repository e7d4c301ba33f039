"""The state that the lines of all events of a recording share: symbols, styles, texts of frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.startup import dataclass, field
from perfpy.views.script.texts.frame_text import FrameTexts

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.analysis.samples.source_texts import SourceTexts
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.symbols.tasks.address_space import TaskTimeline
    from perfpy.views.script.code.branch_counters import BranchCounters
    from perfpy.views.script.code.code_at import CodeAt
    from perfpy.views.script.code.source_code import SourceCode
    from perfpy.views.script.texts.frame_text import FrameStyle


def no_clock(_stamp: int) -> bytes:
    """Return the tod field of a recording without a clock reference."""
    return b"disabled "


@dataclass(eq=False, repr=False)
class LineContext:
    """The state that the lines of all events share."""

    timeline: TaskTimeline
    symbolizer: Symbolizer
    arch: str = ""
    kernel_start: int | None = 1 << 63  # None: the mode alone tells kernel addresses apart
    name_width: int = 0
    ns: bool = False
    latency: bool = False
    use_callchain: bool = True
    max_stack: int = 127
    callers_first: bool = False
    kernel_path: bool = False
    flags: bool = False
    cgroups: dict[int, str] = field(default_factory=dict)
    clock: Callable[[int], bytes] = no_clock  # the time of day of a time stamp
    stop_at: frozenset[str] = frozenset()  # symbols that end a callchain
    sources: SourceTexts | None = None
    source_code: SourceCode | None = None
    counters: BranchCounters | None = None  # counts between branches
    max_blocks: int = 0  # limit of blocks between branches of one sample; 0: none
    _code_at: CodeAt | None = None
    _frame_texts: dict[tuple[FrameStyle, bytes, bytes], FrameTexts] = field(default_factory=dict)

    @property
    def code_at(self) -> CodeAt:
        """The code of the recording's dsos."""
        if self._code_at is None:
            from perfpy.views.script.code.code_at import CodeAt  # few listings show code

            self._code_at = CodeAt(self.symbolizer)
        return self._code_at

    def frame_texts(self, style: FrameStyle, before: bytes = b"", after: bytes = b"") -> FrameTexts:
        """Return the texts of all frames in a style; shared by all events, of which there may be thousands."""
        texts = self._frame_texts.get((style, before, after))
        if texts is None:
            texts = self._frame_texts[style, before, after] = FrameTexts(self.symbolizer, style, before, after, self.sources)
        return texts
