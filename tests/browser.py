"""A real browser without a window, driven over a pipe by the DevTools protocol: nothing but chromium is needed."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import time
from typing import NamedTuple

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-extensions --hide-scrollbars --disable-dev-shm-usage "
    "--remote-debugging-pipe"
).split()
PHONE = 600  # pixels below which a window is that of a phone
PATIENCE = 120  # seconds for one answer, on a machine that has other work
OWN = ("file:", "data:", "about:")  # addresses for which nothing leaves the computer


# chromium reads its orders from descriptor 3 and answers on 4; first out of the way of each other, then there
CHILD = """import fcntl, os, sys
ours, theirs = (fcntl.fcntl(int(fd), fcntl.F_DUPFD, 20) for fd in sys.argv[1:3])
os.dup2(ours, 3), os.dup2(theirs, 4)
os.execv(sys.argv[3], sys.argv[3:])"""


class Seen(NamedTuple):
    """What a page did when it was opened: its words on the console, addresses from outside, its width and its room."""

    console: list
    outside: list
    width: int
    room: int


class Browser:
    """One chromium process with a profile of its own; a context manager."""

    def __init__(self, profile):
        ours, self.send = os.pipe()
        self.receive, theirs = os.pipe()
        words = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        start = [sys.executable, "-c", CHILD, str(ours), str(theirs), *words]
        silent = subprocess.DEVNULL
        self.process = subprocess.Popen(
            start, pass_fds=(ours, theirs), stdout=silent, stderr=silent
        )
        os.close(ours)
        os.close(theirs)
        self.numbers, self.pending, self.events = itertools.count(1), b"", []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for room in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{room}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=PATIENCE)
        os.close(self.send)
        os.close(self.receive)

    def ask(self, method, **params):
        """Send an order, and return its answer; events that come before are kept."""
        number = next(self.numbers)
        order = {"id": number, "method": method, "params": params}
        if hasattr(self, "session"):
            order["sessionId"] = self.session
        os.write(self.send, json.dumps(order).encode() + b"\0")
        while True:
            message = self._next()
            if message.get("id") == number:
                assert "error" not in message, (method, message)
                return message["result"]
            self.events.append(message)

    def _next(self):
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self.pending:
            ready, _, _ = select.select([self.receive], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"chromium did not answer for {PATIENCE} seconds"
            piece = os.read(self.receive, 1 << 16)
            assert piece, f"chromium ended with {self.process.wait()}"
            self.pending += piece
        first, _, self.pending = self.pending.partition(b"\0")
        return json.loads(first)

    def open(self, path, width=1000, scheme="light", media="screen"):
        """Open a file as a window of some width shows it, in light or dark; return what it did."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=1400,
            deviceScaleFactor=1,
            mobile=width < PHONE,
        )
        self.ask(
            "Emulation.setEmulatedMedia",
            media=media,
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        self.events = []
        self.ask("Page.navigate", url=path.as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._next())
        wide, room = json.loads(
            self.value("JSON.stringify([document.documentElement.scrollWidth, innerWidth])")
        )
        return Seen(self._said(), self._asked(), wide, room)

    def value(self, expression):
        """Return what an expression of the page gives."""
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)[
            "result"
        ].get("value")

    def shoot(self, path, clip=None):
        """Write a picture of the whole page, or of a part of it."""
        part = {} if clip is None else {"clip": clip}
        picture = self.ask("Page.captureScreenshot", captureBeyondViewport=True, **part)["data"]
        path.write_bytes(base64.b64decode(picture))

    def _said(self):
        """Return everything on the console: words of scripts, errors of scripts, complaints of the browser."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(e["params"]) for e in self.events if e.get("method") in kinds]

    def _asked(self):
        urls = [
            e["params"]["request"]["url"]
            for e in self.events
            if e.get("method") == "Network.requestWillBeSent"
        ]
        return [url for url in urls if not url.startswith(OWN)]
