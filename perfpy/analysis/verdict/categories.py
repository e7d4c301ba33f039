"""Divide functions into categories: own code, libraries, interpreters, runtimes and the kernel.

The file of a function decides, by its kind and path. Code that runtimes generate, and the parts of standard libraries that compilers put
into the program itself, are divided by the functions' names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perfpy.abi.perfpy_encodings import PYTHON_MARK
from perfpy.symbols.dso import DsoKind, is_c_library, is_runtime

if TYPE_CHECKING:
    from perfpy.symbols.dso import Dso


#: numbers of categories; UNKNOWN is code that belongs to no file
OWN, LIBRARY, INTERPRETER, RUNTIME, KERNEL, UNKNOWN = range(6)
#: numbers of stacks' frames that are no code: the reason of a wait, and the command that a stack begins with
WAITING, COMMAND = 6, 7
NAMES: Final = ("own code", "libraries", "interpreter", "runtime", "kernel", "unknown code")

_SYSTEM: Final = re.compile(r"/(?:usr/)?lib(?:32|64|x32)?/|/snap/|/nix/store/|/gnu/store/")
_PACKAGES: Final = re.compile(r"/(?:site|dist)-packages/|/node_modules/|/lib/python\d|/\.cargo/|/go/pkg/mod/|/gems/|/\.m2/")
#: names of files of libraries
SHARED_FILE: Final = re.compile(r"\.so(?:\.[\d.]+)?$|\.jar$|\.dll$|\.jsa$")
_VIRTUAL_MACHINES: Final = re.compile(
    r"(?:ba|da|z|k)?sh|perl[\d.]*|lib(?:perl|lua|php|R|coreclr|clrjit|mono).*\.so.*|lua[\d.]*|php[\d.]*|Rscript|java|dotnet|mono|beam\.smp"
)
#: C functions in Node's program are those of OpenSSL, zlib, ICU, libuv and others: V8 is in C++, and its own code has a prefix
_NODE: Final = re.compile(r"(?:lib)?node(?:js)?(?:\.so[\d.]*)?")
_IN_C: Final = re.compile(r"(?!Builtins_|_Z)\w+")
#: standard libraries, and the code before main, in the program's own file
_OF_LIBRARY: Final = re.compile(
    r"(?:<&?)?(?:std|core|alloc|hashbrown|__gnu_cxx|__cxxabiv1|boost|absl|tokio|rayon|pybind11|nanobind|pyo3)::|__(?!pyx_(?:pw|pf|f|gb)_)"
    r"|_M_[a-z]|operator (?:new|delete)"
)
#: Go's standard library: packages without a domain before their names
_OF_GO: Final = re.compile(
    r"(?:archive|bufio|bytes|cmp|compress|container|context|crypto|database|debug|embed|encoding|errors|expvar|flag|fmt|hash|html|image|index"
    r"|internal|io|iter|log|maps|math|mime|net|os|path|plugin|reflect|regexp|slices|sort|strconv|strings|structs|sync|syscall|testing|text"
    r"|time|type|unicode|unique|vendor)(?:/[\w/.-]+)?\.(?!(?:isra|constprop|part|cold|lto_priv|llvm)\b)[\w(.]"
)
_RUST_TYPE: Final = re.compile(r"<(?:[&*(\[]|mut |const |dyn |'\w+ )*([\w:]+)")
_OF_RUNTIME: Final = re.compile(r"_start$|_init$|_fini$|_dl_|_IO_|_Unwind_|runtime[./]|gcWriteBarrier|caml_")
#: of C libraries in programs that are linked statically: allocators, memory and strings, and functions that wait; without names that
#: programs give to their own functions, as read and poll
_C_FUNCTIONS: Final = re.compile(
    r"(?:_int_)?(?:malloc|free|calloc|realloc|memalign)|malloc_consolidate|(?:mem(?:cpy|set|move|cmp|chr)|str(?:len|cmp|cpy|chr))(?:_\w+)?"
    r"|sccp|wait(?:pid|id|[34])|epoll_p?wait2?|(?:clock_)?nanosleep|sem_(?:timed|clock)?wait|pthread_(?:cond_\w*wait|\w*join\w*|mutex_\w*lock)"
)
#: templates of the standard library without its namespace: compilers leave it out of inlined calls that have a lambda as an argument
_OF_ALGORITHMS: Final = re.compile(r"\w+<.*__gnu_cxx::__(?:normal_iterator|ops\b).*>", re.DOTALL)
_LAMBDA: Final = re.compile(r"\{lambda|(?:^|::)operator\(\)|\{\{closure\}\}|<lambda>|\.func\d+(?:\.\d+)*$")
_TEMPLATE: Final = re.compile(r"(?<!^)(?<!operator)(?<!operator<)<[^<>]*>")
_PYTHON: Final = re.compile(PYTHON_MARK + r".+?:(.+)", re.DOTALL)
_BEGINS_PROCESS: Final = re.compile(PYTHON_MARK + r"(?:BaseProcess\.)?_bootstrap:.*/multiprocessing/process\.py", re.DOTALL)
_MARK: Final = PYTHON_MARK + "["  # no function, but for example [GIL held by FUNCTION, thread TID]
#: names of V8's functions
JAVASCRIPT: Final = re.compile(r"(?:LazyCompile|Function|JS|Script|Eval):")
#: functions of V8's library that programs call by name, as JSON.parse(); others implement parts of the language
BUILTIN_OF_V8: Final = re.compile(
    r"(?:v8::internal::Builtin|Builtins)_(?:(Json)(Parse|Stringify)|(String)Fast(LocaleCompare)|(Array)Tim(Sort)|([A-Z]\w*?)Prototype(\w+?))(?:\(.*)?",
    re.DOTALL,
)
_JAVA_LIBRARY: Final = re.compile(r"L?(?:java|javax|jdk|sun|com[./]sun|kotlin|scala)[./]")
_JAVA_RETURN_TYPE: Final = re.compile(r"[\w$.]+(?:\[\])* (?=[\w$.]+\()")
_JAVA_METHOD: Final = re.compile(r"L[\w/$]+;|[\w$]+(?:\.[\w$]+)+\(")

#: names of functions of the kernel: in idle CPUs, page faults, system calls, and on the way to and from these
IDLE_FUNCTION: Final = re.compile(
    r"(?:pv_)?native_(?:safe_)?halt|\w*_?(?:safe_halt|mwait\w*)|\w*idle\w*|cpu_startup_entry|cpu_do_idle|psci_\w+|cpuidle_\w+"
)
FAULT_HANDLER: Final = re.compile(
    r"(?:asm_)?exc_page_fault|do_user_addr_fault|(?:do_)?page_fault|do_anonymous_page|handle_mm_fault|el0_da|do_mem_abort"
)
SYSTEM_CALL: Final = re.compile(r"__(?:x64|arm64|ia32|riscv|s390x)_(?:compat_)?sys_(\w+)|__(?:do|se)_(?:compat_)?sys_(\w+)|ksys_(\w+)")
KERNEL_ENTRY: Final = re.compile(
    r"entry_SYSCALL_\w+|do_syscall_\w+|x64_sys_call|syscall_(?:enter|exit|return)_?\w*|el0_svc\w*|do_el0_svc\w*|invoke_syscall"
)
#: Functions that collect garbage, or free it later, in Go, V8 and HotSpot. Those of CPython have common names, and count in its files only.
COLLECTOR: Final = re.compile(
    r"runtime\.(?:gc[A-Z]\w*|gcmarknewobject|bgsweep|bgscavenge|sweepone|wbBufFlush\w*|\(\*sweepLocked\)\.sweep|\(\*mheap\)\.reclaim)(?:\..*)?"
    r"|(?:.* )?v8::internal::(?:Heap::(?:Collect|Perform)(?:All)?Garbage\w*|(?:Minor)?(?:Scavenger|MarkCompact|MarkSweep)\w*"
    r"|ConcurrentMarking|IncrementalMarking|Sweeper|MarkingVisitorBase|PointersUpdatingJob|PageEvacuationJob|ArrayBufferSweeper)\b.*"
    r"|(?:VM_(?:G1|Gen|Parallel|Shenandoah|Z|X|CollectFor|GC_)\w+|GenCollectedHeap|DefNewGeneration|TenuredGeneration)::(?:doit|do_collection|collect)\b.*"
)
#: those of V8 that collect the garbage of the whole heap, not only of young objects
WHOLE_HEAP: Final = re.compile(
    r"(?:.* )?v8::internal::(?:Mark(?:Compact|Sweep)\w*|ConcurrentMarking|IncrementalMarking|Sweeper|MarkingVisitorBase)\b.*"
)
JSON_OF_V8: Final = {
    "JSON.parse()": re.compile(r"(?:.* )?v8::internal::(?:Builtin_JsonParse|JsonParser|JsonParseInternalizer)\b.*", re.DOTALL),
    "JSON.stringify()": re.compile(r"(?:.* )?v8::internal::(?:Builtin_JsonStringify|JsonStringif\w+)\b.*", re.DOTALL),
}
COLLECTOR_OF_PYTHON: Final = re.compile(r"_?(?:PyGC_Collect|gc_collect|collect|deduce_unreachable)\w*(?:\.\w+)*")
#: Functions that allocate memory for objects, in Go, V8 and HotSpot; they wait for a collection if there is none.
ALLOCATOR: Final = re.compile(
    r"runtime\.(?:mallocgc\w*|newobject|makeslice\w*|growslice\w*|gcAssistAlloc\w*|concatstring\w*|rawstring\w*|rawbyteslice)(?:\..*)?"
    r"|(?:MemAllocator|CollectedHeap|\w+Heap|\w*AllocRegion|InstanceKlass|\w+ArrayKlass)::(?:mem_)?allocate\w*\b.*"
    r"|(?:OptoRuntime|Runtime1|InterpreterRuntime|SharedRuntime|JVMCIRuntime)::(?:\w+_)?(?:new|multianew|anewarray|newarray)\w*\b.*"
    r"|(?:.* )?v8::internal::(?:Heap(?:Allocator)?::(?:Allocate|Collect)|Factory::(?:New|Allocate)|Runtime_Allocate)\w*\b.*"
    r"|Builtins_Allocate\w*"
)
CONSTRUCTOR: Final = re.compile(r"\.<init>\(|\.<init>$")
#: the names of HotSpot's threads that collect garbage
COLLECTOR_THREAD: Final = re.compile(r"GC Thread#\d+|ParGC.*|G1 (?:Conc|Refine)#\d+|G1 Main Marker|(?:Z|X|Shenandoah)(?:Worker|Driver).*")
#: the same for compilers of HotSpot, whose thread names the kernel cuts, and of V8
COMPILER_THREAD: Final = re.compile(r"C[12] CompilerThre.*|JVMCI.*")
COMPILER: Final = re.compile(
    r"CompileBroker::(?:compiler_thread_loop|compile_method)\b.*"
    r"|(?:.* )?v8::internal::(?:compiler::\w+|maglev::\w+|baseline::\w+|OptimizingCompileDispatcher|OptimizedCompilationJob)\b.*"
)
STARTING_SCRIPT: Final = re.compile(r"py::<module>:/(?:.*/)?bin/[\w-]+")
#: functions by which Python imports a module, around the code that they run
IMPORT_OF_PYTHON: Final = re.compile(
    PYTHON_MARK + r"(?:.*:(?:<frozen importlib\..*>|.*/importlib/__init__\.py)|(?:\w+\.)?exec_module:.*|(?:exec|__import__):<built-in.*>)",
    re.DOTALL,
)

#: how samples are charged to a function: not at all, as own code, for the function that a lambda stands in; BEGINS: not at all, and not
#: to its callers either, which are those of the process that created a worker
NOT_CHARGED, CHARGED, LAMBDA, BEGINS = range(4)


def charge_kind(category: int, name: str) -> int:
    """Return how samples are charged to a function: NOT_CHARGED, CHARGED, LAMBDA or BEGINS."""
    if _BEGINS_PROCESS.fullmatch(name):
        return BEGINS
    return NOT_CHARGED if category != OWN else LAMBDA if _LAMBDA.search(name) else CHARGED


def category(dso: Dso | None, name: str) -> int:
    """Return the category of a function; name: as recorded, "" if unknown; dso: its file, None for none."""
    if dso is None:
        return UNKNOWN
    if dso.kernel:
        return KERNEL
    if dso.made_code:
        return _of_generated(name)
    if dso.kind in (DsoKind.VDSO, DsoKind.VSYSCALL) or is_c_library(dso):
        return RUNTIME
    if dso.kind is not DsoKind.FILE:
        return UNKNOWN
    if is_runtime(dso) or _VIRTUAL_MACHINES.fullmatch(dso.short_name):
        return LIBRARY if _NODE.fullmatch(dso.short_name) and _IN_C.fullmatch(name) else INTERPRETER
    if SHARED_FILE.search(dso.short_name):
        return LIBRARY if _SYSTEM.match(dso.name) or _PACKAGES.search(dso.name) else _of_program(name)
    return _of_program(name)


def is_packaged(path: str) -> bool:
    """Whether a source file belongs to a package or to the library of its language."""
    return path.startswith(("<frozen", "<built-in")) or _PACKAGES.search(path) is not None


def is_own_name(name: str) -> bool:
    """Whether a function in the program's file is own code."""
    return _of_program(name) == OWN


def _of_program(name: str) -> int:
    """Return the category of a function in the program's file."""
    if _OF_RUNTIME.match(name) or _C_FUNCTIONS.fullmatch(name):
        return RUNTIME
    if name.startswith(("<", "_$LT$")) and "::" in name:
        return LIBRARY if _is_of_rust_library(name) else OWN
    if _OF_ALGORITHMS.fullmatch(name):
        return LIBRARY
    return LIBRARY if _OF_LIBRARY.match(_without_return_type(name)) or _OF_GO.match(name) else OWN


def _is_of_rust_library(name: str) -> bool:
    """Whether a method of a Rust type or trait belongs to a library: the crate of the type decides, of a type without one the trait's.

    >>> _is_of_rust_library("<alloc::vec::Vec<app::Word>>::push"), _is_of_rust_library("<app::Word as core::cmp::Ord>::cmp")
    (True, False)
    >>> _is_of_rust_library("<A as core::slice::cmp::SlicePartialEq<B>>::equal"), _is_of_rust_library("<u64 as app::Hash>::hash")
    (True, False)
    >>> _is_of_rust_library("<u64>::rotate_left"), _is_of_rust_library("_$LT$core..hash..sip..Hasher$LT$S$GT$$GT$::write")
    (True, True)
    """
    text = name.removeprefix("_").replace("$LT$", "<").replace("$GT$", ">").replace("$u20$", " ").replace("$RF$", "&").replace("..", "::")
    of_type = _RUST_TYPE.match(text)
    path = of_type[1] if of_type else ""
    trait = text.partition(" as ")[2]
    if trait.startswith("<"):  # it is declared in a method of this type: <[_]>::to_vec_in::ConvertVec
        within = _RUST_TYPE.match(trait)
        trait = within[1] if within and "::" in within[1] else "core::"
    return _OF_LIBRARY.match(path if "::" in path else trait) is not None or not ("::" in path or trait)


def _without_return_type(name: str) -> str:
    """Return the name without the type that C++ templates return, which stands before it.

    >>> _without_return_type("void std::sort<int*>(int*, int*)"), _without_return_type("std::vector<int> parse<char>(std::string)")
    ('std::sort(int*, int*)', 'parse(std::string)')
    >>> _without_return_type("bool std::operator< <char>(char)"), _without_return_type("main")
    ('std::operator< (char)', 'main')
    """
    if "::" not in name or " " not in name:
        return name
    stripped, before = name, ""
    while stripped != before:
        stripped, before = _TEMPLATE.sub("", stripped), stripped
    head, bracket, arguments = stripped.partition("(")
    before, operator, after = head.partition("operator")
    word = head if head.startswith("<") else f"{before.rpartition(' ')[2]}{operator}{after}"
    return f"{word}{bracket}{arguments}"


def _of_generated(name: str) -> int:
    """Return the category of a function in code that a runtime generated."""
    if name.startswith((_MARK, "StubRoutines")):  # HotSpot's code for arrays, digests and encryption
        return LIBRARY
    if python := _PYTHON.match(name):
        return LIBRARY if is_packaged(python[1]) else OWN
    if JAVASCRIPT.match(name):
        return INTERPRETER if " node:" in name else LIBRARY if _PACKAGES.search(name) else OWN
    method = _JAVA_RETURN_TYPE.sub("", name)
    if _JAVA_METHOD.match(method):
        return LIBRARY if _JAVA_LIBRARY.match(method) else OWN
    return INTERPRETER
