"""The code that a trace ran through: the mappings of processes as the side-band tells them, and blocks of instructions in their files.

A block is a run of instructions up to the first branch. Blocks are decoded once for each file and kept by address.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.records import Comm, Fork, Mmap, Mmap2, copies_parent
from perfpy.disassembly.x86_lengths import LONGEST, BranchKind, branch_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    #: (name, build-id) -> the bytes of the mapped file, None if it is missing
    FindFile = Callable[[str, str], bytes | memoryview | None]
    #: (address, size) -> the kernel's code, None if it is missing
    ReadKernel = Callable[[int, int], bytes | None]
    #: (mapping, its time, conversion of the trace's ticks: shift, mult, zero) -> times and mappings of code that the process compiles, if
    #: it maps a dump of that
    FindCompiled = Callable[[Mmap | Mmap2, int, tuple[int, int, int]], list[tuple[int, Mmap2]]]


_MOST_INSTRUCTIONS: Final = 1 << 20  # between two branches
_MOST_NODES: Final = 1 << 18  # kept of a process
_MOST_OF_PATHS: Final = 1 << 19  # the size of all paths that are kept: one each, one for each return address, and
_BRANCHES_OF_ONE: Final = 8  # one for every eight branches
_MOST_SEEN: Final = 1 << 17
_ERRORS_OF_FILE: Final = 2  # perf reports a file that it cannot read twice

#: bits of a branch's flags (PERF_IP_FLAG_* in perf's event.h)
BRANCH, CALL, RETURN, CONDITIONAL, SYSCALL, ASYNC, INTERRUPT, TX_ABORT, TRACE_BEGIN, TRACE_END, IN_TX, VM_ENTRY = (
    1 << bit for bit in range(12)
)
_FLAGS: Final = {
    BranchKind.NONE: 0,
    BranchKind.CALL: BRANCH | CALL,
    BranchKind.INDIRECT_CALL: BRANCH | CALL,
    BranchKind.RETURN: BRANCH | RETURN,
    BranchKind.CONDITIONAL: BRANCH | CONDITIONAL,
    BranchKind.JUMP: BRANCH,
    BranchKind.INDIRECT_JUMP: BRANCH,
    BranchKind.INTERRUPT_RETURN: BRANCH | RETURN | INTERRUPT,
    BranchKind.INTERRUPT: BRANCH | CALL | INTERRUPT,
    BranchKind.SYSTEM_CALL: BRANCH | CALL | SYSCALL,
    BranchKind.SYSTEM_RETURN: BRANCH | RETURN | SYSCALL,
    BranchKind.VM_ENTRY: BRANCH | VM_ENTRY,
}

#: how a block ends
CONDITIONAL_END, DIRECT_END, INDIRECT_END, RETURN_END, NO_CODE, MISSING_FILE = range(6)
_CALLS: Final = (BranchKind.CALL, BranchKind.INDIRECT_CALL)


class CodeSources(NamedTuple):
    """Where code is found: that of mapped files, the kernel's, and what processes compile while they run; images: of that, by file."""

    find_file: FindFile
    read_kernel: ReadKernel
    find_compiled: FindCompiled
    images: dict[str, bytes]


class Edges:
    """Numbers of distinct branches: where from, where to, flags and the length of the instruction."""

    def __init__(self) -> None:
        self.columns: list[tuple[int, int, int, int]] = []
        self._numbers: dict[tuple[int, int, int, int], int] = {}

    def number(self, source: int, target: int, flags: int, length: int) -> int:
        """Return the number of a branch."""
        key = source, target, flags, length
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.columns)
            self.columns.append(key)
        return number


class CodeBlock:
    """Consecutive instructions.

    Attributes:
        count: instructions, with the branch.
        last: the address of the branch, or of what is no code.
        end: how the block ends.
        target, after: addresses of the branch's direct target and of the next instruction.
        pushes: whether the branch is a call that returns.
        flags, length: of the branch.
        edge: the number of the direct branch, -1 if it is indirect.
        targets: numbers of indirect branches by target.
        starts: the address of each instruction.
    """

    __slots__ = ("after", "count", "edge", "end", "flags", "last", "length", "pushes", "starts", "target", "targets")

    def __init__(self, base: int, shape: _BlockShape, edges: Edges) -> None:
        self.count = len(shape.starts)
        self.starts = shape.starts
        self.end = shape.end
        self.last = base + shape.last
        self.length = shape.length
        self.after = self.last + shape.length
        self.flags = shape.flags
        self.target = (self.after + shape.displacement) & _MASK
        self.pushes = shape.is_call and not (shape.end == DIRECT_END and not shape.displacement)
        self.edge = edges.number(self.last, self.target, shape.flags, shape.length) if shape.end <= DIRECT_END else -1
        self.targets: dict[int, int] = {}
        self.starts = [base + start for start in shape.starts]


#: of the way in a node
TIP_KEY: Final = -1


class Path:
    """Where the bits of a TNT packet lead from an address.

    Attributes:
        edges: numbers of the branches.
        after: the node of the address after them.
        instructions: their number.
        needs: the return addresses that it takes from the stack.
        pushes: return addresses that are left on the stack.
        untimed: branches before the first one that a bit tells.
        blocks: of code.
        ends, before: instructions up to the end of each block, and branches before its own.
        parts: the paths whose blocks they are if these are not known yet.
        is_taken: whether the first bit is a branch that is taken.
        counts: instructions up to each branch, if they are counted.
    """

    __slots__ = ("after", "before", "blocks", "counts", "edges", "ends", "instructions", "is_taken", "needs", "parts", "pushes", "untimed")

    def __init__(self, edges: array[int], after: Node, instructions: int, needs: list[int], pushes: list[int], untimed: int) -> None:
        self.edges, self.after, self.instructions, self.untimed = edges, after, instructions, untimed
        self.needs, self.pushes = needs, pushes
        self.blocks: Sequence[CodeBlock] = ()
        self.ends: Sequence[int] = ()
        self.before: Sequence[int] = ()
        self.parts: Sequence[Path] = ()
        self.is_taken = False
        self.counts: Sequence[int] = ()

    def join_blocks(self) -> None:
        """Find the blocks of a path of several packets."""
        ends, before, blocks = list[int](), list[int](), list[CodeBlock]()
        instructions = branches = 0
        for part in self.parts:
            ends += [instructions + end for end in part.ends]
            before += [branches + number for number in part.before]
            blocks += part.blocks
            instructions, branches = instructions + part.instructions, branches + len(part.edges)
        self.ends, self.before, self.blocks, self.parts = ends, before, blocks, ()

    @property
    def telling(self) -> int:
        """The number of the first block whose branch a bit tells."""
        return next(row for row, block in enumerate(self.blocks) if block.end in (CONDITIONAL_END, RETURN_END))


def joined(paths: Sequence[Path]) -> Path:
    """Return consecutive paths as one."""
    edges, needs, pushes = array("i"), list[int](), list[int]()
    for path in paths:
        edges.extend(path.edges)
        taken = min(len(path.needs), len(pushes))
        needs[:0] = path.needs[: len(path.needs) - taken]
        pushes[len(pushes) - taken :] = path.pushes
    path = Path(edges, paths[-1].after, sum(path.instructions for path in paths), needs, pushes, paths[0].untimed)
    path.parts, path.is_taken = paths, paths[0].is_taken
    return path


class Way:
    """How direct branches lead from an address to an indirect one.

    Attributes:
        edges: numbers of the direct branches.
        instructions: their number, with the indirect branch.
        pushes: return addresses of the calls.
        pops: whether the indirect branch is a return.
        targets: number of the branch and node of the target by target.
    """

    __slots__ = ("edges", "instructions", "pops", "pushes", "targets")

    def __init__(self, edges: array[int], instructions: int, pushes: list[int], *, pops: bool) -> None:
        self.edges, self.instructions, self.pushes, self.pops = edges, instructions, pushes, pops
        self.targets: dict[int, tuple[int, Node]] = {}


class Node(dict[Any, Any]):
    """What is known to follow an address: the path by the byte of a TNT packet, or by the bytes of several; the way by TIP_KEY.

    Instead of a path that takes return addresses there is a dictionary of what is known by the address on top of the stack, and so on.
    """

    __slots__ = ("ip",)

    def __init__(self, ip: int) -> None:
        self.ip = ip


class _BlockShape(NamedTuple):
    """A block in a file: offsets of instructions and of the branch, and what the branch is."""

    starts: list[int]
    last: int
    end: int
    length: int = 0
    displacement: int = 0
    flags: int = 0
    is_call: bool = False


_MASK: Final = (1 << 64) - 1
_ENDS: Final = {
    BranchKind.CONDITIONAL: CONDITIONAL_END,
    BranchKind.JUMP: DIRECT_END,
    BranchKind.CALL: DIRECT_END,
    BranchKind.RETURN: RETURN_END,
}


class _CodeFile:
    """The code of a mapped file."""

    def __init__(self, content: bytes | memoryview | None) -> None:
        self._content = content
        self._shapes: dict[tuple[int, int], _BlockShape] = {}
        self._instructions: dict[int, tuple[int, BranchKind, int]] = {}
        self.reads = 0

    def shape(self, offset: int, limit: int) -> _BlockShape:
        """Return the block that begins at an offset; limit: the end of the mapping in the file."""
        known = self._shapes.get((offset, limit))
        if known is not None:
            return known
        content, position = self._content, offset
        starts: list[int] = []
        if content is None:
            self.reads += 1
            return _BlockShape([], offset, NO_CODE if self.reads <= _ERRORS_OF_FILE else MISSING_FILE)
        instructions, limit_here = self._instructions, min(limit, len(content))
        while position < limit_here and len(starts) < _MOST_INSTRUCTIONS:
            instruction = instructions.get(position)
            if instruction is None:
                instruction = instructions[position] = branch_of(bytes(content[position : position + LONGEST]))
            length, kind, displacement = instruction
            if not length:
                break
            starts.append(position)
            if kind:
                end = _ENDS.get(kind, INDIRECT_END)
                shape = _BlockShape(starts, position, end, length, displacement, _FLAGS[kind], kind in _CALLS)
                self._shapes[offset, limit] = shape
                return shape
            position += length
        return _BlockShape(starts, position, NO_CODE)


class _Mapping(NamedTuple):
    start: int
    end: int
    offset: int
    file: _CodeFile
    name: str


class AddressSpace:
    """The mappings of a process, and the blocks of its code by address."""

    def __init__(self, edges: Edges, mappings: list[_Mapping] | None = None, kernel: KernelSpace | None = None) -> None:
        self._edges, self._kernel = edges, kernel
        self._mappings = list(mappings or ())
        self._starts = [mapping.start for mapping in self._mappings]
        self.blocks: dict[int, CodeBlock] = {}
        self._nodes: dict[int, Node] = {}
        self._kept = 0  # of paths, as keep_path() counts it
        self._seen: set[int] = set()  # hashes of an address and several packets

    def copy(self) -> AddressSpace:
        """Return the address space of a forked process."""
        return AddressSpace(self._edges, self._mappings, self._kernel)

    def map(self, start: int, end: int, offset: int, file: _CodeFile, name: str = "") -> None:
        """Map a file in place of what is there."""
        kept = []
        for mapping in self._mappings:
            if mapping.end <= start or mapping.start >= end:
                kept.append(mapping)
                continue
            if mapping.start < start:
                kept.append(mapping._replace(end=start))
            if mapping.end > end:
                kept.append(mapping._replace(start=end, offset=mapping.offset + end - mapping.start))
        kept.append(_Mapping(start, end, offset, file, name))
        self._mappings = sorted(kept, key=lambda mapping: mapping.start)
        self._starts = [mapping.start for mapping in self._mappings]
        self.blocks.clear()
        self._nodes.clear()

    def mapped_file(self, address: int) -> tuple[str, int] | None:
        """Return the file that is mapped at an address, and the offset there; "" and the address in the kernel, None without a file."""
        if address >= _KERNEL_START:
            return "", address
        found = bisect_right(self._starts, address) - 1
        if found < 0 or address >= self._mappings[found].end:
            return None
        mapping = self._mappings[found]
        return mapping.name, address - mapping.start + mapping.offset

    def node(self, ip: int) -> Node:
        """Return what is known to follow an address."""
        node = self._nodes.get(ip)
        if node is None:
            node = self._nodes[ip] = Node(ip)
        return node

    def is_again(self, node: Node, packets: bytes) -> bool:
        """Whether these packets are seen at an address again, so that it is worthwhile to keep their path."""
        mark, seen = hash(packets) ^ node.ip, self._seen
        if mark in seen:
            return True
        if len(seen) >= _MOST_SEEN:
            seen.clear()
        seen.add(mark)
        return False

    def keep_path(self, start: int, head: int | bytes, path: Path) -> None:
        """Keep the path from an address by the bytes of TNT packets."""
        self._kept += 1 + len(path.needs) + len(path.edges) // _BRANCHES_OF_ONE
        if self._kept >= _MOST_OF_PATHS or len(self._nodes) >= _MOST_NODES:
            self._nodes.clear()
            self._kept = 0
        level: dict[Any, Any] = self.node(start)
        for address in reversed(path.needs):
            below = level.get(head)
            if below.__class__ is not dict:
                below = level[head] = {}
            level, head = below, address
        level[head] = path

    def block(self, address: int, joined: int = 0) -> CodeBlock:
        """Return the block at an address; joined: mappings that it began in."""
        block = self.blocks.get(address)
        if block is not None:
            return block
        if address >= _KERNEL_START and self._kernel is not None:
            block = self._kernel.block(address)
            if block.end < NO_CODE:
                self.blocks[address] = block
            return block
        found = bisect_right(self._starts, address) - 1
        if found < 0 or address >= self._mappings[found].end:
            return CodeBlock(address, _BlockShape([], 0, NO_CODE), self._edges)
        mapping = self._mappings[found]
        base = mapping.start - mapping.offset
        shape = mapping.file.shape(address - base, mapping.end - base)
        block = CodeBlock(base, shape, self._edges)
        if shape.end == NO_CODE and shape.last >= mapping.end - base and joined < _MOST_JOINED:  # goes on in the next mapping
            rest = self.block(base + shape.last, joined + 1) if shape.starts else block
            if rest.count:
                block = _joined(block, rest)
        if block.end < NO_CODE:
            self.blocks[address] = block
        return block


class AddressFilters:
    """The addresses that hardware traces (record --filter), in the kernel's form: "filter 0x1000/0x20@/bin/prog,tracestop ...".

    Raises ValueError for other text.
    """

    def __init__(self, text: str) -> None:
        self._ranges: list[tuple[bool, int, int, str]] = []  # whether it is traced, begin and end in the file, its name
        position = 0
        while found := _FILTER.match(text, position):
            begin = int(found[2], 0)
            self._ranges.append((found[1] in ("filter", "start"), begin, begin + int(found[3] or "0", 0), found[4] or ""))
            position = found.end()
        if position < len(text.rstrip()):
            raise ValueError(text[position : position + 40])
        self._is_limited = any(is_traced for is_traced, *_ in self._ranges)

    def leave(self, space: AddressSpace, address: int) -> bool:
        """Whether tracing ends at an address, as perf decides it."""
        mapped = space.mapped_file(address)
        if mapped is None:
            return False
        name, offset = mapped
        hits = [is_traced for is_traced, begin, end, file in self._ranges if file == name and begin <= offset < end]
        return not all(hits) or (self._is_limited and not hits)


_NUMBER: Final = r"(0x[0-9a-f]{1,16}|\d{1,20})"
_FILTER: Final = re.compile(rf"[\s,]*(filter|start|stop|tracestop)\s+{_NUMBER}(?:/{_NUMBER})?(?:@([^\s,]+))?")


class KernelSpace(AddressSpace):
    """The kernel's code, which is read page by page."""

    def __init__(self, edges: Edges, read: ReadKernel) -> None:
        super().__init__(edges)
        self._read = read
        self._pages: set[int] = set()
        self._missing = _CodeFile(None)

    def block(self, address: int, joined: int = 0) -> CodeBlock:
        """Return the block at an address; joined: pages that it began in."""
        page = address & -_PAGE
        if page not in self._pages and len(self._pages) < _MOST_PAGES:
            self._pages.add(page)
            content = self._read(page, _PAGE + LONGEST) or self._read(page, _PAGE)
            self.map(page, page + _PAGE, 0, self._missing if content is None else _CodeFile(content))
        return super().block(address, joined)


_KERNEL_START: Final = 1 << 63
_PAGE, _MOST_PAGES, _MOST_JOINED = 4096, 1 << 15, 64


def _joined(first: CodeBlock, rest: CodeBlock) -> CodeBlock:
    """Return two blocks as one: the first is not ended by a branch."""
    block = object.__new__(CodeBlock)
    for name in CodeBlock.__slots__:
        setattr(block, name, getattr(rest, name))
    block.starts = first.starts + rest.starts
    block.count = len(block.starts)
    return block


class CodeOfDumps:
    """The code that the processes of a recording compile while they run, as dumps tell it that their mappings name."""

    def __init__(self, find: FindCompiled, conversion: tuple[int, int, int]) -> None:
        self._find, self._conversion = find, conversion
        self._pending: list[tuple[int, Mmap2]] = []  # by time; the first `_taken` ones were taken
        self._taken = 0
        self._ranges: dict[int, tuple[list[int], list[int]]] = {}  # by process: begins and ends of memory with code so far, disjoint

    def see(self, record: Mmap | Mmap2, time: int) -> None:
        """Read the code that a mapping leads to."""
        new = self._find(record, time, self._conversion) if record.pid not in self._ranges else []
        if new:
            self._ranges[record.pid] = [], []
            self._pending, self._taken = sorted([*self._pending[self._taken :], *new], key=itemgetter(0)), 0

    def take(self, until: int) -> list[tuple[int, Mmap2]]:
        """Return the mappings up to a time, once."""
        end = bisect_right(self._pending, until, lo=self._taken, key=itemgetter(0))
        taken, self._taken = self._pending[self._taken : end], end
        for _, code in taken:
            self._cover(code.pid, code.addr, code.addr + code.len)
        return taken

    def _cover(self, pid: int, begin: int, end: int) -> None:
        begins, ends = self._ranges[pid]
        first, last = bisect_left(ends, begin), bisect_right(begins, end)
        if first < last:
            begin, end = min(begin, begins[first]), max(end, ends[last - 1])
        begins[first:last], ends[first:last] = [begin], [end]

    def hides(self, record: Mmap | Mmap2) -> bool:
        """Whether a mapping of memory would replace code that take() has returned."""
        name = record.filename
        if name.startswith("/") and not name.startswith(_OF_MEMORY):
            return False
        begins, ends = self._ranges.get(record.pid, ([], []))
        index = bisect_right(ends, record.addr)
        return index < len(begins) and begins[index] < record.addr + record.len


_OF_MEMORY: Final = ("//anon", "/dev/zero", "/anon_hugepage", "/memfd:")


class CodeOfProcesses:
    """The address spaces and threads of a recording, as of the side-band records applied so far."""

    def __init__(self, find_file: FindFile, read_kernel: ReadKernel, build_ids: dict[str, str]) -> None:
        self.edges = Edges()
        self._kernel = KernelSpace(self.edges, read_kernel)
        self._find_file = find_file
        self._build_ids = build_ids
        self._files: dict[tuple[str, str], _CodeFile] = {}
        self._spaces: dict[int, AddressSpace] = {}
        self.pid_of: dict[int, int] = {0: 0}
        self._nothing = AddressSpace(self.edges, kernel=self._kernel)

    def space(self, pid: int) -> AddressSpace:
        """Return the address space of a process."""
        return self._spaces.get(pid, self._nothing)

    def apply(self, record: object) -> None:
        """Apply a side-band record."""
        if isinstance(record, (Mmap, Mmap2)):
            is_code = not isinstance(record, Mmap2) or record.prot & _EXECUTABLE
            self.pid_of.setdefault(record.tid, record.pid)
            if is_code and record.misc & _CPU_MODE == _USER:
                space = self._spaces.setdefault(record.pid, AddressSpace(self.edges, kernel=self._kernel))
                file = self._file(record.filename, getattr(record, "build_id", b"").hex())
                space.map(record.addr, record.addr + record.len, record.pgoff, file, record.filename)
        elif isinstance(record, Comm):
            self.pid_of.setdefault(record.tid, record.pid)
        elif isinstance(record, Fork):
            self.pid_of[record.tid] = record.pid
            if copies_parent(record.pid, record.ppid, record.misc) and record.ppid in self._spaces:
                self._spaces[record.pid] = self._spaces[record.ppid].copy()

    def _file(self, name: str, build_id: str) -> _CodeFile:
        key = name, build_id or self._build_ids.get(name, "")
        file = self._files.get(key)
        if file is None:
            file = self._files[key] = _CodeFile(self._find_file(*key))
        return file


_EXECUTABLE: Final = 4
_CPU_MODE, _USER = 7, 2


class TracedCalls:
    """The calls that each thread has not returned from, as perf keeps them (thread_stack__event).

    Args:
        frames: of a callchain at most.
    """

    def __init__(self, frames: int) -> None:
        self._frames = frames
        self._stacks: dict[int, _CallStack] = {}  # by thread
        self._kinds, self._values = np.zeros(0, np.uint8), np.zeros(0, np.uint64)  # of branches: see _kinds_of

    def follow(self, tid: int, trace: int, numbers: NDArray[np.int32], edges: NDArray[np.uint64]) -> None:
        """Apply the branches of a thread in one trace; edges: the columns of all branches."""
        if edges.shape[1] != len(self._kinds):
            self._kinds, self._values = _kinds_of(edges)
        kinds = self._kinds[numbers]
        rows = np.flatnonzero(kinds)
        if not len(rows):
            return
        stack = self._stacks.get(tid)
        if stack is None or stack.trace != trace:
            stack = self._stacks[tid] = _CallStack(trace)
        stack.follow(kinds[rows].tolist(), self._values[numbers[rows]].tolist())

    def depths(self, tid: int, trace: int, numbers: NDArray[np.int32], edges: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Apply branches, too; return the number of open calls after each one."""
        flags = edges[2][numbers]
        rows = np.flatnonzero(flags & np.uint64(CALL | RETURN | TRACE_BEGIN))
        depths = [self._depth(tid, trace)]
        for row in rows.tolist():
            self.follow(tid, trace, numbers[row : row + 1], edges)
            depths.append(self._depth(tid, trace))
        return np.array(depths, np.uint64)[np.searchsorted(rows, np.arange(len(numbers)), "right")]

    def _depth(self, tid: int, trace: int) -> int:
        """Return the number of open calls; 0 for a thread without any branch so far that a call stack follows."""
        stack = self._stacks.get(tid)
        return len(stack.returns) if stack is not None and stack.trace == trace else 0

    def chain(self, tid: int, ip: int) -> list[int]:
        """Return the callchain of a sample, with the words of the kernel and of user space."""
        chain = [_context(ip), ip]
        context = chain[0]
        stack = self._stacks.get(tid)
        for address in reversed(stack.returns if stack is not None else ()):
            if len(chain) > self._frames:
                break
            if _context(address) != context:
                if len(chain) >= self._frames:
                    break
                context = _context(address)
                chain.append(context)
            chain.append(address)
        return chain

    def late_chain(self, tid: int, ip: int) -> list[int]:
        """Return the callchain for a sample of another event, which the kernel took some calls ago."""
        stack, size = self._stacks.get(tid), self._frames + 1
        returns = stack.returns[::-1] if stack is not None else []
        context, chain, last = _context(ip), list[int](), -1
        of_user = (row for row, address in enumerate(returns) if _context(address) == _USER_CONTEXT or (address == ip and ip >> 63))
        for address in returns[next(of_user, len(returns)) :]:
            if len(chain) >= size:
                break
            if (kind := _context(address)) != last:
                if len(chain) >= size - 1:
                    break
                chain.append(kind)
                last = kind
            chain.append(address)
        return chain or [context, ip]


class LastBranches:
    """The last branches of each thread, as perf keeps them (thread_stack__update_br_stack).

    Args:
        most: branches of a sample.
        later: branches kept of a thread in addition, for samples of other events, which the kernel took some branches ago.
    """

    def __init__(self, most: int, later: int = 0) -> None:
        self._shown, self._most = most, most + later
        self._branches: dict[int, tuple[int, NDArray[np.int32]]] = {}  # by thread: the trace, and numbers of branches

    def follow(self, tid: int, trace: int, numbers: NDArray[np.int32]) -> None:
        """Apply the branches of a thread in one trace."""
        known, before = self._branches.get(tid, (trace, numbers[:0]))
        if known == trace and len(numbers) < self._most:
            numbers = np.concatenate([before, numbers])
        self._branches[tid] = trace, numbers[-self._most :].copy()

    def stack(self, tid: int, edges: NDArray[np.uint64]) -> list[tuple[int, int, int]]:
        """Return source, target and flags of the last branches, the newest first."""
        return self._entries(self._numbers(tid)[: self._shown], edges)

    def late_stack(self, tid: int, ip: int, edges: NDArray[np.uint64]) -> list[tuple[int, int, int]]:
        """Return the last branches up to a sample of another event."""
        numbers = self._numbers(tid)
        source, target, *_ = edges[:, numbers]
        starts = (target != 0) & (target < _KERNEL_START)
        if ip >= _KERNEL_START:
            starts |= source < _KERNEL_START
            starts[1:] |= (target[1:] <= ip) & (source[:-1] >= ip)
        first = int(np.argmax(starts)) if starts.any() else len(numbers)
        return self._entries(numbers[first : first + self._shown], edges)

    def _numbers(self, tid: int) -> NDArray[np.int32]:
        return self._branches.get(tid, (0, np.zeros(0, np.int32)))[1][::-1]

    @staticmethod
    def _entries(numbers: NDArray[np.int32], edges: NDArray[np.uint64]) -> list[tuple[int, int, int]]:
        source, target, flags, _ = edges[:, numbers]
        aborted = (flags & np.uint64(TX_ABORT)) != 0
        in_transaction = (flags & np.uint64(IN_TX)) != 0
        words = aborted * np.uint64(_STACK_ABORT) | in_transaction * np.uint64(_STACK_IN_TX)
        return list(zip(source.tolist(), target.tolist(), words.tolist(), strict=True))


class _CallStack:
    """The return addresses of one thread.

    Attributes:
        trace: the trace that tells them.
        returns: the addresses, the innermost last.
    """

    def __init__(self, trace: int) -> None:
        self.trace = trace
        self.returns: list[int] = []
        self._ended: list[int] = []  # positions of calls with which tracing ended
        self._counts: dict[int, int] = {}

    def follow(self, kinds: list[int], values: list[int]) -> None:
        """Apply branches. A return removes the calls up to the innermost one that returns there: functions may be left by longjmp()."""
        returns, ended, counts = self.returns, self._ended, self._counts
        for kind, value in zip(kinds, values, strict=True):
            if kind <= _ENDED_CALL:
                if len(returns) >= _DEEPEST_CALLS:
                    self._drop_outermost()
                    counts = self._counts
                if kind == _ENDED_CALL:
                    ended.append(len(returns))
                returns.append(value)
                counts[value] = counts.get(value, 0) + 1
                continue
            if counts.get(value):
                while True:
                    address = returns.pop()
                    counts[address] -= 1
                    if address == value:
                        break
                while ended and ended[-1] >= len(returns):
                    ended.pop()
            if kind == _BEGIN:
                while ended and ended[-1] == len(returns) - 1:
                    counts[returns.pop()] -= 1
                    ended.pop()

    def _drop_outermost(self) -> None:
        dropped = _DEEPEST_CALLS // 2
        del self.returns[:dropped]
        self._ended[:] = [position - dropped for position in self._ended if position >= dropped]
        self._counts = dict(Counter(self.returns))


#: what branches do to calls: nothing, call, call with which tracing ends, return, begin of tracing
_NOTHING, _CALL, _ENDED_CALL, _RETURN, _BEGIN = range(5)


def _kinds_of(edges: NDArray[np.uint64]) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
    """Return what each branch does to calls, and the return address of a call or the target of another branch."""
    source, target, flags, length = edges
    after = source + length
    is_call, begins = (flags & np.uint64(CALL)) != 0, (flags & np.uint64(TRACE_BEGIN)) != 0
    returns = ((flags & np.uint64(RETURN)) != 0) & (source != 0)
    calls = np.where((target == 0) | (after == target), _NOTHING, np.where(flags & np.uint64(TRACE_END), _ENDED_CALL, _CALL))
    kinds = np.where(is_call, calls, np.where(begins, _BEGIN, np.where(returns, _RETURN, _NOTHING))).astype(np.uint8)
    return kinds, np.where(is_call, after, target)


def _context(address: int) -> int:
    return _KERNEL_CONTEXT if address >> 63 else _USER_CONTEXT


_DEEPEST_CALLS: Final = 1 << 14
_STACK_IN_TX, _STACK_ABORT = 1 << 2, 1 << 3  # bits of struct perf_branch_entry in linux/perf_event.h
_KERNEL_CONTEXT, _USER_CONTEXT = (1 << 64) - 128, (1 << 64) - 512  # PERF_CONTEXT_KERNEL and PERF_CONTEXT_USER
