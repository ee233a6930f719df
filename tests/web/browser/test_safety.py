"""Nothing that somebody wrote into a job runs in the browser of whoever looks at it."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

from playwright.sync_api import expect

from holdfast.domain.job import NewJob
from holdfast.domain.outcome import Completed, Failed
from holdfast.store import SyncStore
from holdfast.web.settings import Role, Token
from tests.console.conftest import Shop
from tests.web.browser.conftest import Open
from tests.web.browser.test_pages import PAGES
from tests.web.conftest import Serve

PLANTED = (
    "<img src=x onerror=alert(1)>",
    '"><script>alert(2)</script>',
    "<svg/onload=alert(3)>",
    "javascript:alert(4)",
    "'-alert(5)-'{{7*7}}${alert(6)}",
)


def plant(store: SyncStore, script: str, name: str) -> list[str]:
    """Jobs with script in every field that takes text; their ids."""
    queue = script[:38]
    more: dict[str, Any] = {"task": script, "tags": [script], "payload": {script: [script, {"deep": script}]}}
    ids = [f"{script}-{kind}" for kind in ("dead", "held", "waits", "done")]
    dead, held, waits, done = ids
    store.submit_jobs([NewJob(job_id=dead, queue=queue, singleton_key=script, **more)])
    (job,) = store.claim_jobs(script, [queue], 1)
    store.settle_jobs(
        [(dead, job.lease_id, Failed(f"{script}\n{script}", f"Traceback {script}", permanent=True))]
    )
    store.submit_jobs([NewJob(job_id=done, queue=queue, **more)])
    (job,) = store.claim_jobs(script, [queue], 1)
    store.settle_jobs([(done, job.lease_id, Completed({script: script}))])
    store.submit_jobs(
        [NewJob(job_id=held, queue=queue, resource_keys=[script], singleton_key=script, **more)]
    )
    (job,) = store.claim_jobs(f"{script} {name}", [queue], 1)
    store.acquire_resources(held, [script], lease_id=job.lease_id)
    store.report_progress(held, job.lease_id, 1, 2, script)
    store.submit_jobs([NewJob(job_id=waits, queue=queue, wait_for=[held], **more)])
    store.pause_queue(queue)
    return ids


def test_planted_script_is_shown_and_never_run(serve: Serve, shop: Shop, open_page: Open) -> None:
    ids = [job_id for n, script in enumerate(PLANTED) for job_id in plant(shop.store, script, str(n))]
    seen = open_page(serve().address)
    for path, _ in PAGES.values():
        page = seen.go(path)
        expect(page.locator("main")).not_to_contain_text("Loading…")
        if path not in ("/", "/system"):
            for script in PLANTED:
                expect(page.locator("main")).to_contain_text(script[:38])
    for job_id in [*ids[:4], *(each for each in ids[4:] if each.endswith(("-dead", "-held")))]:
        page = seen.go(f"/jobs/{quote(job_id, safe='')}")
        expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
        expect(page.get_by_role("group", name="the arguments")).to_contain_text(job_id[:5])
    assert seen.complaints == []
    for script in PLANTED[:2]:
        expect(seen.go(f"/jobs?q={quote(script)}").get_by_role("alert")).to_be_visible()
    seen.page.close()  # it asks again and again: nothing may come after what is forgiven here
    assert {each.rpartition("status of ")[2] for each in seen.complaints} == {"422 (Unprocessable Entity)"}
    seen.complaints.clear()


def test_a_planted_script_would_have_been_noticed(serve: Serve, open_page: Open) -> None:
    seen = open_page(serve().address)
    page = seen.go()
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=alert(1)>')")
    deadline = time.monotonic() + 30
    while not any(each.startswith("policy: script-src") for each in seen.complaints):
        assert time.monotonic() < deadline, "nobody noticed"
        page.wait_for_timeout(20)
    seen.complaints.clear()


def test_a_viewer_sees_everything_and_finds_nothing_to_press(
    serve: Serve, full: Shop, open_page: Open
) -> None:
    running = serve(tokens=(Token(Role.VIEWER, "vera", "look-but-do-not-touch"),))
    who = {"username": "vera", "password": "look-but-do-not-touch"}
    seen = open_page(running.address, http_credentials=who)
    for path in ("/jobs?q=state%3ADEAD", "/jobs/receipt-1", "/queues", "/dead", "/resources"):
        page = seen.go(path)
        expect(page.locator("main")).not_to_contain_text("Loading…")
        for word in ("Retry", "Cancel", "Delete", "Pause", "Change"):
            expect(page.locator("main").get_by_role("button", name=word)).to_have_count(0)


def test_whoever_is_logged_out_signs_in_with_a_token(serve: Serve, full: Shop, open_page: Open) -> None:
    running = serve(tokens=(Token(Role.OPERATOR, "otto", "a long enough secret"),))
    who = {"username": "otto", "password": "a long enough secret"}
    seen = open_page(running.address, http_credentials=who)
    page = seen.go("/queues")
    page.route("**/api/queues", lambda route: route.fulfill(status=401, json={"title": "Sign in"}))
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Jobs").click()
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Queues").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in to Holdfast")
    page.get_by_label("Token").fill("not the secret")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("not known here")
    page.unroute("**/api/queues")
    page.get_by_label("Token").fill("a long enough secret")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("row", name="pictures")).to_be_visible()
    assert all("401" in each for each in seen.complaints)
    seen.complaints.clear()
