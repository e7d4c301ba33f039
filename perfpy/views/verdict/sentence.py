"""The sentences of a verdict, and the words they are made of."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.perfpy_encodings import BUILT_IN, BUILT_IN_BY_CALL, PYTHON_MARK
from perfpy.analysis.verdict.categories import BUILTIN_OF_V8
from perfpy.analysis.verdict.functions import interval
from perfpy.errors import plural
from perfpy.untrusted.text import visible
from perfpy.views.readable import at_a_glance, short_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from perfpy.analysis.verdict.call_sites import HotLine
    from perfpy.analysis.verdict.evidence import Evidence
    from perfpy.analysis.verdict.functions import LibraryFunction, SampledFunctions, Share
    from perfpy.analysis.verdict.processes import ProcessStart


#: the rule whose sentence takes the place of the note on few samples
FEW_SAMPLES: Final = "few samples"
LOST: Final = 0.1  # the least share of lost samples that is told
MOST_LOST: Final = 0.5  # with more, nothing is told of the others
_NUMBERS: Final = "no one two three four five six seven eight nine ten eleven twelve".split()
_LONGEST_IN_MS: Final = 0.0995  # seconds; longer ones would be rounded to 1e+02 ms
_MOST_RECURSIVE: Final = 0.5  # of the samples of a library's function
_SURELY: Final = 0.995  # larger shares would be rounded to 100 %


class Sentence(NamedTuple):
    """One sentence of a verdict.

    Attributes:
        rule: the name of the rule that made it.
        text: the sentence, with a full stop.
        numbers: the numbers in the sentence, and those that its thresholds were compared with.
        names: the recorded names in the sentence.
    """

    rule: str
    text: str
    numbers: Mapping[str, float]
    names: Mapping[str, str] = {}


def percent(share: float) -> str:
    """Return a share as a whole percentage; only all is 100 %.

    >>> percent(0.973), percent(0.9987), percent(1.0), percent(0.004)
    ('97 %', 'over 99 %', '100 %', '0.4 %')
    """
    if _SURELY <= share < 1:
        return "over 99 %"
    return f"{100 * share:.0f} %" if share >= 0.01 or not share else f"{100 * share:.1f} %"


def seconds(value: float) -> str:
    """Return a time with two digits that matter.

    >>> seconds(0.934), seconds(12.34), seconds(0.0123), seconds(130), seconds(0.0999)
    ('0.93 s', '12 s', '12 ms', '130 s', '0.1 s')
    """
    return f"{value * 1000:.2g} ms" if value < _LONGEST_IN_MS else f"{value:.0f} s" if value >= 10 else f"{value:.2g} s"


def number_word(count: int) -> str:
    """Return small numbers as words.

    >>> number_word(8), number_word(1203)
    ('eight', '1,203')
    """
    return _NUMBERS[count] if count < len(_NUMBERS) else f"{count:,}"


def function_text(name: str) -> str:
    """Return a function as a sentence names it.

    >>> function_text("checksum(char const*, int)"), function_text("py::Parser.parse:/srv/app.py")
    ('checksum()', 'Parser.parse()')
    >>> function_text("std::vector<int>::size() const"), function_text("py::search.<locals>.<genexpr>:/srv/app.py")
    ('std::vector<int>::size()', 'a generator expression in search()')
    >>> function_text("malloc@@GLIBC_2.2.5"), function_text("JS:*handle file:///srv/app.js:12:34")
    ('malloc()', 'handle()')
    """
    return visible(name_in_sentence(name))


def program_text(name: str) -> str:
    """Return the name of a program or thread in quotation marks: many are words that a sentence has anyway.

    >>> program_text("sleep")
    '"sleep"'
    """
    return f'"{visible(name)}"'


SURE: Final = 0.9  #: of samples or waits with certain callers: with fewer, functions that are not known may be between


def how_called(vague: float, share: float) -> str:
    """Return "called from", or "called below": by a function or by what that calls. vague: how much of a share is not certain.

    >>> how_called(0.02, 0.6), how_called(0.6, 0.6)
    ('called from', 'called below')
    """
    return "called below" if vague > (1 - SURE) * share else "called from"


def within(text: str, vague: float, *, are_several: bool = False) -> str:
    """Return where something happens: in functions, or in what they call. vague: the share that is not certain.

    >>> within("nap() (a.c:3)", 0.0), within("nap() (a.c:3)", 1.0), within("nap()", 0.4)
    ('in nap() (a.c:3)', 'in what nap() (a.c:3) calls', 'in nap() or what it calls')
    >>> within("nap() and rest()", 1.0, are_several=True), within("nap() and rest()", 0.4, are_several=True)
    ('in what nap() and rest() call', 'in nap() and rest(), or what they call')
    """
    if vague <= 1 - SURE:
        return f"in {text}"
    if vague >= SURE:
        return f"in what {text} {'call' if are_several else 'calls'}"
    return f"in {text}{', or what they call' if are_several else ' or what it calls'}"


OTHERS: Final = "others"  #: see source()


def source(name: str, line: tuple[str, int] | HotLine | None, file: str = "", *, amount: str = "") -> str:
    """Return where a function is, as a suffix: its line, or else its file.

    amount: how much is at this line, if the sentence's number is not nearly all there; OTHERS: only that there are other lines.

    >>> source("main", ("/src/prog.cpp", 41)), source("memcpy", None, "libc.so.6"), source("JS:*f file:///srv/app.js:12:34", None)
    (' (prog.cpp:41)', ' (libc.so.6)', ' (function at app.js:12)')
    >>> source("main", ("/src/prog.cpp", 41), amount="30 %"), source("main", ("/src/prog.cpp", 41), amount=OTHERS)
    (' (30 % at prog.cpp:41)', ' (prog.cpp:41 and other lines)')
    """
    if line is not None and line[1]:
        location = f"{visible(line[0].rpartition('/')[2])}:{line[1]}"
        return f" ({location} and other lines)" if amount == OTHERS else f" ({amount} at {location})" if amount else f" ({location})"
    text = at_a_glance(name) if not _EXPRESSION.match(name) else ""
    if name.partition(":")[0].isalpha() and "::" not in name and text.endswith(")") and " (" in text:
        return f" (function at {visible(text.rpartition(' (')[2])}" if ":" in text else f" ({visible(text.rpartition(' (')[2])}"
    return f" ({visible(file)})" if file else ""


#: HotSpot's searches in a bin of a hash map that has become a tree
_TREE_OF_KEYS: Final = re.compile(r".*\bjava\.util\.(?:concurrent\.Concurrent)?HashMap\$Tree(?:Node|Bin)\.find\w*\(.*")
_EQUALS: Final = re.compile(r"boolean ([\w$.]+)\.equals\(java\.lang\.Object\)")
_OF_CALLER: Final = 0.05  # of the samples of a library's function: callers that are named


def library_text(library: LibraryFunction, inside: Share, busy: float) -> str:
    """Return a library's function with its callers, the own function that it calls in turn, and why it is slow, if it is known.

    HashMap calls its search of a tree again, for a half of the tree, only where keys have the same hash code, and no order.

    >>> from perfpy.analysis.verdict.functions import LibraryFunction, Share
    >>> find, callers = "V java.util.HashMap$TreeNode.find(int)", (Share("int A.get(int)", 0.3), Share("void A.put(int)", 0.2))
    >>> equals = Share("boolean A$Key.equals(java.lang.Object)", 0.25)
    >>> library_text(LibraryFunction(1, find, 0.5, callers, 0.4), equals, 1.0)  # doctest: +ELLIPSIS
    'java.util.HashMap$TreeNode.find(), called from ... in A$Key.equals(), which it calls: many keys have the same A$Key.hashCode()'
    """
    named = [one for one in library.callers if one.share >= _OF_CALLER * library.own][:2]
    callers = [f"{function_text(one.name)} ({percent(one.share * busy)})" for one in named]
    if len(named) == 1 and named[0].share >= _SURELY * library.own:
        callers = [function_text(named[0].name)]
    text = f"{function_text(library.name)}{f', {how_called(library.vague, library.own)} {join_names(callers)}' if callers else ''}"
    is_callee = inside.share >= _OF_CALLER
    if is_callee:
        text += f", and {percent(inside.share * busy)} in {function_text(inside.name)}, which it calls"
    if _TREE_OF_KEYS.fullmatch(library.name) and library.recursive >= _MOST_RECURSIVE * library.own:
        found = _EQUALS.fullmatch(inside.name) if is_callee else None
        text += f": many keys have the same {visible(found[1])}.hashCode()" if found else ": many keys have the same hash code"
    return text


def starting_code(start: ProcessStart) -> str:
    """Return where processes are started: a function and its line, or the lines of a script."""
    lines, script = join_names([str(line) for line in start.lines]), start.line[0].rpartition("/")[2] if start.line else ""
    if start.function or start.line is None:
        where = source(start.function, start.line, script)
        if len(start.lines) > 1:
            where = f"{where.rpartition(':')[0]}:{lines})"
        return f"{function_text(start.function)}{where}"
    return f"{plural(len(start.lines), 'line')} {lines} of {visible(script)}" if lines else visible(script)


def beginning(text: str) -> str:
    """Return a text with its first letter as a capital.

    >>> beginning("most of the CPU time"), beginning("CPU time")
    ('Most of the CPU time', 'CPU time')
    """
    return text[:1].upper() + text[1:]


def join_names(names: Sequence[str]) -> str:
    """Join names.

    >>> join_names(["a"]), join_names(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


# Shares of samples in sentences.


HALF: Final = 0.5  #: of a function's samples: one callee, one kind of kernel work, one caller
UNCERTAIN: Final = 0.12  # half the width of the interval from which a share is not printed as a number
STANDS_OUT: Final = 0.25  # the least share of a function that is named alone
ONE_THREAD: Final = 0.9  # of the samples of a process
LEAST_ELAPSED: Final = 0.05  # seconds


def is_named(share: float, functions: SampledFunctions, least: float) -> bool:
    """Whether a share is surely at least this."""
    return interval(share, functions.effective).low >= least


def about(share: float, functions: SampledFunctions) -> str:
    """Return a share, as a word if the samples are too few for a number. As in tables, it is one of all samples, also of idle CPUs."""
    sure = interval(share, functions.effective)
    if sure.width <= UNCERTAIN:
        return percent(share * functions.busy)
    return "most" if sure.low * functions.busy >= HALF else f"about {percent(share * functions.busy)}"


def start_with(share: float, functions: SampledFunctions) -> str:
    """Return a share as the beginning of a sentence."""
    return beginning(about(share, functions))


def measure_of(evidence: Evidence) -> str:
    """Return what shares are shares of, and its verb."""
    return f"{noun_of(evidence)} {'is' if evidence.seconds is not None else 'are'}"


def noun_of(evidence: Evidence) -> str:
    """Return the noun for the total of shares."""
    if evidence.seconds is not None:
        return "the time of the CPUs" if evidence.is_system_wide else "the CPU time"
    name = evidence.event.name if evidence.event.tracepoint else evidence.event.name.partition(":")[0].strip("/")
    is_cycles = name.rpartition("/")[2] in ("cycles", "cpu-cycles")
    return "the CPU cycles" if is_cycles else f"the {visible(name)} events"


# Names of functions in sentences: as the program's author writes them, without the parts that compilers and runtimes add.


_PYTHON: Final = re.compile(PYTHON_MARK + r"([^:(]+):(?!:)(.+)", re.DOTALL)
_SCRIPT: Final = re.compile(r"(?:LazyCompile|Function|JS|Script|Eval):[~^+*]? (?:file://)?(\S.*?):(\d+:\d+)")
EXPRESSION: Final = "RegExp:"  #: begins the names of regular expressions
_EXPRESSION: Final = re.compile(rf"{EXPRESSION}(?!:)(.+)", re.DOTALL)  # code that V8 generated for a regular expression
_LONGEST_EXPRESSION: Final = 60  # characters
_JAVA: Final = re.compile(r"[\w$.]+(?:\[\])* ([\w$]+(?:\.[\w$]+)+)\([^()]*\)")
NAMELESS_SCRIPT: Final = "an anonymous function"  #: of JavaScript
#: Python's functions without a name of their own
_NAMELESS: Final = {
    "<genexpr>": "a generator expression",
    "<lambda>": "a lambda",
    "<listcomp>": "a list comprehension",
    "<dictcomp>": "a dict comprehension",
    "<setcomp>": "a set comprehension",
}
_MODULE: Final = "<module>"
_LOCALS: Final = ".<locals>."
#: the C library's variants of a function for different CPUs
_VARIANT: Final = re.compile(
    r"__(rawmemchr|w?mem[a-z]+|str[a-z]+|stp[a-z]+|wcs[a-z]+)(?:_chk)?_(?:avx|sse|ssse|evex|erms|unaligned|sve|generic|neon|asimd)\w*"
)
#: of libm: __sin_fma, __ieee754_exp_avx2; and what the C library calls itself by
_OF_LIBM: Final = re.compile(r"__(?:ieee754_)?(\w+?)_(?:fma4?|avx2?|avx512\w*|sse2|sse4_1|sse41)(?:_\w+)?")
_INTERNAL: Final = re.compile(r"__GI_+(?:libc_|IO_)?(\w+)")
_ALLOCATOR: Final = re.compile(r"(?:_int_|__libc_|__GI___libc_)(malloc|free|calloc|realloc|memalign)(?:_\w+)?")
_SYSTEM_CALL: Final = re.compile(r"__(?:x64|arm64|ia32|riscv|s390x)_(?:compat_)?sys_(\w+)")
_OF_SORT: Final = "std::__introsort_loop<"  # the loop of libstdc++'s std::sort, and of no other function
_PARTS_OF_SORT: Final = tuple(
    f"std::__{name}" for name in ("unguarded_", "insertion_sort<", "final_insertion_sort<", "move_median_to_first<", "adjust_heap<")
)
_OTHER_NAMES: Final = {
    "cfree": "free",
    "qsort_r": "qsort() or qsort_r",
    "__qsort_r": "qsort() or qsort_r",
    "__libc_fork": "fork",
    "__GI___fork": "fork",
}
_CLONE_OF_CXX: Final = re.compile(r"(?: \[clone [^\]]*\])+$")
_CLONE: Final = re.compile(r"(?:\.(?:isra|constprop|part|cold|lto_priv|llvm)(?:\.\d+)*)+$")


def name_in_sentence(name: str) -> str:
    """Return the name of a function, with () if it is one that can be called by its name.

    >>> name_in_sentence("py::search.<locals>.<genexpr>:/srv/slow.py"), name_in_sentence("py::<module>:/srv/slow.py")
    ('a generator expression in search()', 'the top level of slow.py')
    >>> name_in_sentence("JS:~ /srv/slow.js:1:1"), name_in_sentence("JS:~ /srv/slow.js:7:12")
    ('the top level of slow.js', 'an anonymous function')
    >>> name_in_sentence("void order<Row>(std::vector<Row>&)"), name_in_sentence("__memmove_avx_unaligned_erms")
    ('order<Row>()', 'memcpy() or memmove()')
    >>> name_in_sentence("RegExp:^(a+)+@b$"), name_in_sentence("RegExp::CallOrigin")
    ('the regular expression ^(a+)+@b$', 'RegExp::CallOrigin()')
    >>> name_in_sentence("Stage::perform(int) const [clone .isra.0] [clone .part.1]"), name_in_sentence("label.constprop.0")
    ('Stage::perform()', 'label()')
    >>> name_in_sentence("__sin_fma"), name_in_sentence("__strlen_evex"), name_in_sentence("__GI___qsort_r")
    ('sin()', 'strlen()', 'qsort() or qsort_r()')
    """
    if python := _PYTHON.fullmatch(name):
        return _of_python(python[1], python[2])
    if script := _SCRIPT.fullmatch(name):
        return f"the top level of {short_path(script[1])}" if script[2] == "1:1" else NAMELESS_SCRIPT
    if java := _JAVA.fullmatch(name):
        return f"{java[1]}()"
    if expression := _EXPRESSION.fullmatch(name):
        text = expression[1]
        return f"the regular expression {text if len(text) <= _LONGEST_EXPRESSION else f'{text[: _LONGEST_EXPRESSION - 3]}...'}"
    text = at_a_glance(name)
    if text != name and text.endswith(")") and " (" in text and name.partition(":")[0].isalpha():
        text = text.rpartition(" (")[0]
    text = _CLONE_OF_CXX.sub("", text).removesuffix(" const").partition("@")[0] or text
    text = _as_documented(_CLONE.sub("", without_arguments(text)))
    return text if text.endswith(">") and text.startswith("<") else f"{text}()"


def builtin_text(name: str) -> str:
    """Return a function of V8's library as programs call it, "" for others.

    >>> builtin_text("v8::internal::Builtin_JsonStringify(int)"), builtin_text("Builtins_ArrayPrototypeIndexOf"), builtin_text("main")
    ('JSON.stringify()', 'Array.prototype.indexOf()', '')
    """
    found = BUILTIN_OF_V8.fullmatch(name)
    if found is None:
        return ""
    of_class, method = filter(None, found.groups())
    return f"{'JSON.' if of_class == 'Json' else f'{visible(of_class)}.prototype.'}{method[:1].lower()}{visible(method[1:])}()"


def is_part(name: str, documented: str) -> bool:
    """Whether a function is known by this documented name, or is a part of that function.

    >>> is_part("__memmove_evex_unaligned", "memcpy() or memmove()"), is_part("void std::__unguarded_linear_insert<A>(A)", "std::sort()")
    (True, True)
    """
    text = name_in_sentence(name)
    return text == documented or (documented == "std::sort()" and text.startswith(_PARTS_OF_SORT))


def _of_python(qualified: str, path: str) -> str:
    outer, _, last = qualified.rpartition(_LOCALS)
    if last == _MODULE:
        return f"the top level of {short_path(path)}"
    if last in _NAMELESS:
        return f"{_NAMELESS[last]} in {_of_python(outer or _MODULE, path)}"
    if path == BUILT_IN_BY_CALL:
        return f"{qualified}() (named by its call)"
    return f"{qualified.replace(_LOCALS, '.')}()" if not qualified.startswith("<") else qualified


def _as_documented(name: str) -> str:
    """Return the documented name of a function of the C library or of C++'s, or of a system call."""
    if (match := _VARIANT.fullmatch(name)) and match[1] == "memmove":
        return "memcpy() or memmove"  # one function with two names
    patterns = (_VARIANT, _ALLOCATOR, _SYSTEM_CALL, _OF_LIBM, _INTERNAL)
    if match := next(filter(None, (pattern.fullmatch(name) for pattern in patterns)), None):
        return _OTHER_NAMES.get(match[1], match[1])
    if name.startswith(_OF_SORT):
        return "std::sort"
    return _OTHER_NAMES.get(name, name)


def without_arguments(name: str) -> str:
    """Return a name without the list of arguments at its end.

    >>> without_arguments("order<Row>(std::vector<…>&)"), without_arguments("Sum::operator()(int)"), without_arguments("f(void (*)(int))")
    ('order<Row>', 'Sum::operator()', 'f')
    """
    if not name.endswith(")") or name.endswith("operator()"):
        return name
    depth = 0
    for position in range(len(name) - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(name[position], 0)
        if not depth:
            return name[:position].rstrip()
    return name


_PACKAGE: Final = re.compile(r".*/(?:site|dist)-packages/([^/]+?)(?:\.py)?(?:/.*)?", re.DOTALL)
_IN_LIBRARY: Final = re.compile(r".*/python\d[\d.]*t?/(?!site-packages/)(.+?)(?:/__init__)?\.py", re.DOTALL)
_OF_PACKAGE: Final = "__init__.py"
_FROZEN: Final = re.compile(r"<frozen (.+)>", re.DOTALL)


def module_of_code(path: str, packages: Collection[str] = ()) -> str:
    """Return the name by which a program imports the code of a file: the package, or the module of Python's library; "" for others.

    packages: folders of the program's own packages, of which it returns the modules.

    >>> module_of_code("/usr/lib/python3/dist-packages/pandas/core/frame.py"), module_of_code("/usr/lib/python3.11/email/mime/text.py")
    ('pandas', 'email.mime.text')
    >>> module_of_code("/usr/lib/python3.11/json/__init__.py"), module_of_code("<frozen posixpath>"), module_of_code("/srv/app.py")
    ('json', 'posixpath', '')
    >>> module_of_code("/srv/shop/models/order.py", {"/srv/shop", "/srv/shop/models"}), module_of_code("/srv/a/__init__.py", {"/srv/a"})
    ('shop.models.order', 'a')
    """
    if found := _PACKAGE.fullmatch(path) or _FROZEN.fullmatch(path):
        return found[1]
    if found := _IN_LIBRARY.fullmatch(path):
        return found[1].replace("/", ".")
    folder, _, file = path.rpartition("/")
    names = [] if file == _OF_PACKAGE else [file.removesuffix(".py")]
    while folder in packages:
        folder, _, name = folder.rpartition("/")
        names.append(name)
    return ".".join(reversed(names)) if len(names) > 1 or file == _OF_PACKAGE else ""


def package_folders(functions: Iterable[str]) -> set[str]:
    """Return the folders of packages whose files have some of these functions of Python.

    >>> package_folders(["py::<module>:/srv/shop/__init__.py", "main"])
    {'/srv/shop'}
    """
    ending = f"/{_OF_PACKAGE}"
    paths = (name.partition(":/")[2] for name in functions if name.startswith(PYTHON_MARK) and name.endswith(ending))
    return {f"/{path.removesuffix(ending)}" for path in paths}


def library_function(entries: Sequence[Share], least: float) -> str:
    """Return the function of a package with at least this share; "" for C functions, which have rows, and others.

    Methods have their class's name; functions have that of their module.

    >>> from perfpy.analysis.verdict.functions import Share
    >>> library_function([Share("py::DataFrame.apply:/usr/lib/python3/dist-packages/pandas/core/frame.py", 0.9)], 0.6)
    'DataFrame.apply()'
    >>> library_function([Share("py::dumps:/usr/lib/python3.11/json/__init__.py", 0.9)], 0.6)
    'json.dumps()'
    """
    found = _PYTHON.fullmatch(entries[0].name) if entries and entries[0].share >= least else None
    module = module_of_code(found[2]) if found is not None else ""
    if found is None or not module or found[1] == _MODULE or found[1].startswith("["):
        return ""
    return f"{'' if '.' in found[1] else f'{visible(module)}.'}{function_text(entries[0].name)}"


def entry_text(entries: Sequence[Share], least: float) -> str:
    """Return the function of a library that has at least this share, as a program calls it, or the import of modules; "" for others.

    >>> from perfpy.analysis.verdict.functions import Share
    >>> entry_text([Share("py::Logger.info:/usr/lib/python3.11/logging/__init__.py", 0.9)], 0.8)
    'logging.Logger.info()'
    >>> entry_text([Share(f"py::<module>:/usr/lib/python3.11/{name}.py", 0.4) for name in ("ssl", "email/mime/text", "re")], 0.8)
    'the import of ssl and email.mime.text'
    >>> entry_text([Share("py::sorted:<built-in>", 0.9)], 0.8), entry_text([Share("py::f:/srv/app.py", 0.9)], 0.8)
    ('sorted()', '')
    """
    shares = [*accumulate(one.share for one in entries)]
    names = [one.name for one, share in zip(entries, shares, strict=True) if share - one.share < least <= max(shares)]
    python = [found for name in names if (found := _PYTHON.fullmatch(name))]
    if len(python) < len(names) or not names:
        return ""
    modules = [visible(module_of_code(found[2])) for found in python]
    if all(found[1] == _MODULE for found in python) and all(modules):
        return f"the import of {join_names(modules)}"
    if len(names) > 1 or python[0][1].startswith("["):
        return ""
    if python[0][2] in (BUILT_IN, BUILT_IN_BY_CALL):
        return function_text(names[0])
    return f"{modules[0]}.{function_text(names[0])}" if modules[0] and not modules[0].startswith("importlib.") else ""
