"""Groups of system calls by name, for -e.

"file" and "string" are perf's groups, the calls with strings in their arguments; "network", "process", "memory", "signal" and "ipc" are
what strace(1) calls %network and so on.
"""

from __future__ import annotations

from typing import Final

_FILE: Final = (
    "access chmod creat execve faccessat getcwd lstat mkdir open openat quotactl read readlink rename rmdir stat statfs symlink"
    " unlink write"
)
_STRING: Final = (
    "access acct add_key chdir chmod chown chroot creat delete_module execve execveat faccessat fchmodat fchownat fgetxattr finit_module"
    " fremovexattr fsetxattr futimesat getxattr inotify_add_watch lchown lgetxattr link linkat listxattr llistxattr lremovexattr"
    " lsetxattr lstat memfd_create mkdir mkdirat mknod mknodat mq_open mq_timedsend mq_unlink name_to_handle_at newfstatat open openat"
    " pivot_root pwrite64 quotactl readlink readlinkat removexattr rename renameat renameat2 request_key rmdir setxattr stat statfs statx"
    " swapoff swapon symlink symlinkat truncate unlink unlinkat utimensat"
)
_NETWORK: Final = (
    "accept accept4 bind connect getpeername getsockname getsockopt listen recv recvfrom recvmmsg recvmsg send sendfile sendmmsg sendmsg"
    " sendto setsockopt shutdown socket socketcall socketpair"
)
_PROCESS: Final = (
    "clone clone3 execve execveat exit exit_group fork kill pidfd_open pidfd_send_signal rt_sigqueueinfo rt_tgsigqueueinfo tgkill tkill"
    " unshare vfork wait4 waitid waitpid"
)
_MEMORY: Final = (
    "brk get_mempolicy madvise map_shadow_stack mbind migrate_pages mincore mlock mlock2 mlockall mmap mmap2 move_pages mprotect mremap"
    " mseal msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect process_madvise remap_file_pages set_mempolicy"
    " set_mempolicy_home_node"
)
_SIGNAL: Final = (
    "kill pause pidfd_send_signal rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait"
    " rt_tgsigqueueinfo sigaction sigaltstack signal signalfd signalfd4 sigpending sigprocmask sigreturn sigsuspend tgkill tkill"
)
_IPC: Final = (
    "ipc mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd semctl semget semop"
    " semtimedop shmat shmctl shmdt shmget"
)
_GROUPS: Final = {
    "file": _FILE,
    "string": _STRING,
    "network": _NETWORK,
    "process": _PROCESS,
    "memory": _MEMORY,
    "signal": _SIGNAL,
    "ipc": _IPC,
}


def calls_of_group(name: str) -> frozenset[str]:
    """Return the calls of a group; empty if there is no such group."""
    return frozenset(_GROUPS.get(name.removeprefix("%"), "").split())
