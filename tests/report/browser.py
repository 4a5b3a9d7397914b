"""A real browser without a window, for pages in files: Debian's chromium and its driver, through selenium."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# Three frames in which nothing waits to be drawn: what comes into view is noticed a frame later. Milliseconds since the action.
SETTLE = """
const done = arguments[arguments.length - 1], began = window.hrnnActed || 0;
let quiet = 0, last = 0;
function look() {
  if (document.querySelector("[data-busy]")) quiet = 0;
  else if (!quiet++) last = performance.now();
  if (quiet > 3) done(last - began);
  else requestAnimationFrame(() => setTimeout(look, 0));
}
look();
"""


class Browser:
    """One window. `console` is what the page said there; a page of this project says nothing."""

    @staticmethod
    def there() -> str:
        """Where the browser is, or nothing if it or its driver is missing."""
        return (shutil.which("chromium") or "") if shutil.which("chromedriver") else ""

    def __init__(self, width: int = 1400, height: int = 1000, *, dark: bool = False):
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        options = webdriver.ChromeOptions()
        options.binary_location = self.there()
        for flag in (*FLAGS, f"--user-data-dir={self._profile.name}", f"--window-size={width},{height}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.driver.set_script_timeout(120)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(Exception):
            self.driver.quit()
        self._profile.cleanup()

    def open(self, page: Path | str) -> float:
        """Load a page; returns the seconds until what is in view is drawn."""
        begun = time.perf_counter()
        self.driver.get(page.absolute().as_uri() if isinstance(page, Path) else page)
        self.settled()
        return time.perf_counter() - begun

    def processor_seconds(self) -> float:
        """That the page's own thread has worked so far; 0 before it is first asked for."""
        self.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        metrics = self.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))

    def run(self, script: str) -> None:
        """An action whose answer `settled` waits for. In a task of its own: what it does must not be missed."""
        self.driver.execute_script(f"window.hrnnActed = performance.now(); {{ {script} }}")

    def settled(self) -> float:
        """Seconds from the last action until everything in view is drawn."""
        return float(self.driver.execute_async_script(SETTLE)) / 1000

    def get(self, expression: str) -> Any:
        return self.driver.execute_script(f"return {expression}")

    @property
    def console(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]
