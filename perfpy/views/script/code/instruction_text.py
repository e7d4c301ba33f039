"""The instructions of samples as text: insn, insnlen and disasm, and with brstackinsn those between branches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.views.script.texts.field_text import column

if TYPE_CHECKING:
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.records.batches import Batch
    from perfpy.views.script.line_context import LineContext
    from perfpy.views.script.pieces import Piece

#: fields of the sampled instruction
OF_SAMPLE: Final = frozenset(("insn", "insnlen", "disasm"))
OF_BRANCHES: Final = frozenset(("brstackinsn", "brstackinsnlen", "brstackdisasm"))
_OF_X86: Final = ("x86_64", "i386", "i686")
_MOST: Final = 16  # the longest instruction, in bytes


class InstructionTexts:
    """The formatter of one event's instructions."""

    def __init__(self, event: FileEvent, context: LineContext, fields: set[str]) -> None:
        self._event = event
        self._context = context
        self._fields = fields & OF_SAMPLE
        self._texts: dict[int, bytes] = {}
        self._branches = None
        if fields & OF_BRANCHES:
            from perfpy.views.script.code.branch_code import BranchCode

            self._branches = BranchCode(event, context, fields)

    def piece(self, batch: Batch) -> Piece:
        """Return the text of each sample."""
        texts = self._sampled_bytes(batch) if self._fields else [b""] * len(batch)
        if self._branches is None or "branch_stack" not in batch.columns:
            return texts
        return [text + after for text, after in zip(texts, self._branches.texts(batch), strict=True)]

    def _sampled_bytes(self, batch: Batch) -> list[bytes]:
        symbolizer = self._context.symbolizer
        pid, ip = column(batch, self._event, "pid"), column(batch, self._event, "ip")
        ids = symbolizer.frame_ids(pid, ip, batch.key, batch.columns["cpumode"]).tolist()
        symbolizer.resolve()
        for frame in dict.fromkeys(ids):
            if frame not in self._texts:
                self._texts[frame] = self._text(frame)
        return [self._texts[frame] for frame in ids]

    def _text(self, frame: int) -> bytes:
        frames, code_at = self._context.symbolizer.frames, self._context.code_at
        code = code_at.read(int(frames.dso[frame]), int(frames.address[frame]), _MOST)
        size = code.size_at(0) if self._context.arch in _OF_X86 else 0  # perf knows no lengths of other machines' instructions
        text = b" ilen: %d" % size if "insnlen" in self._fields else b""
        if size and "insn" in self._fields:
            text += b" " + code.bytes_at(0).rstrip()
        if "disasm" in self._fields:
            words = code_at.words(int(frames.symbol[frame]), int(frames.symbol_offset[frame]))
            text += b"\t\t" + words if words else b""
        return text
