"""Pages follow what happens, and nothing jumps while somebody reads."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.console.conftest import Shop
from tests.web.browser.conftest import Open, Watched
from tests.web.conftest import Serve


def test_new_jobs_are_announced_and_shown_only_when_asked_for(dashboard: Watched, full: Shop) -> None:
    page = dashboard.go("/jobs?q=queue%3Apictures")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(30)
    expect(page.get_by_role("button", name="Live")).to_be_visible()
    full.submit("picture-31", "picture-32", queue="pictures")
    page.get_by_role("button", name="2 new").wait_for()
    expect(rows).to_have_count(30)
    expect(rows.first).to_contain_text("picture-30")
    page.get_by_role("button", name="2 new").click()
    expect(rows).to_have_count(32)
    expect(rows.first).to_contain_text("picture-32")


def test_a_row_changes_where_it_stands(dashboard: Watched, full: Shop) -> None:
    page = dashboard.go("/jobs?q=state%3AINITIAL_PENDING%20queue%3Apictures")
    row = page.get_by_role("row", name="Pick picture-7")
    place = row.get_attribute("id")
    full.store.cancel_job("picture-7", "somebody else")
    expect(row.locator(".badge")).to_have_text("Unscheduled")
    assert row.get_attribute("id") == place


def test_a_page_that_lost_its_server_says_that_it_is_stale(serve: Serve, full: Shop, open_page: Open) -> None:
    running = serve()
    seen = open_page(running.address)
    page = seen.go("/queues")
    expect(page.get_by_role("button", name="Live")).to_be_visible()
    running.stop()
    expect(page.get_by_role("status")).to_contain_text("Not connected")
    expect(page.get_by_role("button", name="Stale")).to_be_visible()
    seen.complaints.clear()  # the browser's own, of every connection that was refused


def test_without_events_the_page_polls(serve: Serve, full: Shop, open_page: Open) -> None:
    seen = open_page(serve().address)
    seen.page.route("**/api/events", lambda route: route.abort())
    page = seen.go("/queues")
    expect(page.get_by_role("button", name="Polling")).to_be_visible()
    full.submit("fresh", queue="a new line")
    expect(page.get_by_role("row", name="a new line")).to_be_visible()
    seen.complaints.clear()  # the browser's own, of the events it did not get


def test_updates_can_be_paused(dashboard: Watched, full: Shop) -> None:
    page = dashboard.go("/queues")
    page.get_by_role("button", name="Live").click()
    expect(page.get_by_role("button", name="Paused")).to_be_visible()
    full.submit("fresh", queue="a new line")
    expect(page.get_by_role("row", name="pictures")).to_be_visible()
    expect(page.get_by_role("row", name="a new line")).to_have_count(0)
    page.get_by_role("button", name="Paused").click()
    expect(page.get_by_role("row", name="a new line")).to_be_visible()
