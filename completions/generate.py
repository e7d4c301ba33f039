"""Write the completions for bash, zsh and fish, from the commands' declarations.

    python completions/generate.py          writes completions/perfpy.{bash,zsh,fish}
    python completions/generate.py --check  exits 1 when one is not up to date

What the machine knows (events, processes, recordings) is asked of `perfpy
complete` when somebody types; such names are data, and no shell expands them.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from for_bash import bash  # noqa: E402  # it lies beside this script, wherever that is called from
from for_fish import fish  # noqa: E402
from for_zsh import zsh  # noqa: E402


def scripts() -> dict[Path, str]:
    """Every script: the file's path -> its text."""
    return {HERE / "perfpy.bash": bash(), HERE / "perfpy.zsh": zsh(), HERE / "perfpy.fish": fish()}


def main(arguments: list[str]) -> int:
    """Write the scripts, or check them."""
    made = scripts()
    if arguments == ["--check"]:
        stale = [path.name for path, text in made.items() if not path.exists() or path.read_text() != text]
        if stale:
            print("not up to date:", *stale, file=sys.stderr)
        return 1 if stale else 0
    for path, text in made.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
