"""A real browser for tests: headless Chromium, driven over its own pipe with the standard
library alone.

    def test_the_page_has_a_heading(tmp_path):
        with browser.launch() as chromium:
            page = chromium.open((tmp_path / "report.html").as_uri(), width=375, dark=True)
            assert page.evaluate("document.querySelector('h1').textContent") == "..."
            assert not page.console_errors and page.hosts == set()

``launch`` skips the test, and says why, where there is no Chromium. To start it once for a file of
tests, wrap it in a fixture of scope "module". The browser can reach this machine and files, nothing
else. Every wait has an end (``TIMEOUT`` seconds); nothing sleeps.

Page: ``evaluate(js)``, ``wait(js)``, ``click(selector)``, ``hover(selector)``, ``press(key)``,
``type(text)``, ``set_value(selector, value)``, ``upload(selector, path)``, ``download(selector,
folder)``, ``screenshot(path)``, ``pdf(path)``, ``reload()``, ``axe()``, ``close()``; and
``console_errors``, ``requests`` (addresses asked for, in order), ``hosts`` (of those that are
neither files nor data), ``dialogs``.
"""

from __future__ import annotations

import base64
import functools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 30.0
AXE = "4.10.3"

# Quiet and alone: no first-run pages, no calls home, and names that are not this machine's resolve
# to nothing.
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
FLAGS += [
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-proxy-server",
]
FLAGS += [
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--remote-debugging-pipe",
]

# The browser reads commands from descriptor 3 and answers on 4. Both ends are moved away first: one
# may be in the other's place.
_PIPES = (
    "import os, sys; a, b = (os.dup(int(n)) for n in sys.argv[1:3]); os.dup2(a, 3); os.dup2(b, 4); "
)
_PIPES += "[os.set_inheritable(n, True) for n in (3, 4)]; os.execv(sys.argv[3], sys.argv[3:])"


def find() -> str | None:
    """Return the browser's path, or None."""
    return (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )


@contextmanager
def launch() -> Iterator[Browser]:
    """Start a browser with an empty profile and end it afterwards; skip the test where there is
    none.
    """
    path = find()
    if path is None:
        pytest.skip("chromium is not installed")
    with tempfile.TemporaryDirectory(prefix="r2b-chromium-", ignore_cleanup_errors=True) as profile:
        to_read, to_us = os.pipe(), os.pipe()
        ends = (to_read[0], to_us[1])
        command = [
            sys.executable,
            "-c",
            _PIPES,
            *map(str, ends),
            path,
            *FLAGS,
            f"--user-data-dir={profile}",
            "about:blank",
        ]
        process = subprocess.Popen(
            command,
            pass_fds=ends,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in ends:
            os.close(end)
        chromium = Browser(to_read[1], to_us[0])
        try:
            yield chromium
        finally:
            chromium.end()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Browser:
    """A running Chromium."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read, self._number, self._buffer = write, read, 0, b""
        self._listeners: dict[str, Callable[[str, dict[str, Any]], None]] = {}

    def open(
        self,
        url: str,
        width: int = 1280,
        dark: bool = False,
        *,
        height: int = 900,
        javascript: bool = True,
    ) -> Page:
        """Open an address in a window of its own, with its own storage, and wait until it has
        loaded.
        """
        context = self.send("Target.createBrowserContext")["browserContextId"]
        target = self.send("Target.createTarget", url="about:blank", browserContextId=context)[
            "targetId"
        ]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, context)
        self._listeners[session] = page.hear
        page.prepare(width, height, dark, javascript)
        page.go(url)
        return page

    def send(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send one command of the DevTools protocol and wait for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        number, answers = self._number, []
        self.listen(lambda heard: heard.get("id") == number and answers.append(heard) is None)
        if "error" in answers[0]:
            raise RuntimeError(f"{method}: {answers[0]['error']['message']}")
        result: dict[str, Any] = answers[0]["result"]
        return result

    def listen(self, until: Callable[[dict[str, Any]], bool]) -> None:
        """Read messages, pass events on to their pages, and return after the first message that is
        the one waited for.
        """
        end = time.monotonic() + TIMEOUT
        while True:
            while b"\0" not in self._buffer:
                if not select.select([self._read], [], [], max(0.0, end - time.monotonic()))[0]:
                    raise TimeoutError(f"the browser did not answer for {TIMEOUT:g} seconds")
                heard = os.read(self._read, 1 << 20)
                if not heard:
                    raise RuntimeError("the browser ended")
                self._buffer += heard
            line, self._buffer = self._buffer.split(b"\0", 1)
            message = json.loads(line)
            listener = self._listeners.get(message.get("sessionId", ""))
            if "method" in message and listener is not None:
                listener(message["method"], message["params"])
            if until(message):
                return

    def end(self) -> None:
        """Ask the browser to end; closing its pipe ends it too."""
        with suppress(OSError, RuntimeError):
            self.send("Browser.close")
        os.close(self._write)
        os.close(self._read)


class Page:
    """One window."""

    def __init__(self, browser: Browser, session: str, context: str) -> None:
        self.browser, self.session, self.context = browser, session, context
        self.console_errors: list[str] = []
        self.requests: list[str] = []
        self.dialogs: list[str] = []

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command to this window."""
        return self.browser.send(method, self.session, **params)

    def hear(self, method: str, params: dict[str, Any]) -> None:
        """Keep what tests ask about."""
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.console_errors.append(
                details.get("exception", {}).get("description", details["text"])
            )
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.console_errors.append(
                " ".join(str(each.get("value", each.get("description"))) for each in params["args"])
            )
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.console_errors.append(params["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(params["message"])
            # An answer to this is not waited for: it may be heard in the middle of another command.
            message = {
                "id": 0,
                "method": "Page.handleJavaScriptDialog",
                "params": {"accept": True},
                "sessionId": self.session,
            }
            os.write(self.browser._write, json.dumps(message).encode() + b"\0")

    def prepare(self, width: int, height: int, dark: bool, javascript: bool) -> None:
        """Set size and colour scheme, and listen."""
        for domain in ("Page", "Runtime", "Network", "Log", "DOM"):
            self.send(f"{domain}.enable")
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=scheme)
        self.resize(width, height)
        self.send("Emulation.setScriptExecutionDisabled", value=not javascript)

    def resize(self, width: int, height: int = 900) -> None:
        """Set the size of the window, in CSS pixels."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def go(self, url: str) -> None:
        """Go to an address and wait until it has loaded."""
        loaded: list[bool] = []
        inner = self.hear

        def hear(method: str, params: dict[str, Any]) -> None:
            inner(method, params)
            if method == "Page.loadEventFired":
                loaded.append(True)

        self.browser._listeners[self.session] = hear
        self.send("Page.navigate", url=url)
        if not loaded:
            self.browser.listen(lambda _: bool(loaded))
        self.browser._listeners[self.session] = inner

    def reload(self) -> None:
        """Load the page again."""
        self.go(str(self.evaluate("location.href")))

    @property
    def hosts(self) -> set[str]:
        """Hosts that were asked for anything."""
        parts = [urlsplit(each) for each in self.requests]
        return {
            each.netloc for each in parts if each.scheme not in ("file", "data", "blob", "about")
        }

    def evaluate(self, expression: str) -> Any:
        """Evaluate JavaScript, wait for it where it is a promise, and give its value."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait(self, expression: str) -> Any:
        """Wait until an expression is true, looking at every frame, and give its value."""
        tries = f"const value = ({expression}); if (value) resolve(value); else"
        again = (
            "if (performance.now() > end) reject(new Error('it did not come true')); else"
            " requestAnimationFrame(look)"
        )
        until = f"const end = performance.now() + {1000 * (TIMEOUT - 5)}"
        return self.evaluate(
            f"new Promise((resolve, reject) => {{ {until}; const look = () => {{ {tries} {again}"
            " }; look() })"
        )

    def _middle(self, selector: str) -> tuple[float, float]:
        find = f"const e = document.querySelector({json.dumps(selector)}); if (!e) return null"
        # At once: a page that scrolls smoothly would still be moving when the mouse arrives.
        seen = "e.scrollIntoView({block: 'center', behavior: 'instant'})"
        box = (
            f"{seen}; const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y +"
            " r.height / 2]"
        )
        found = self.evaluate(f"(() => {{ {find}; {box} }})()")
        if found is None:
            raise LookupError(f"nothing on the page matches {selector}")
        return float(found[0]), float(found[1])

    def hover(self, selector: str, dx: float = 0.0, dy: float = 0.0) -> None:
        """Move the mouse over the middle of an element, or beside it."""
        x, y = self._middle(selector)
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x + dx, y=y + dy)

    def click(self, selector: str) -> None:
        """Click on the middle of an element."""
        x, y = self._middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        """Press a key such as "Enter", "Tab" or "ArrowRight" where the focus is."""
        codes = {
            "Enter": 13,
            "Tab": 9,
            "ArrowLeft": 37,
            "ArrowUp": 38,
            "ArrowRight": 39,
            "ArrowDown": 40,
            "Home": 36,
            "End": 35,
            " ": 32,
        }
        text = {"Enter": "\r", " ": " "}.get(key)
        code = "Space" if key == " " else key
        down = {"text": text} if text else {}
        self.send(
            "Input.dispatchKeyEvent",
            type="keyDown",
            key=key,
            code=code,
            windowsVirtualKeyCode=codes.get(key, 0),
            **down,
        )
        self.send(
            "Input.dispatchKeyEvent",
            type="keyUp",
            key=key,
            code=code,
            windowsVirtualKeyCode=codes.get(key, 0),
        )

    def type(self, text: str) -> None:
        """Type where the focus is."""
        self.send("Input.insertText", text=text)

    def set_value(self, selector: str, value: Any) -> None:
        """Set an input, a slider or a choice as a user does: the events go out."""
        which = json.dumps(selector)
        fire = (
            "for (const kind of ['input', 'change']) e.dispatchEvent(new Event(kind, {bubbles:"
            " true}))"
        )
        self.evaluate(
            f"(() => {{ const e = document.querySelector({which}); e.value ="
            f" {json.dumps(str(value))}; {fire} }})()"
        )

    def upload(self, selector: str, path: Path) -> None:
        """Pick a file in an ``<input type=file>``."""
        root = self.send("DOM.getDocument")["root"]["nodeId"]
        node = self.send("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.send("DOM.setFileInputFiles", nodeId=node, files=[str(path)])

    def download(self, selector: str, folder: Path) -> Path:
        """Click on what downloads a file, wait for it, and give its path in a folder that
        exists.
        """
        names: list[str] = []
        done: list[bool] = []

        def heard(message: dict[str, Any]) -> bool:
            params = message.get("params", {})
            if message.get("method") == "Browser.downloadWillBegin":
                names.append(params["suggestedFilename"])
            elif (
                message.get("method") == "Browser.downloadProgress"
                and params["state"] != "inProgress"
            ):
                done.append(params["state"] == "completed")
            return bool(done)

        allowed = {
            "behavior": "allow",
            "downloadPath": str(folder),
            "eventsEnabled": True,
            "browserContextId": self.context,
        }
        self.browser.send("Browser.setDownloadBehavior", **allowed)
        # The click is handed over to the page, so that no event of the download is read before we
        # listen.
        self.evaluate(
            f"void setTimeout(() => document.querySelector({json.dumps(selector)}).click(), 50)"
        )
        self.browser.listen(heard)
        if not done[0]:
            raise RuntimeError("the download was cancelled")
        return folder / names[0]

    def screenshot(self, path: Path, *, whole: bool = True, scale: float = 1.0) -> None:
        """Write a PNG of the whole page, or of what the window shows."""
        box = self.send("Page.getLayoutMetrics")["cssContentSize" if whole else "cssLayoutViewport"]
        width, height = (
            box.get("width", box.get("clientWidth")),
            box.get("height", box.get("clientHeight")),
        )
        clip = {
            "x": box.get("x", 0),
            "y": box.get("y", 0),
            "width": width,
            "height": height,
            "scale": scale,
        }
        answer = self.send(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole, clip=clip
        )
        path.write_bytes(base64.b64decode(answer["data"]))

    def pdf(self, path: Path) -> None:
        """Print to a PDF."""
        path.write_bytes(
            base64.b64decode(self.send("Page.printToPDF", printBackground=False)["data"])
        )

    def axe(self, every: bool = False) -> list[str]:
        """Check accessibility with axe-core and give its serious and critical findings, or every
        one; skip where it cannot be had.
        """
        self.evaluate(axe_source() + "; 0")
        found = self.evaluate(
            "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations)"
        )
        serious = [each for each in found if every or each["impact"] in ("serious", "critical")]
        return [
            f"{each['id']}: {each['help']}: {node['html'][:160]}"
            for each in serious
            for node in each["nodes"]
        ]

    def close(self) -> None:
        """Close the window."""
        self.browser._listeners.pop(self.session, None)
        self.browser.send("Target.disposeBrowserContext", browserContextId=self.context)


@functools.cache
def axe_source() -> str:
    """Return the text of axe-core, fetched once by npm into pytest's cache; skip where npm or its
    registry is not there.
    """
    script = ROOT / ".pytest_cache" / f"axe-core-{AXE}.js"
    if not script.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("npm is not installed, so axe-core cannot be fetched")
        with tempfile.TemporaryDirectory() as folder:
            command = [
                npm,
                "install",
                "--prefix",
                folder,
                "--no-save",
                "--ignore-scripts",
                "--no-audit",
                "--no-fund",
                f"axe-core@{AXE}",
            ]
            try:
                done = subprocess.run(
                    command, cwd=folder, capture_output=True, text=True, timeout=120
                )
            except subprocess.TimeoutExpired:
                pytest.skip("npm took more than two minutes to fetch axe-core")
            if done.returncode:
                pytest.skip(
                    f"npm could not fetch axe-core {AXE}: {done.stderr.strip().splitlines()[-1:]}"
                )
            script.parent.mkdir(exist_ok=True)
            # Moved into place whole: several processes of one test run may fetch it at once.
            part = script.with_suffix(f".{os.getpid()}")
            part.write_bytes(
                (Path(folder) / "node_modules" / "axe-core" / "axe.min.js").read_bytes()
            )
            part.replace(script)
    return script.read_text(encoding="utf-8")
