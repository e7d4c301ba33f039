"""A real browser to try pages in: headless Chromium, driven through its DevTools protocol over a pair of pipes."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any, Self

import pytest

if TYPE_CHECKING:
    from pathlib import Path

#: nothing that it does of itself reaches for a network
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--disable-quic", "--disable-dev-shm-usage", "--remote-debugging-pipe", "--hide-scrollbars")  # fmt: skip
PATIENCE = 60.0  # s


def chromium() -> str:
    """The browser; the test is skipped where there is none."""
    result = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if result is None:
        pytest.skip("no Chromium on this machine to look at the page with")
    return result


class Browser:
    """One tab of a browser; what went wrong in it is in `errors`, what it asked the network for in `requests`."""

    def __init__(self, folder: Path, *, scrollbars: bool = False) -> None:
        read, their_write = os.pipe()
        their_read, write = os.pipe()
        options = [option for option in QUIET if option != "--hide-scrollbars" or not scrollbars]
        command = [chromium(), *options, f"--user-data-dir={folder / 'browser'}", "about:blank"]
        redirected = f'exec "$@" 3<&{their_read} 4>&{their_write}'
        self._process = subprocess.Popen(
            ["bash", "-c", redirected, "bash", *command],
            pass_fds=(their_read, their_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "HOME": str(folder)},
        )
        os.close(their_read)
        os.close(their_write)
        self._read, self._write, self._buffer, self._number = read, write, b"", 0
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._write)
        os.close(self._read)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A method of the protocol, for the tab."""
        return self._call(method, parameters, self._session)

    def _call(self, method: str, parameters: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        while (answer := self._message()).get("id") != self._number:
            self._note(answer)
        assert "error" not in answer, answer["error"]
        result: dict[str, Any] = answer["result"]
        return result

    def _message(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            more = os.read(self._read, 1 << 20) if ready else b""
            assert more, "the browser says nothing any more"
            self._buffer += more
        first, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith("blob:null/"):  # memory of the page
            self.requests.append(parameters["request"]["url"])

    def open(self, file: Path, *, width: int = 1200, height: int = 900) -> None:
        """Show a page of perfpy, and wait until it is drawn."""
        self.errors.clear()
        self.requests.clear()
        self.size(width, height)
        self.call("Page.navigate", url=file.as_uri())
        self.until("document.readyState === 'complete' && !!document.body.dataset.ready")

    def size(self, width: int, height: int) -> None:
        """How large the window is."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def dark(self, *, on: bool) -> None:
        """What the system prefers."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"}])

    def run(self, expression: str) -> Any:
        """The value of an expression, or of the promise that it is."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.run(condition):
            assert not self.errors, self.errors
            assert time.monotonic() < end, f"never: {condition}"
            time.sleep(0.02)

    def text(self, selector: str) -> str:
        """What an element says."""
        result: str = self.run(f"document.querySelector({json.dumps(selector)}).innerText")
        return result

    def texts(self, selector: str) -> list[str]:
        """What all such elements say."""
        result: list[str] = self.run(f"[...document.querySelectorAll({json.dumps(selector)})].map(one => one.innerText)")
        return result

    def box(self, selector: str) -> tuple[float, float, float, float]:
        """Where an element is in the window, which is scrolled to it: left, top, width, height."""
        element = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{element}.scrollIntoView({{block: 'center'}})")
        left, top, width, height = self.run(f"(r => [r.x, r.y, r.width, r.height])({element}.getBoundingClientRect())")
        return left, top, width, height

    def choose(self, selector: str, label: str) -> None:
        """Choose what a select element offers, by its text."""
        result = self.run(
            f"(e => {{ const o = [...e.options].find(o => o.text === {json.dumps(label)}); if (!o) return [...e.options].map(o => o.text);"
            f" e.value = o.value; e.dispatchEvent(new Event('change')); return true; }})(document.querySelector({json.dumps(selector)}))"
        )
        assert result is True, f"{label} is not among {result}"

    def type(self, selector: str, text: str) -> None:
        """Write into a field."""
        self.run(f"(e => {{ e.focus(); e.select(); }})(document.querySelector({json.dumps(selector)}))")
        self.call("Input.insertText", text=text)

    def press(self, key: str, *, shift: bool = False) -> None:
        """A key, for what has the focus."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, modifiers=8 if shift else 0)

    def focus(self, selector: str) -> None:
        """Give an element the focus."""
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")

    def click(self, selector: str, x: float = 0.5, y: float = 0.5) -> None:
        """Click an element, at a part of its width and height."""
        self.drag(selector, (x, y), (x, y))

    def drag(self, selector: str, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Press the mouse button at one part of an element, and let go at another."""
        left, top, width, height = self.box(selector)
        (x, y), (to_x, to_y) = ((left + part[0] * width, top + part[1] * height) for part in (start, end))
        self.mouse("mouseMoved", x, y, 0)
        self.mouse("mousePressed", x, y, 1)
        if (x, y) != (to_x, to_y):
            self.mouse("mouseMoved", (x + to_x) / 2, (y + to_y) / 2, 1)
            self.mouse("mouseMoved", to_x, to_y, 1)
        self.mouse("mouseReleased", to_x, to_y, 0)

    def mouse(self, kind: str, x: float, y: float, buttons: int) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left" if kind != "mouseMoved" else "none", buttons=buttons,
                  clickCount=1)  # fmt: skip

    def difference(self, one: Path, other: Path) -> int:
        """How many pixels of two pictures differ by more than the rounding of edges."""
        self.call("Page.navigate", url="about:blank")
        urls = [f"data:image/png;base64,{base64.b64encode(file.read_bytes()).decode()}" for file in (one, other)]
        result: int = self.run(f"""Promise.all({json.dumps(urls)}.map(async url => {{
          const image = await createImageBitmap(await (await fetch(url)).blob()), canvas = new OffscreenCanvas(image.width, image.height);
          canvas.getContext('2d').drawImage(image, 0, 0);
          return canvas.getContext('2d').getImageData(0, 0, image.width, image.height).data;
        }})).then(([a, b]) => {{ let n = a.length === b.length ? 0 : 1e9;
          for (let i = 0; i < a.length; i += 4) n += [0, 1, 2].some(k => Math.abs(a[i + k] - b[i + k]) > 24) ? 1 : 0; return n; }})""")
        return result

    def picture(self, file: Path) -> None:
        """A screenshot."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
