"""Headless Chromium for tests of HTML pages: a page from a file or a loopback server, its console, its requests.

Needs the packages `selenium` (in the extra `dev`), chromium and chromedriver; `open_browser` skips the test where one
of them is absent, and says which. Nothing here reaches the network.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import pytest

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)
LOCAL = ("file:", "data:", "blob:", "about:", "chrome:", "http://127.0.0.1", "http://localhost")
WAIT_SECONDS = 30


def _find(variable: str, *names: str) -> str | None:
    """The program that an environment variable names, or the first of these that is on the path."""
    return os.environ.get(variable) or next((found for name in names if (found := shutil.which(name))), None)


class Browser:
    """One page at a time in one headless Chromium."""

    def __init__(self, driver: Any):
        self.driver = driver

    def open(self, page: "Path | str") -> None:
        """Load a file, or an address, and forget what earlier pages logged."""
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(page.resolve().as_uri() if isinstance(page, Path) else page)

    def run(self, script: str, *args: Any) -> Any:
        """The value of a piece of JavaScript with `return`."""
        return self.driver.execute_script(script, *args)

    def wait(self, condition: str) -> None:
        """Until a JavaScript expression is true; fails after WAIT_SECONDS."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, WAIT_SECONDS, poll_frequency=0.02).until(
            lambda driver: driver.execute_script(f"return Boolean({condition})"), f"never true: {condition}"
        )

    def find(self, selector: str) -> Any:
        """The first element of a CSS selector."""
        return self.driver.find_element("css selector", selector)

    def find_all(self, selector: str) -> list[Any]:
        return self.driver.find_elements("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        """The visible text of every element of a CSS selector."""
        return [element.text for element in self.find_all(selector)]

    def press(self, *keys: str) -> None:
        """Keys, by Selenium's names (ARROW_RIGHT) or as characters, to whatever has the focus."""
        from selenium.webdriver import ActionChains, Keys

        for key in keys:
            ActionChains(self.driver).send_keys(getattr(Keys, key, key)).perform()

    def resize(self, width: int, height: int) -> None:
        """The size of the page's own area."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    def prefer(self, scheme: str) -> None:
        """What the page is told the reader prefers: "light" or "dark"."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def screenshot(self, path: "Path | str") -> None:
        """A PNG of what the page shows."""
        Path(path).write_bytes(self.driver.get_screenshot_as_png())

    def errors(self) -> list[str]:
        """What the console has said since the page was opened, other than information."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("WARNING", "SEVERE")]

    def outside_requests(self) -> list[str]:
        """Addresses beyond this machine that the page has asked for since it was opened."""
        asked = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.append(message["params"]["request"]["url"])
        return [url for url in asked if not url.startswith(LOCAL)]


@contextmanager
def open_browser(width: int = 1280, height: int = 900) -> Iterator[Browser]:
    """A fresh headless Chromium; skips the test where it or its driver is not installed."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium (pip install arboost[dev])")
    program = _find("CHROMIUM", "chromium", "chromium-browser", "google-chrome", "chrome")
    driver_path = _find("CHROMEDRIVER", "chromedriver", "chromium-driver")
    if program is None or driver_path is None:
        pytest.skip("needs chromium and chromedriver (Debian, Ubuntu: apt-get install chromium chromium-driver)")
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = program
        for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = webdriver.ChromeService(executable_path=driver_path)
        driver = webdriver.Chrome(options=options, service=service)
        try:
            browser = Browser(driver)
            browser.resize(width, height)
            yield browser
        finally:
            driver.quit()


class _QuietFiles(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """A loopback server of a folder's files; yields its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_QuietFiles, directory=str(folder)))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
