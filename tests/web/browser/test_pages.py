"""Every page shows what is there, and the address says which."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from playwright.sync_api import expect

from tests.console.conftest import Shop
from tests.web.browser import world
from tests.web.browser.conftest import Open, Watched
from tests.web.conftest import Serve

PAGES = {
    "Overview": ("/", "Dead letters"),
    "Jobs": ("/jobs", "export-1"),
    "Dead letters": ("/dead", world.TIMEOUT),
    "Queues": ("/queues", "pictures"),
    "Workers": ("/workers", "reporter@night"),
    "Resources": ("/resources", "scanner"),
    "System": ("/system", "PostgreSQL"),
}
"""Every page: its address, and something that is on it."""

JOBS = ("invoice-1", "receipt-3", "newsletter-9", "shelf-1", "order-7", "thanks-1")


def test_every_page_can_be_walked_to_and_shows_what_is_there(dashboard: Watched) -> None:
    page = dashboard.go()
    for name, (path, shown) in PAGES.items():
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
        expect(page).to_have_url(dashboard.address + path)
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        expect(page.locator("main")).to_contain_text(shown)
    for job_id in JOBS:
        expect(dashboard.go(f"/jobs/{job_id}").get_by_role("heading", level=1)).to_contain_text(job_id)
        expect(page.get_by_role("heading", name="Timeline")).to_be_visible()


def test_a_number_beyond_javascript_is_shown_with_every_digit(dashboard: Watched) -> None:
    page = dashboard.go("/jobs/invoice-1")
    expect(page.get_by_role("group", name="the arguments")).to_contain_text(f'"order": {world.BIG}')
    listed = dashboard.go("/jobs?q=id%3Ainvoice-1").locator("tbody tr")
    expect(listed).to_contain_text(str(world.BIG))


def test_a_failed_job_shows_its_attempts_and_tracebacks(dashboard: Watched) -> None:
    page = dashboard.go("/jobs/newsletter-9")
    expect(page.locator(".stretches li")).to_have_text(
        [
            re.compile("Waited"),
            re.compile("Attempt 1 failed"),
            re.compile("Waited for a retry"),
            re.compile("Attempt 2 failed"),
            re.compile("Not due yet"),
        ]
    )
    expect(page.locator(".failure[open] pre")).to_contain_text("shop.smtp.ReadTimeout")


def test_the_dependency_graph_leads_to_parents_and_children(dashboard: Watched) -> None:
    page = dashboard.go("/jobs/parcel-1")
    graph = page.get_by_role("group", name="Dependencies")
    expect(graph.locator("a")).to_have_count(4)
    expect(graph.locator(".edge")).to_have_count(3)
    graph.locator("a", has_text="invoice-1").click()
    expect(page).to_have_url(f"{dashboard.address}/jobs/invoice-1")


def test_the_address_is_the_state_of_the_list(dashboard: Watched) -> None:
    page = dashboard.go("/jobs")
    rows = page.locator("tbody tr")
    page.get_by_role("combobox", name="Query").fill("queue:mail")
    page.get_by_role("combobox", name="Query").press("Enter")
    expect(page).to_have_url(f"{dashboard.address}/jobs?q=queue%3Amail")
    page.get_by_role("navigation", name="Jobs by state").get_by_role("link", name="Dead").click()
    expect(rows).to_have_count(10)
    assert "state%3ADEAD" in page.url
    page.reload()
    expect(rows).to_have_count(10)
    page.go_back()
    expect(page.get_by_role("combobox", name="Query")).to_have_value("queue:mail")
    expect(rows).to_have_count(13)


def test_counts_of_states_are_those_of_the_query(dashboard: Watched) -> None:
    page = dashboard.go("/jobs?q=queue%3Amail")
    chips = page.get_by_role("navigation", name="Jobs by state").get_by_role("link")
    expect(chips).to_have_text(
        ["All13", "Waiting2", "Retrying1", "Running0", "Completed0", "Cancelled0", "Dead10"]
    )


def test_hints_complete_a_query(dashboard: Watched) -> None:
    page = dashboard.go("/jobs")
    field = page.get_by_role("combobox", name="Query")
    field.press_sequentially("que")
    expect(page.get_by_role("option")).to_have_count(1)
    field.press("ArrowDown")
    field.press("Enter")
    expect(field).to_have_value("queue:")
    field.press_sequentially("bil")
    field.press("ArrowDown")
    field.press("Enter")
    expect(page).to_have_url(f"{dashboard.address}/jobs?q=queue%3Abilling")


def test_a_wrong_query_is_explained_where_it_was_written(serve: Serve, open_page: Open) -> None:
    seen = open_page(serve().address)
    page = seen.go("/jobs?q=statee%3ADEAD")
    expect(page.get_by_role("alert")).to_contain_text('there is no field "statee"; did you mean state?')
    seen.page.close()  # it asks again and again: nothing may come after what is forgiven here
    # The browser itself says on its console that an answer was 422.
    assert all("422" in said for said in seen.complaints)
    seen.complaints.clear()


def test_ids_of_any_kind_have_a_page(serve: Serve, shop: Shop, open_page: Open) -> None:
    odd = ["a/b", "50 % off?", "ü#1", "x\\y", '"quoted"', "api"]
    shop.submit(*odd)
    seen = open_page(serve().address)
    for job_id in odd:
        seen.go("/jobs").get_by_role("link", name=job_id, exact=True).click()
        expect(seen.page.get_by_role("heading", level=1)).to_contain_text(job_id)
        expect(seen.page.get_by_role("heading", name="Timeline")).to_be_visible()


def test_no_page_is_wider_than_a_narrow_window(serve: Serve, full: Shop, open_page: Open) -> None:
    width = 400
    seen = open_page(serve().address, viewport={"width": width, "height": 800})
    for path in [path for path, _ in PAGES.values()] + [f"/jobs/{job_id}" for job_id in JOBS[:3]]:
        page = seen.go(path)
        page.wait_for_load_state("load")
        expect(page.locator("main")).not_to_contain_text("Loading…")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_in_a_narrow_window_one_sees_where_one_is_and_what_can_be_pressed(
    serve: Serve, full: Shop, open_page: Open
) -> None:
    seen = open_page(serve().address, viewport={"width": 400, "height": 800})
    for word, (path, _) in PAGES.items():
        page = seen.go(path)
        expect(page.get_by_role("navigation", name="Pages").get_by_role("link", name=word)).to_be_in_viewport(
            ratio=1
        )
    expect(seen.go("/queues").get_by_role("button", name="Pause mail")).to_be_in_viewport(ratio=1)


def test_colours_are_light_dark_or_as_the_system_has_them(serve: Serve, open_page: Open) -> None:
    seen = open_page(serve().address, color_scheme="dark")
    page = seen.go()

    def ground() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    dark = ground()
    page.get_by_role("button", name="Colours").click()
    light = ground()
    assert light != dark
    page.reload()
    page.locator("h1").wait_for()
    assert ground() == light
    page.get_by_role("button", name="Colours").click()
    assert ground() == dark


def test_everything_can_be_reached_by_keys(dashboard: Watched) -> None:
    page = dashboard.go()
    for key, (path, _) in zip("jdqwkso", [*list(PAGES.values())[1:], PAGES["Overview"]], strict=True):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page).to_have_url(dashboard.address + path)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Keyboard shortcuts")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Find or go to").wait_for()
    page.keyboard.type("invoice-1")
    page.get_by_role("option", name="Open job invoice-1").click()
    expect(page).to_have_url(f"{dashboard.address}/jobs/invoice-1")
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    page.keyboard.press("/")
    expect(page.get_by_role("combobox", name="Query")).to_be_focused()
    expect(page.get_by_role("option").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("option")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.get_by_role("combobox", name="Query")).not_to_be_focused()
    expect(page.get_by_role("row", name="export-1")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{dashboard.address}/jobs/export-1")


DRAWN = """
([canvas, hex]) => {
  const {width, height} = canvas;
  const pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
  const wanted = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  let found = 0;
  for (let at = 0; at < pixels.length; at += 4) {
    const near = wanted.every((part, place) => Math.abs(pixels[at + place] - part) < 40);
    if (near && pixels[at + 3] > 200) found += 1;
  }
  return found;
}
"""
"""How many pixels of a canvas have about this colour."""


def test_a_minute_with_figures_between_quiet_ones_is_seen_on_the_charts(
    serve: Serve, full: Shop, open_page: Open
) -> None:
    seen = open_page(serve().address, color_scheme="light")
    past = world.past(datetime.now(UTC))
    for minute, point in enumerate(past["points"]):
        point |= {name: None for name in ("run_p50_ms", "run_p95_ms") if minute != 30}
    seen.page.route("**/api/history*", lambda route: route.fulfill(json=past))
    chart = seen.go().get_by_role("figure", name="Time running")
    canvas = chart.locator("canvas").element_handle()
    colour = seen.page.evaluate(
        "getComputedStyle(document.documentElement).getPropertyValue('--running').trim()"
    )
    seen.page.wait_for_function(f"([canvas, hex]) => ({DRAWN})([canvas, hex]) > 9", arg=[canvas, colour])
