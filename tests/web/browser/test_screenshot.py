"""The picture of the README is one of the real page. HOLDFAST_WRITE_SCREENSHOT=1 takes it anew."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from playwright.sync_api import expect

from tests.console.conftest import Shop
from tests.web.browser import world
from tests.web.browser.conftest import Open
from tests.web.conftest import Serve

PICTURE = Path(__file__).parents[3] / "docs/images/dashboard.png"


def test_the_screenshot_of_the_readme_can_be_taken(
    serve: Serve, full: Shop, open_page: Open, tmp_path: Path
) -> None:
    seen = open_page(serve().address, viewport={"width": 1360, "height": 850}, color_scheme="light")
    # The shop is a minute old; its past is as invented as its orders.
    past = world.past(datetime.now(UTC))
    seen.page.route("**/api/history*", lambda route: route.fulfill(json=past))
    page = seen.go()
    expect(page.locator(".plot canvas")).to_have_count(5)
    expect(page.locator(".health-text")).to_be_visible()
    expect(page.get_by_role("button", name="Live")).to_be_visible()
    expect(page.locator(".legend").first).to_contain_text("completed")
    file = PICTURE if os.environ.get("HOLDFAST_WRITE_SCREENSHOT") else tmp_path / "dashboard.png"
    file.parent.mkdir(exist_ok=True)
    page.screenshot(path=file)
    assert PICTURE.is_file()
