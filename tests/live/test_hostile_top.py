"""perfpy top of root on hostile programs of another user: names for terminals, perf maps that are fifos, threads by the thousand."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.builders.other_users import GID, UID, needs_root
from tests.builders.terminals import on_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.live,
    needs_root,
    pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program has code of x86-64"),
]

#: generated code that the perf map names; a library of holes; threads that begin and end
SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
void *end_at_once(void *unused) { prctl(PR_SET_NAME, "\x1b[2J;\xff\t"); return 0; }
void *storm(void *unused)
{
    pthread_t thread;
    for (;;) {
        pthread_create(&thread, 0, end_at_once, 0);
        pthread_join(thread, 0);
    }
}
int main(int count, char **words)
{
    unsigned char loop[] = {0x48, 0xff, 0xc0, 0xeb, 0xfb};
    char path[40];
    prctl(PR_SET_NAME, "\x1b]0;pwn\a\n\r");
    sprintf(path, "/tmp/perf-%d.map", getpid());
    unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, loop, 5);
    if (words[1][0] == 'f') mkfifo(path, 0666);
    else {
        FILE *file = fopen(path, "w");
        fprintf(file, "%lx 1000 \x1b]0;map\a \xe5\x96\xb5\xe5\x96\xb5 \xe2\x80\xae" "desrever\r\x9b" "31m\n", (long)code);
        fclose(file);
    }
    int holes = open(words[2], O_RDWR | O_CREAT, 0755);
    write(holes, "\x7f" "ELF\2\1\1", 7);
    ftruncate(holes, 1L << 40);
    mmap(0, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, holes, 0);
    pthread_t thread;
    pthread_create(&thread, 0, storm, 0);
    signal(SIGALRM, SIG_DFL);
    alarm(120);
    puts("ready");
    fflush(stdout);
    ((void (*)(void))code)();
}
"""


@pytest.fixture
def hostile(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[int]:
    """The pid of the program, which runs as another user. Its perf map is a file or a fifo."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == 0 and folder.stat().st_mode & 0o077 == 0:
            folder.chmod(0o711)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    subprocess.run(["gcc", "-w", "-x", "c", "-o", theirs / "program", "-", "-lpthread"], input=SOURCE, text=True, check=True, timeout=60)
    os.chown(theirs, UID, GID)
    command = ["setpriv", f"--reuid={UID}", f"--regid={GID}", "--clear-groups", theirs / "program", request.param, theirs / "libholes.so"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, process_group=0) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"/tmp/perf-{process.pid}.map")


#: what a screen writes: colours, positions, clearing, the other screen, the cursor
_OURS = re.compile(r"\x1b\[[\d;]*[mHJK]|\x1b\[\?(?:1049|25)[hl]")


@pytest.mark.parametrize(
    ("hostile", "options"),
    [("map", []), ("map", ["--stdio"]), ("fifo", ["--python"])],
    ids=["screen", "text", "python"],
    indirect=["hostile"],
)
@pytest.mark.thorough
def test_names_command_no_terminal_and_files_block_nothing(hostile: int, options: list[str]):
    words = ["-e", "cpu-clock:u", "-s", "comm,dso,symbol", "-d", "0.5", "--updates", "3", "-p", str(hostile), *options]
    screen_text = on_terminal("top", *words, columns=100)
    assert screen_text.status == 0, screen_text.text[-2000:]
    assert "Traceback" not in screen_text.text
    assert "^[]0;pwn" in screen_text.text
    rest = _OURS.sub("", screen_text.text)
    assert [character for character in "\x1b\x07\x9b\r\u202e" if character in rest] == []
