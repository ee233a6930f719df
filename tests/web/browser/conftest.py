"""A real Chromium on the real server. What a page complains about fails the test that saw it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, expect, sync_playwright

from tests.console.conftest import Shop
from tests.web.browser import world
from tests.web.conftest import Serve

CHROMIUM = os.environ.get("HOLDFAST_CHROMIUM") or shutil.which("chromium")
FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WAIT_MS = 30_000
"""How long to wait for what is going to happen: a machine may be busy."""

Open = Callable[..., "Watched"]


class Watched:
    """A page, and everything it complained about."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.complaints: list[str] = []
        page.set_default_timeout(WAIT_MS)
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", self._dismiss)
        page.expose_function("complain", lambda said: self.complaints.append(said))
        page.add_init_script(
            "addEventListener('securitypolicyviolation', (event) =>"
            " complain(`policy: ${event.violatedDirective} ${event.blockedURI}`))"
        )

    def _hear(self, said: ConsoleMessage) -> None:
        if said.type == "error":
            self.complaints.append(said.text)

    def _dismiss(self, dialog: Dialog) -> None:
        self.complaints.append(dialog.message)
        dialog.dismiss()

    def go(self, path: str = "/") -> Page:
        """Go there, and wait until the page shows something of its own."""
        self.page.goto(self.address + path)
        self.page.locator("h1").first.wait_for()
        return self.page


@pytest.fixture(scope="package")
def browser() -> Generator[Browser]:
    assert CHROMIUM, "there is no chromium: install one, or name yours in HOLDFAST_CHROMIUM"
    # As root, Chromium does not start with its sandbox; nothing but our own pages is opened.
    expect.set_options(timeout=WAIT_MS)
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, *root])
        yield running
        running.close()


@pytest.fixture
def open_page(browser: Browser) -> Generator[Open]:
    """Open pages of a server in windows of their own; whatever they complained about fails the test."""
    opened: list[Watched] = []

    def open_it(address: str, **options: Any) -> Watched:
        size = {"width": 1280, "height": 860}
        context = browser.new_context(**{"viewport": size, "reduced_motion": "reduce", **options})
        opened.append(Watched(context.new_page(), address))
        return opened[-1]

    yield open_it
    for each in opened:
        each.page.context.close()
    assert [said for each in opened for said in each.complaints] == []


@pytest.fixture
def full(shop: Shop) -> Shop:
    """A shop with something in every state."""
    world.fill(shop.store)
    return shop


@pytest.fixture
def dashboard(serve: Serve, full: Shop, open_page: Open) -> Watched:
    """The dashboard over that shop, in a window."""
    return open_page(serve().address)
