"""Make perfpy/capture/runtimes/cpython_startup/perfpy_machine_code.py of evaluator.c: `python scripts/build_evaluator.py`.

Needs gcc for x86-64 and aarch64 (Debian: gcc, gcc-aarch64-linux-gnu). The bytes in the repository were made with
gcc 12.2; other compilers make others that do the same.
"""

import subprocess
import tempfile
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parents[1] / "perfpy" / "capture" / "runtimes"
SOURCE = HERE / "evaluator.c"
RESULT = HERE / "cpython_startup" / "perfpy_machine_code.py"
MACHINES = ("x86_64", "aarch64")
ENTRIES = ("evaluate_in_thread", "evaluate")
FLAGS = (
    "-Os -std=c11 -Wall -Wextra -Werror -ffreestanding -fno-builtin -fno-tree-loop-distribute-patterns -fno-omit-frame-pointer "
    "-fno-stack-protector -fno-asynchronous-unwind-tables -fvisibility=hidden -fPIC -nostdlib -static -Wl,--build-id=none -Wl,-e,evaluate"
).split()
#: Code first, the state 64 KiB after it: pages of both are apart on all machines.
LAYOUT = """
SECTIONS {
  . = 0;
  .text : { KEEP(*(.text.entry)) *(.text .text.* .rodata .rodata.*) }
  . = 0x10000;
  .bss : { *(.bss .bss.*) }
  /DISCARD/ : { *(.comment) *(.note*) *(.eh_frame) }
}
"""
HEAD = '''"""The evaluator of Python frames as machine code: evaluator.c, made by scripts/build_evaluator.py.

For each machine: where the two functions begin, how much memory the state takes, and the code in hexadecimal digits.
"""

MACHINES = {
'''


def built(machine: str, folder: Path) -> tuple[dict[str, int], int, bytes]:
    """Where the entries are, the size of the state, and the code."""
    layout, linked, flat = folder / "layout", folder / machine, folder / f"{machine}.flat"
    layout.write_text(LAYOUT)
    tool = f"{machine}-linux-gnu-"
    subprocess.run([f"{tool}gcc", *FLAGS, f"-Wl,-T,{layout}", "-o", linked, SOURCE], check=True)
    subprocess.run([f"{tool}objcopy", "-O", "binary", "-j", ".text", linked, flat], check=True)
    symbols = subprocess.run([f"{tool}nm", "-S", linked], check=True, capture_output=True, text=True).stdout
    found = {words[3]: (int(words[0], 16), int(words[1], 16)) for words in map(str.split, symbols.splitlines()) if len(words) == 4}
    address, size = found["state"]
    if address != 0x10000:
        raise SystemExit(f"{machine}: the state is at {address:#x}")
    return {name: found[name][0] for name in ENTRIES}, size, flat.read_bytes()


def main() -> None:
    """Write the module."""
    with tempfile.TemporaryDirectory() as folder:
        text = HEAD
        for machine in MACHINES:
            entries, size, code = built(machine, Path(folder))
            digits = textwrap.wrap(code.hex(), 120)
            numbers = "".join(f"        {number},\n" for number in (*(entries[name] for name in ENTRIES), size))
            lines = "".join(f'            "{piece}"\n' for piece in digits)
            text += f'    "{machine}": (\n{numbers}        (\n{lines}        ),\n    ),\n'
    RESULT.write_text(text + "}\n")


if __name__ == "__main__":
    main()
