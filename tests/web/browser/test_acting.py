"""What is done on the pages is done in the database, and nothing more."""

from __future__ import annotations

import time

from playwright.sync_api import Page, expect

from tests.console.conftest import Shop
from tests.web.browser.conftest import Open, Watched
from tests.web.conftest import Serve


def said(page: Page, text: str) -> None:
    """Wait until a notification says so."""
    expect(page.get_by_role("region", name="Notifications")).to_contain_text(text)


def test_a_dead_job_is_retried_from_its_page(dashboard: Watched, full: Shop) -> None:
    page = dashboard.go("/jobs/receipt-3")
    page.get_by_role("button", name="Retry").click()
    said(page, "receipt-3 was retried")
    assert full.states("receipt-3") == ["RESCHEDULED"]
    expect(page.locator("header .badge")).to_have_text("Rescheduled")


def test_cancelling_can_be_undone_for_a_moment(dashboard: Watched, full: Shop) -> None:
    dashboard.page.clock.install()
    page = dashboard.go("/jobs/picture-1")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Undo").click()
    said(page, "picture-1 goes on")
    page.clock.fast_forward(30_000)
    assert full.states("picture-1") == ["INITIAL_PENDING"]
    page.keyboard.press("c")
    said(page, "Cancelling picture-1")
    page.clock.fast_forward(6_000)
    said(page, "picture-1 was cancelled")
    assert full.states("picture-1") == ["UNSCHEDULED"]


def test_leaving_the_page_does_not_lose_a_cancellation(dashboard: Watched, full: Shop) -> None:
    page = dashboard.go("/jobs/picture-2")
    page.get_by_role("button", name="Cancel").click()
    said(page, "Cancelling picture-2")
    page.goto("about:blank")
    deadline = time.monotonic() + 15
    while full.states("picture-2") != ["UNSCHEDULED"]:
        assert time.monotonic() < deadline, "the cancellation was never sent"
        page.wait_for_timeout(50)


def test_all_that_match_are_retried_but_none_that_came_later(dashboard: Watched, full: Shop) -> None:
    page = dashboard.go("/jobs?q=state%3ADEAD%20task%3Ashop.send_receipt")
    page.get_by_role("button", name="Retry all…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("7 jobs will be retried")
    expect(dialog.get_by_role("listitem")).to_have_count(6)
    full.dead("late", task="shop.send_receipt")
    dialog.get_by_role("button", name="Retry 7 jobs").click()
    said(page, "7 jobs were retried")
    assert full.states(*(f"receipt-{n}" for n in range(1, 8))) == ["RESCHEDULED"] * 7
    assert full.states("late", "charge-1") == ["DEAD", "DEAD"]


def test_deleting_wants_the_number_typed(dashboard: Watched, full: Shop) -> None:
    page = dashboard.go("/jobs?q=state%3ADEAD%20task%3Ashop.charge")
    page.get_by_role("button", name="Delete all…").click()
    dialog = page.get_by_role("dialog")
    button = dialog.get_by_role("button", name="Delete 3 jobs")
    expect(button).to_be_disabled()
    dialog.get_by_label("Type 3 to confirm").fill("2")
    expect(button).to_be_disabled()
    dialog.get_by_label("Type 3 to confirm").fill("3")
    button.click()
    said(page, "3 jobs were deleted")
    assert full.states("charge-1", "charge-2", "charge-3", "receipt-1") == [None, None, None, "DEAD"]


def test_more_than_a_thousand_want_the_number_typed(serve: Serve, shop: Shop, open_page: Open) -> None:
    shop.submit(*(f"many-{n}" for n in range(1200)), queue="many")
    page = open_page(serve().address).go("/jobs?q=queue%3Amany")
    page.get_by_role("button", name="Cancel all…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Cancel 1,200 jobs")).to_be_disabled()
    dialog.get_by_label("Type 1200 to confirm").fill("1,200")
    dialog.get_by_role("button", name="Cancel 1,200 jobs").click()
    said(page, "1,200 jobs were cancelled")
    assert set(shop.states("many-0", "many-1199")) == {"UNSCHEDULED"}


def test_nothing_is_done_to_jobs_that_were_only_looked_at(dashboard: Watched, full: Shop) -> None:
    page = dashboard.go("/jobs?q=state%3ADEAD")
    page.get_by_role("button", name="Delete all…").click()
    page.get_by_role("button", name="Leave them").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert full.states("receipt-1", "charge-1") == ["DEAD", "DEAD"]


def test_jobs_picked_with_keys_are_cancelled_and_no_others(dashboard: Watched, full: Shop) -> None:
    page = dashboard.go("/jobs?q=queue%3Apictures")
    expect(page.locator("tbody tr")).to_have_count(30)
    for key in "jxjjxc":
        page.keyboard.press(key)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("2 jobs will be cancelled")
    dialog.get_by_role("button", name="Cancel 2 jobs").click()
    said(page, "2 jobs were cancelled")
    expected = ["UNSCHEDULED", "INITIAL_PENDING", "UNSCHEDULED", "INITIAL_PENDING"]
    assert full.states("picture-30", "picture-29", "picture-28", "picture-27") == expected


def test_a_running_job_is_asked_to_stop(dashboard: Watched, full: Shop) -> None:
    page = dashboard.go("/jobs?q=id%3Ashelf-1")
    page.get_by_label("Pick shelf-1").check()
    page.keyboard.press("c")
    page.get_by_role("button", name="Cancel 1 job", exact=True).click()
    said(page, "1 job was cancelled")
    assert full.states("shelf-1") == ["CANCELLING"]
    expect(page.locator("tbody .badge")).to_have_text("Cancelling")


def test_a_group_of_dead_letters_is_retried_at_once(dashboard: Watched, full: Shop) -> None:
    page = dashboard.go("/dead")
    group = page.get_by_role("article").filter(has_text="CardDeclined")
    expect(group).to_contain_text("3jobs")
    group.get_by_role("button", name="Retry all…").click()
    page.get_by_role("button", name="Retry 3 jobs").click()
    said(page, "3 jobs were retried")
    assert full.states("charge-1", "charge-3", "receipt-1") == ["RESCHEDULED", "RESCHEDULED", "DEAD"]
    expect(group).to_have_count(0)


def test_a_queue_is_paused_and_goes_on_by_undo(dashboard: Watched, full: Shop) -> None:
    def paused() -> bool:
        stats = {each.queue: each for each in full.store.get_queue_stats()}
        return stats["pictures"].paused_at is not None

    page = dashboard.go("/queues")
    page.get_by_role("button", name="Pause pictures").click()
    said(page, "Queue pictures is paused")
    assert paused()
    expect(page.get_by_role("row", name="pictures").locator(".badge")).to_have_text("Paused")
    page.get_by_role("button", name="Undo").click()
    said(page, "Queue pictures goes on")
    assert not paused()


def test_a_queue_is_limited_and_the_limit_undone(dashboard: Watched, full: Shop) -> None:
    def limit() -> int | None:
        return {each.queue: each.max_running for each in full.store.get_queue_stats()}["pictures"]

    page = dashboard.go("/queues")
    page.get_by_role("button", name="Limit of pictures: none. Change").click()
    page.get_by_label("Limit of pictures").fill("3")
    page.get_by_label("Limit of pictures").press("Enter")
    said(page, "The limit of pictures is 3")
    assert limit() == 3
    page.get_by_role("button", name="Undo").click()
    said(page, "pictures has no limit any more")
    assert limit() is None


def test_the_capacity_of_a_resource_is_changed(dashboard: Watched, full: Shop) -> None:
    page = dashboard.go("/resources")
    page.get_by_role("button", name="Capacity of scanner: 2. Change").click()
    page.get_by_label("Capacity of scanner").fill("5")
    page.get_by_label("Capacity of scanner").press("Enter")
    said(page, "The capacity of scanner is 5")
    assert full.store.resource_capacity("scanner") == 5


def test_what_the_server_refuses_is_said_in_its_words(dashboard: Watched, full: Shop) -> None:
    page = dashboard.go("/jobs/receipt-1")
    expect(page.get_by_role("button", name="Retry")).to_be_visible()
    page.get_by_role("button", name="Live").click()  # it would see for itself
    full.store.revive_job("receipt-1")
    page.keyboard.press("r")
    said(page, "RESCHEDULED")
    expect(page.locator(".toast-bad")).to_be_visible()
    assert all("409" in each for each in dashboard.complaints)
    dashboard.complaints.clear()
