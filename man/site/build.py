"""Build the manual as a site of static pages with a search: python man/site/build.py FOLDER.

The pages come from the files that perfpy installs: man/topics, man/prose, the declarations of options, the docstrings of the public names.
Sphinx builds them (pip install -r .ci/site.in). The build fails for a warning of Sphinx and for a link that leads nowhere.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from sources import CHECKOUT, FILES, sources  # noqa: E402  # it lies beside this script, wherever that is called from


def build(output: Path) -> None:
    """Write the site into a folder. Raises CalledProcessError if Sphinx fails."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in sources():
            page = Path(folder, path)
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text)
        for path, copy in FILES.items():
            Path(folder, copy).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(CHECKOUT / path, Path(folder, copy))
        sphinx = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-E", "-d", f"{folder}/.doctrees", "-c", str(HERE)]
        subprocess.run([*sphinx, folder, str(output)], check=True)
    for page in output.rglob("*.html"):
        page.write_text(with_roles(page.read_text()))


#: what the theme leaves out: elements with no name, no level, or no way to scroll them by keys; headers without text
ROLES = (
    (r'<p class="caption" role="heading">', r'<p class="caption" role="heading" aria-level="2">'),
    (r'<aside class="sidebar-drawer">', r'<aside class="sidebar-drawer" aria-label="Pages">'),
    (r'<aside class="toc-drawer( no-toc)?">', r'<aside class="toc-drawer\1" aria-label="On this page">'),
    (r'<th class="head[^"]*"><p></p></th>', r"<td></td>"),
    (r'<div id="search-results">', r'<h1>Search</h1><div id="search-results">'),
    (r"<pre>", r'<pre tabindex="0">'),
    (r'<div class="table-wrapper ([^"]*)">', r'<div class="table-wrapper \1" tabindex="0">'),
)


def with_roles(page: str) -> str:
    """Return a page of the theme with the attributes that screen readers and the keyboard need."""
    for pattern, better in ROLES:
        page = re.sub(pattern, better, page)
    return page


class _Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the link or anchor of a tag."""
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in {"href", "src"} and value:
                self.links.append(value)


def dead_links(site: Path) -> list[str]:
    """Return the links between pages that lead to no file or anchor, as "PAGE: LINK". Links to other sites are not followed."""
    pages = {path: _Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    dead = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            linked = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[linked].anchors if linked in pages else set()
            if not linked.is_file() or (parts.fragment and linked in pages and unquote(parts.fragment) not in anchors):
                dead.append(f"{path.relative_to(site)}: {link}")
    return dead


def main(arguments: list[str]) -> int:
    """Build the site and check its links. Return the exit status."""
    if len(arguments) != 1:
        print("usage: python man/site/build.py FOLDER", file=sys.stderr)
        return 2
    output = Path(arguments[0]).resolve()
    try:
        build(output)
    except subprocess.CalledProcessError as error:
        return error.returncode
    dead = dead_links(output)
    for line in dead:
        print(f"dead link: {line}", file=sys.stderr)
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
