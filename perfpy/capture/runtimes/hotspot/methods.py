"""Java methods: a pointer to HotSpot's Method -> its name and bytecodes.

The address of a bytecode represents a frame without machine code of its own: it is unique to the method, and has the position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from perfpy.capture.runtimes.hotspot.process_memory import ProcessMemory
    from perfpy.capture.runtimes.hotspot.vm_structs import VmStructs

_MOST_METHODS: Final = 1 << 20
_LONGEST: Final = 4096  # characters of a name
_PRIMITIVE: Final = {
    "B": "byte", "C": "char", "D": "double", "F": "float", "I": "int", "J": "long", "S": "short", "Z": "boolean", "V": "void",
}  # fmt: skip


class JavaMethod(NamedTuple):
    """A Java method.

    Attributes:
        begin: the first address that represents it.
        code: the address of the first bytecode.
        size: bytes of bytecode, 0 for native methods.
    """

    begin: int
    code: int
    size: int
    name: str

    @property
    def end(self) -> int:
        """The address after the last bytecode."""
        return self.code + max(self.size, 1)

    def address(self, bci: int) -> int:
        """Return the address of a bytecode by index; of the first one if the index is invalid."""
        return self.code + (bci if 0 <= bci < self.size else 0)

    def holds(self, bytecode: int) -> bool:
        """Whether the address of a bytecode, as found on a stack, belongs to this method; a native one has none."""
        return self.code <= bytecode < self.code + self.size if self.size else bytecode == 0


class Methods:
    """The methods of one JVM, each read once."""

    def __init__(self, memory: ProcessMemory, vm: VmStructs) -> None:
        self._memory = memory
        self._const = vm.field(("Method", "_constMethod"))
        self._const_size = vm.size("ConstMethod")
        self._pool_size = vm.size("ConstantPool")
        names = ("_constants", "_code_size", "_name_index", "_signature_index")
        self._of_const = [vm.field(("ConstMethod", name)) for name in names]
        self._holder = vm.field(("ConstantPool", "_pool_holder"))
        self._class_name = vm.field(("Klass", "_name"))
        self._length = vm.field(("Symbol", "_length"))
        self._body = vm.field(("Symbol", "_body[0]"), ("Symbol", "_body"))
        self._methods: dict[int, JavaMethod | None] = {}

    def find(self, pointer: int) -> JavaMethod | None:
        """Return the method at a pointer; None if there is none."""
        if pointer not in self._methods:
            if pointer & 7 or len(self._methods) >= _MOST_METHODS:
                return None
            try:
                self._methods[pointer] = self._read(pointer)
            except (OSError, ValueError):
                self._methods[pointer] = None
        return self._methods[pointer]

    def forget_failures(self) -> None:
        """Drop failures, because the memory may be readable now."""
        self._methods = {pointer: method for pointer, method in self._methods.items() if method is not None}

    def _read(self, pointer: int) -> JavaMethod:
        const = self._memory.number(pointer + self._const.offset)
        data = self._memory.read(const, self._const_size)
        pool, size, name, signature = (field.of(data) for field in self._of_const)
        holder = self._memory.number(pool + self._holder.offset)
        of_class = self._symbol(self._memory.number(holder + self._class_name.offset))
        slots = pool + self._pool_size
        texts = [self._symbol(self._memory.number(slots + 8 * index)) for index in (name, signature)]
        return JavaMethod(const, const + self._const_size, size, external_name(of_class, *texts))

    def _symbol(self, pointer: int) -> str:
        pointer &= ~7
        length = self._memory.number(pointer + self._length.offset, self._length.size)
        return self._memory.read(pointer + self._body.offset, min(length, _LONGEST)).decode("utf-8", "replace")


def external_name(of_class: str, name: str, descriptor: str) -> str:
    """Return a method's name in the format of the JVM's perf maps: void Main.main(java.lang.String[])."""
    parameters, _, result = descriptor.removeprefix("(").partition(")")
    types = ", ".join(_types(parameters))
    before = "".join(_types(result)[:1])
    return one_line(f"{before} {_class(of_class)}.{name}({types})"[:_LONGEST])


def _class(name: str) -> str:
    return name.replace("/", ".").replace("+0x", "/0x")  # hidden classes: App$$Lambda+0x7f...


def _types(descriptor: str) -> list[str]:
    """Return the types of a descriptor (JVM specification, 4.3.2)."""
    types, index = [], 0
    while index < len(descriptor):
        first = index
        while index < len(descriptor) and descriptor[index] == "[":
            index += 1
        arrays = "[]" * (index - first)
        if descriptor[index : index + 1] == "L":
            end = descriptor.find(";", index)
            end = len(descriptor) if end < 0 else end
            types.append(_class(descriptor[index + 1 : end]) + arrays)
        else:
            end = index
            types.append(_PRIMITIVE.get(descriptor[index : index + 1], "?") + arrays)
        index = end + 1
    return types
