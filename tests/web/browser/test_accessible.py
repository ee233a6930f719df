"""axe-core finds nothing to complain about, on any page, in light and dark."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from playwright.sync_api import Page, expect

from holdfast.web.pages import DIST
from tests.console.conftest import Shop
from tests.web.browser.conftest import Open, Watched
from tests.web.browser.test_pages import JOBS, PAGES
from tests.web.conftest import Serve

AXE = DIST.parent / "ui/node_modules/axe-core/axe.min.js"


def violations(page: Page, where: str) -> list[str]:
    """What axe finds, a line each."""
    assert AXE.is_file(), "axe-core is not installed: make ui"
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{where}: {each['id']}: {node['html'][:120]} {node.get('failureSummary', '')[:200]}"
        for each in found["violations"]
        for node in each["nodes"]
    ]


def close(page: Page) -> None:
    """Close the dialog, and wait until it is gone: keys are its own as long as it is there."""
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_sound_for_screen_readers(
    serve: Serve, full: Shop, open_page: Open, scheme: Literal["light", "dark"]
) -> None:
    seen = open_page(serve().address, color_scheme=scheme)
    found: list[str] = []
    for path in [path for path, _ in PAGES.values()] + [f"/jobs/{job_id}" for job_id in JOBS[:4]]:
        page = seen.go(path)
        expect(page.locator("main")).not_to_contain_text("Loading…")
        expect(page.locator(".bone")).to_have_count(0)
        found += violations(page, path)
    assert found == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_opens_over_a_page_is_sound_for_screen_readers(
    serve: Serve, full: Shop, open_page: Open, scheme: Literal["light", "dark"]
) -> None:
    seen = open_page(serve().address, color_scheme=scheme)
    found: list[str] = []
    page = seen.go("/jobs?q=state%3ADEAD")
    page.get_by_role("button", name="Delete all…").click()
    page.get_by_role("dialog").get_by_text("Deleting cannot be undone").wait_for()
    found += violations(page, "bulk dialog")
    close(page)
    page.locator("h1").click()
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()
    found += violations(page, "help")
    close(page)
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").wait_for()
    found += violations(page, "palette")
    close(page)
    page.keyboard.press("/")
    page.keyboard.type(" ")
    page.get_by_role("option").first.wait_for()
    found += violations(page, "hints")
    assert found == []


def test_the_focus_is_back_in_the_page_in_the_very_moment_a_dialog_is_gone(dashboard: Watched) -> None:
    page = dashboard.go("/jobs")
    page.locator("h1").click()
    page.evaluate(
        """() => {
            const gone = (change) => [...change.removedNodes].some((node) => node.nodeName === "DIALOG");
            new MutationObserver((changes) => {
                if (changes.some(gone)) window.focused = document.activeElement.id;
            }).observe(document.body, { childList: true, subtree: true });
        }"""
    )
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").wait_for()
    close(page)
    assert page.evaluate("window.focused") == "main"
