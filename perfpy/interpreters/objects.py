"""Read Python objects: strings, dictionaries, and the attributes of instances.

Facts of the public headers (Include/cpython/dictobject.h, Include/internal/pycore_dict.h, pycore_object.h). A dictionary has a table of
keys. Instances of a class share one; then the values are elsewhere: in the dictionary, or since 3.11 beside the instance.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, Protocol

from perfpy.abi.light_types import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.interpreters.layouts import PythonLayout


LONGEST_TEXT: Final = 1024  #: characters of a str object; longer ones are truncated
_TEXT_STATE: Final = 32  # PyASCIIObject.state; before it, at 16, the length
_ENCODINGS: Final = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}
_TYPE: Final = 8  # PyObject.ob_type
_TYPE_NAME: Final = 24  # PyTypeObject.tp_name
_BASIC_SIZE: Final = 32  # PyTypeObject.tp_basicsize
_SIZE: Final = 16  # PyVarObject.ob_size, PyFloatObject.ob_fval, PyCellObject.ob_ref; since 3.12 PyLongObject.lv_tag
_BYTES: Final = 32  # PyBytesObject.ob_sval
_DIGITS: Final = 24  # PyLongObject.ob_digit
_DIGIT_BITS: Final = 30
_MOST_DIGITS: Final = 8  # of an int that is shown
_LONGEST_VALUE: Final = 60  # characters of a text that are shown
_LONGEST_TYPE: Final = 80  # bytes of a type's name
#: types of containers -> the offset of the number of items
_CONTAINERS: Final = {"list": 16, "tuple": 16, "dict": 16, "set": 24, "frozenset": 24, "bytearray": 16, "collections.deque": 16}
_DICT_OFFSET: Final = 288  # PyTypeObject.tp_dictoffset
_LARGEST_OBJECT: Final = 1 << 16  # bytes of an instance
_DICT: Final = struct.Struct("<32xQQ")  # PyDictObject.ma_keys, ma_values
_KEYS: Final = struct.Struct("<8xq16xq")  # PyDictKeysObject.dk_size, dk_nentries, up to 3.10; then the indices
_KEYS_3_11: Final = struct.Struct("<8xBBBx4x8xq")  # dk_log2_size, dk_log2_index_bytes, dk_kind, dk_nentries
_WITH_HASH: Final = 0  # dk_kind: entries are hash, key and value, otherwise key and value
_MOST_ENTRIES: Final = 1 << 14  # of a dictionary that are read
_MOST_PROBES: Final = 64
_LARGEST_LOG: Final = 40
_VALUES_POINTER: Final = -32  # from an instance to the pointer to its values (3.11)
_DICT_POINTER: Final = -24  # from an instance to the pointer to its dictionary; in 3.12 one less than the values' address, if it is odd
_DICT_POINTER_WITHOUT_GIL: Final = -8
_VALUES: Final = 8  # PyDictValues.values, since 3.13; before it, their number and whether they are valid


class _Keys(NamedTuple):
    """A table of keys.

    Attributes:
        size: the number of indices, a power of two.
        index_size: bytes of an index.
        indices, entries: addresses.
        entry_count: the number of entries.
        entry_size: bytes of an entry.
    """

    size: int
    index_size: int
    indices: int
    entries: int
    entry_count: int
    entry_size: int


class Objects:
    """The objects of one process."""

    def __init__(self, memory: Memory, layout: PythonLayout) -> None:
        self._memory = memory
        self._layout = layout
        self._shift = layout.shift
        self._interned: dict[str, int] = {}  # attribute name -> address of the str object that was one last

    def text(self, address: int) -> str:
        """Read a str object, truncated to LONGEST_TEXT characters. Raises ValueError for other objects."""
        head = self._memory.read(address + self._shift + _SIZE, _TEXT_STATE - _SIZE + 4)
        (length,), (state,) = WORD.unpack_from(head), struct.unpack_from("<I", head, _TEXT_STATE - _SIZE)
        # struct { interned, kind, compact, ascii, ready or statically allocated }: "interned" has 2 bits, 8 in some builds
        for shift in (2, 8, 16):
            kind, is_compact, is_ascii = state >> shift & 7, state >> shift + 3 & 1, state >> shift + 4 & 1
            if kind in _ENCODINGS and is_compact:
                begin = self._layout.ascii_text if is_ascii else self._layout.other_text
                data = self._memory.read(address + begin, min(length, LONGEST_TEXT) * kind)
                return data.decode(_ENCODINGS[kind], "replace")
        raise ValueError("no text")

    def describe(self, reference: int) -> str:
        """Return a value as a line of text: numbers and beginnings of texts, of containers the size, of other objects the type.

        Args:
            reference: to the object, as a variable has it, with tag bits.
        """
        tags = self._layout.tag_mask
        if tags and reference & tags == tags:  # a number in the reference itself
            return str((reference ^ 1 << 63) - (1 << 63) >> tags.bit_count())
        address = reference & ~tags
        if not is_pointer(address):
            return "?"
        try:
            name = self.type_name(address)
            if name == "cell":  # of a variable that an inner function uses
                address = read_word(self._memory, address + self._shift + _SIZE)
                if not is_pointer(address):
                    return "?"
                name = self.type_name(address)
            if name in _CONTAINERS:
                return f"{name} of {min(read_word(self._memory, address + self._shift + _CONTAINERS[name]), END_OF_MEMORY):,}"
            return self._plain_value(address, name) or f"<{name}>"
        except (UnreadableMemoryError, ValueError, struct.error):
            return "?"

    def type_name(self, address: int) -> str:
        """Return the name of an object's type, "?" for none."""
        kind = read_word(self._memory, address + self._shift + _TYPE)
        text = read_word(self._memory, kind + self._shift + _TYPE_NAME) if is_pointer(kind) else 0
        data = b""
        while len(data) < _LONGEST_TYPE and (piece := self._memory.read(text + len(data), 8)):
            data += piece
            if b"\0" in piece:
                break
        return data.partition(b"\0")[0].decode("utf-8", "replace") or "?"

    def _plain_value(self, address: int, name: str) -> str:
        """Return the value of a text or number; "" for objects of other types."""
        if name == "NoneType":
            return "None"
        if name == "float":
            return repr(struct.unpack("<d", self._memory.read(address + self._shift + _SIZE, 8))[0])
        if name in ("int", "bool"):
            number = self._integer(address)
            return "int of many digits" if number is None else str(bool(number) if name == "bool" else number)
        if name == "str":
            text = self.text(address)
            return repr(text[:_LONGEST_VALUE]) + ("..." if len(text) > _LONGEST_VALUE else "")
        if name == "bytes":
            size = read_word(self._memory, address + self._shift + _SIZE)
            return repr(self._memory.read(address + self._shift + _BYTES, min(size, _LONGEST_VALUE))) + (
                "..." if size > _LONGEST_VALUE else ""
            )
        return ""

    def _integer(self, address: int) -> int | None:
        """Return the value of an int, None for large ones."""
        (size,) = struct.unpack("<q", self._memory.read(address + self._shift + _SIZE, 8))
        if self._layout.version >= (3, 12):
            count, sign = size >> 3, 1 - (size & 3)
        else:
            count, sign = abs(size), -1 if size < 0 else 1
        if not 0 <= count <= _MOST_DIGITS:
            return None
        digits = struct.unpack(f"<{count}I", self._memory.read(address + self._shift + _DIGITS, 4 * count)) if count else ()
        return int(sign * sum(digit << _DIGIT_BITS * number for number, digit in enumerate(digits)))

    def find(self, dictionary: int, name: str) -> int:
        """Return the address of the value of a dictionary's key, a str, or 0 without it."""
        keys_address, values = self._dictionary(dictionary)
        return self._value(keys_address, values + self._values_offset if values else 0, name)

    def find_number(self, dictionary: int, number: int) -> int:
        """Return the address of the value of a key that is an int below 2**60, whose hash is the number itself, or 0 without it.

        Instead of reading all keys, this looks the key up as the interpreter does.
        """
        keys = self._keys(self._dictionary(dictionary)[0])
        if keys.entry_size != 3 * WORD.size:
            return 0
        mask, perturb = keys.size - 1, number
        position = number & mask
        for _ in range(_MOST_PROBES):
            index = int.from_bytes(self._memory.read(keys.indices + keys.index_size * position, keys.index_size), "little", signed=True)
            if index == -1 or index >= keys.entry_count:  # an empty slot
                return 0
            if index >= 0:
                key_hash, _, value = struct.unpack("<qQQ", self._memory.read(keys.entries + keys.entry_size * index, 24))
                if key_hash == number:
                    return int(value)
            perturb >>= 5
            position = position * 5 + perturb + 1 & mask
        return 0

    def attribute(self, instance: int, name: str) -> int:
        """Return the address of an attribute of an instance of a class that is written in Python, or 0 without it."""
        kind = read_word(self._memory, instance + self._shift + _TYPE)
        version = self._layout.version
        if not is_pointer(kind):
            return 0
        if version < (3, 11):
            offset = read_word(self._memory, kind + _DICT_OFFSET)
            return self.find(read_word(self._memory, instance + offset), name) if 0 < offset < _LARGEST_OBJECT else 0
        dictionary, values = self._managed(instance, kind)
        if dictionary:
            return self.find(dictionary, name)
        keys = read_word(self._memory, kind + self._shift + self._layout.shared_keys)
        return self._value(keys, values + self._values_offset, name) if is_pointer(values) else 0

    def _managed(self, instance: int, kind: int) -> tuple[int, int]:
        """Return the dictionary of an instance, or the address of its values, since 3.11."""
        pointer = read_word(self._memory, instance + (_DICT_POINTER_WITHOUT_GIL if self._layout.is_free_threaded else _DICT_POINTER))
        if self._layout.version == (3, 11):
            return pointer, read_word(self._memory, instance + _VALUES_POINTER)
        if self._layout.version == (3, 12):
            return (0, pointer + 1) if pointer & 1 else (pointer, 0)
        size = read_word(self._memory, kind + self._shift + _BASIC_SIZE)
        return pointer, instance + size if size < _LARGEST_OBJECT else 0

    @property
    def _values_offset(self) -> int:
        return _VALUES if self._layout.version >= (3, 13) else 0

    def _dictionary(self, address: int) -> tuple[int, int]:
        """Return the keys and the separate values of a dictionary."""
        if not is_pointer(address):
            raise UnreadableMemoryError
        keys, values = _DICT.unpack(self._memory.read(address + self._shift, _DICT.size))
        return int(keys), int(values)

    def _keys(self, address: int) -> _Keys:
        if not is_pointer(address):
            raise UnreadableMemoryError
        if self._layout.version >= (3, 11):
            log, index_log, kind, count = _KEYS_3_11.unpack(self._memory.read(address, _KEYS_3_11.size))
            if log > _LARGEST_LOG or index_log > _LARGEST_LOG:
                raise ValueError("no dictionary")
            size, index_bytes, begin = 1 << log, 1 << index_log, address + _KEYS_3_11.size
            entry_size = 24 if kind == _WITH_HASH else 16
        else:
            size, count = _KEYS.unpack(self._memory.read(address, _KEYS.size))
            index_size = next((bytes_ for bytes_ in (1, 2, 4) if size <= (1 << 8 * bytes_) - 1), 8)
            index_bytes, begin, entry_size = size * index_size, address + _KEYS.size, 24
        if not 0 < size <= 1 << _LARGEST_LOG or size & size - 1 or not 0 <= count <= size:
            raise ValueError("no dictionary")
        return _Keys(size, max(index_bytes // size, 1), begin, begin + index_bytes, count, entry_size)

    def _value(self, keys_address: int, values: int, name: str) -> int:
        """Return the value of a key among those of a table, or in an array of values at another address."""
        keys = self._keys(keys_address)
        count = min(keys.entry_count, _MOST_ENTRIES)
        table = self._memory.read(keys.entries, count * keys.entry_size)
        words = [word for (word,) in WORD.iter_unpack(table)]
        step = keys.entry_size // WORD.size
        for row, key in self._candidates(words[step - 2 :: step], name):
            value = read_word(self._memory, values + WORD.size * row) if values else words[step * row + step - 1]
            if value and is_pointer(value):
                self._interned[name] = key
                return value
        return 0

    def _candidates(self, keys: list[int], name: str) -> Iterator[tuple[int, int]]:
        """Yield the rows and addresses of the keys that are a name. Names of attributes are interned: equal ones have one address."""
        interned = self._interned.get(name)
        if interned in keys and self._is(interned, name):
            yield keys.index(interned), interned
            return
        yield from ((row, key) for row, key in enumerate(keys) if self._is(key, name))

    def _is(self, address: int | None, name: str) -> bool:
        """Whether an object is a str of ASCII characters with this value."""
        if address is None or not is_pointer(address):
            return False
        begin = self._layout.ascii_text
        try:
            data = self._memory.read(address, begin + len(name))
        except UnreadableMemoryError:
            return False
        (length,) = WORD.unpack_from(data, self._shift + _SIZE)
        return bool(length == len(name)) and data[begin:] == name.encode()


# Access to another process's memory: an interface without means to change it. Implementations read a live process
# (perfpy.capture.python_frames) or the bytes of a test.

WORD: Final = struct.Struct("<Q")
#: The first address that no program can map on any machine that CPython runs on (57-bit address spaces).
END_OF_MEMORY: Final = 1 << 56


class UnreadableMemoryError(Exception):
    """Memory that is not mapped or not permitted to be read."""


class Memory(Protocol):
    """A process's memory."""

    def read(self, address: int, size: int) -> bytes:
        """Return exactly `size` bytes. Raises UnreadableMemoryError if fewer are readable."""


def read_word(memory: Memory, address: int) -> int:
    """Return the 8-byte number at an address."""
    (value,) = WORD.unpack(memory.read(address, 8))
    return int(value)


def is_pointer(value: int) -> bool:
    """Whether an object can lie at an address: aligned, not NULL, in user space."""
    return 0x1000 <= value < END_OF_MEMORY and not value & 7
