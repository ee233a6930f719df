"""Who may come in, and what they may do."""

from __future__ import annotations

import ast
import base64
import inspect
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Mount, Route

from holdfast.errors import InvalidArgument
from holdfast.web import credentials, pages
from holdfast.web.app import create_app
from holdfast.web.credentials import GUESSES, Credentials
from holdfast.web.settings import Role, WebSettings, read_tokens
from tests.console.conftest import Shop
from tests.web.conftest import ADMIN, OPERATOR, SECRETS, TOKENS, VIEWER, Serve

ELSEWHERE = "0.0.0.0"  # noqa: S104


@pytest.fixture
def dist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dashboard that was built."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><title>the dashboard</title>")
    (tmp_path / "assets" / "index-4711.js").write_text("export {}")
    monkeypatch.setattr(pages, "DIST", tmp_path)
    return tmp_path


def every_route(routes: list[BaseRoute]) -> Iterator[tuple[str, str]]:
    """Every method and address the app knows, pages included."""
    for route in routes:
        if isinstance(route, Mount):
            yield from (("GET", path) for path in ("/", "/index.html", "/assets/index-4711.js", "/jobs/7"))
        elif isinstance(route, Route):
            path = route.path_format if isinstance(route, APIRoute) else route.path
            for name in route.param_convertors:
                path = path.replace(f"{{{name}}}", "x")
            yield from ((method, path) for method in sorted(route.methods or ()))
        elif (included := getattr(route, "original_router", None)) is not None:
            yield from every_route(included.routes)
        else:
            raise AssertionError(f"what is {route!r}, and who may use it?")


STRANGERS: list[dict[str, str]] = [
    {},
    {"Authorization": "Bearer wrong-wrong-wrong"},
    {"Cookie": "holdfast_session=a.9.b"},
]


def test_off_loopback_nothing_but_livez_is_open(serve: Serve, dist: Path) -> None:
    running = serve(host=ELSEWHERE, tokens=TOKENS)
    routes = list(every_route(running.app.routes))
    assert ("POST", "/api/jobs") in routes
    assert ("GET", "/assets/index-4711.js") in routes
    assert ("GET", "/openapi.json") in routes
    assert ("GET", "/api/events") in routes
    assert len(routes) > 25
    with httpx.Client(base_url=running.local) as web:
        for method, path in [*routes, ("GET", "/nowhere"), ("PUT", "/api/nowhere"), ("TRACE", "/")]:
            body: dict[str, str] | None = {} if method in ("POST", "PUT") else None
            for headers in STRANGERS:
                answer = web.request(method, path, headers=headers, json=body)
                if (method, path) == ("POST", "/api/login"):
                    assert answer.status_code == 422
                elif path == "/livez":
                    assert answer.status_code in (200, 405)
                else:
                    assert answer.status_code in (401, 429), (method, path, headers)
                    assert method == "HEAD" or answer.json()["status"] == answer.status_code


def test_each_role_may_do_what_it_may_and_no_more(serve: Serve, shop: Shop) -> None:
    allowed = {
        ("GET", "/api/jobs"): Role.VIEWER,
        ("GET", "/api/doctor"): Role.VIEWER,
        ("GET", "/metrics"): Role.VIEWER,
        ("POST", "/api/jobs"): Role.OPERATOR,
        ("POST", "/api/jobs/batch"): Role.OPERATOR,
        ("POST", "/api/jobs/x/cancel"): Role.OPERATOR,
        ("POST", "/api/jobs/x/revive"): Role.OPERATOR,
        ("POST", "/api/bulk"): Role.OPERATOR,
        ("POST", "/api/bulk/x/stop"): Role.OPERATOR,
        ("POST", "/api/queues/x/pause"): Role.OPERATOR,
        ("POST", "/api/queues/x/resume"): Role.OPERATOR,
        ("POST", "/api/streams"): Role.OPERATOR,
        ("POST", "/api/streams/x/beat"): Role.OPERATOR,
        ("POST", "/api/streams/x/ack"): Role.OPERATOR,
        ("POST", "/api/streams/x/settle"): Role.OPERATOR,
        ("POST", "/api/streams/x/drain"): Role.OPERATOR,
        ("POST", "/api/jobs/settle"): Role.OPERATOR,
        ("POST", "/api/jobs/extend"): Role.OPERATOR,
        ("DELETE", "/api/jobs/x"): Role.ADMIN,
        ("PUT", "/api/resources/x"): Role.ADMIN,
        ("PUT", "/api/queues/x/limit"): Role.ADMIN,
    }
    running = serve(tokens=TOKENS)
    unsafe = {each for each in every_route(running.app.routes) if each[0] not in ("GET", "HEAD")}
    assert unsafe - set(allowed) == {("POST", "/api/login"), ("POST", "/api/logout")}
    with httpx.Client(base_url=running.address) as web:
        for (method, path), least in allowed.items():
            for role, headers in zip(Role, (VIEWER, OPERATOR, ADMIN), strict=True):
                body: dict[str, str] | None = {} if method in ("POST", "PUT") else None
                answer = web.request(method, path, headers=headers, json=body)
                assert (answer.status_code == 403) == (role < least), (method, path, role, answer.text)
        bulk = {"action": "delete", "q": "state:DEAD"}
        assert web.post("/api/bulk", headers=OPERATOR, json=bulk).status_code == 403
        assert web.post("/api/bulk", headers=ADMIN, json=bulk).status_code == 200


def test_a_token_is_shown_in_three_ways(serve: Serve) -> None:
    with httpx.Client(base_url=serve(tokens=TOKENS).address) as web:
        assert web.get("/api/me", headers=VIEWER).json()["name"] == "viewer-name"
        name_and_secret = ("operator-name", SECRETS["operator"])
        assert web.get("/api/me", auth=name_and_secret).json()["role"] == "operator"
        assert web.get("/api/me", auth=("admin-name", SECRETS["operator"])).status_code == 401
        answer = web.post("/api/login", json={"token": SECRETS["admin"]})
        assert answer.json()["role"] == "admin"
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert SECRETS["admin"] not in cookie
        assert web.get("/api/me").json()["name"] == "admin-name"
        web.post("/api/logout")
        assert web.get("/api/me").status_code == 401
        assert web.post("/api/login", json={"token": "nobody-knows-it"}).status_code == 401


def test_a_cookie_ends_with_its_time_with_its_token_and_with_any_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (token,) = read_tokens(["operator:ada:correct-horse"])
    known = Credentials((token,))
    cookie = known.cookie_for(token)

    def who(value: str, among: Credentials = known) -> str:
        from starlette.datastructures import Headers

        return among.of_request(Headers({"cookie": f"{credentials.COOKIE}={value}"}), "here").name

    assert who(cookie) == "ada"
    name, until, seal = cookie.split(".")
    for changed in (
        f"{name}.{int(until) + 1}.{seal}",
        f"{name}.x.{seal}",
        f"{name}.{until}.",
        "",
        "..",
        "a.b.c.d",
    ):
        with pytest.raises(Exception, match=r"session has ended|Say who you are"):
            who(changed)
    other = Credentials(read_tokens(["operator:ada:another-horse"]))
    with pytest.raises(Exception, match="session has ended"):
        who(cookie, other)
    monkeypatch.setattr("time.time", lambda: int(until) + 1.0)
    with pytest.raises(Exception, match="session has ended"):
        who(cookie)


def test_whoever_guesses_too_often_has_to_wait(serve: Serve) -> None:
    with httpx.Client(base_url=serve(tokens=TOKENS).address) as web:
        guesses = [
            web.get("/api/me", headers={"Authorization": f"Bearer guess-number-{number}"}).status_code
            for number in range(GUESSES + 2)
        ]
        assert guesses == [401] * GUESSES + [429] * 2
        limited = web.post("/api/login", json={"token": SECRETS["admin"]})
        assert limited.status_code == 429
        assert int(limited.headers["retry-after"]) > 0


def test_a_server_that_others_reach_does_not_start_without_a_token() -> None:
    for host in (ELSEWHERE, "::", "192.168.1.5", "example.com"):
        with pytest.raises(InvalidArgument, match="HOLDFAST_WEB_PASSWORD"):
            WebSettings(host=host)
        WebSettings(host=host, tokens=TOKENS)
    for host in ("127.0.0.1", "127.8.0.1", "::1", "localhost"):
        WebSettings(host=host)


@pytest.mark.parametrize(
    "word",
    ["admin", "admin:ada", "king:ada:long-enough-secret", "admin::long-enough-secret", "admin:ada:short"],
)
def test_a_token_that_cannot_be_is_refused_and_not_shown(word: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        read_tokens([word])
    assert "long-enough-secret" not in str(refused.value)
    assert "short" not in str(refused.value)
    assert "secret-4711" not in repr(WebSettings(tokens=TOKENS, dsn="postgresql://u:secret-4711@h/d"))


def test_behind_a_proxy_the_server_does_not_start_without_a_token() -> None:
    with pytest.raises(InvalidArgument, match=r"jobs\.example\.com.*HOLDFAST_WEB_PASSWORD"):
        WebSettings(allow_hosts=("localhost", "jobs.example.com"))
    assert WebSettings(allow_hosts=("localhost",)).is_open


def test_two_tokens_cannot_have_one_name() -> None:
    with pytest.raises(InvalidArgument, match="ada"):
        WebSettings(tokens=read_tokens(["admin:ada:secret-number-1", "viewer:ada:secret-number-2"]))


def test_on_loopback_the_server_goes_by_no_other_name(serve: Serve) -> None:
    running = serve(allow_hosts=("jobs.example.com",), tokens=TOKENS)
    port = running.address.rpartition(":")[2]
    with httpx.Client(
        base_url=running.address, headers={"Authorization": f"Bearer {SECRETS['admin']}"}
    ) as web:
        for host in (
            "localhost",
            f"LOCALHOST:{port}",
            "127.0.0.1",
            "[::1]:80",
            "jobs.example.com",
            "localhost.",
        ):
            assert web.get("/api/me", headers={"Host": host}).status_code == 200, host
        for host in (
            "evil.example",
            "127.0.0.1.evil.example",
            "",
            "a@localhost",
            "localhost:x",
            "xn--localhost",
        ):
            answer = web.get("/api/me", headers={"Host": host})
            assert answer.status_code == 403, host
            assert "--allow-host" in answer.json()["detail"]
        assert web.get("/livez", headers={"Host": "evil.example"}).status_code == 200


CROSS = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "https://127.0.0.1"},
    {"Origin": "file://"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "HERE"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
]


def test_no_page_of_another_site_changes_anything(serve: Serve) -> None:
    running = serve()
    with httpx.Client(base_url=running.address) as web:
        for method, path in every_route(running.app.routes):
            if method in ("GET", "HEAD"):
                continue
            for headers in CROSS:
                sent = {name: value.replace("HERE", running.address) for name, value in headers.items()}
                answer = web.request(method, path, headers=sent, json={})
                assert answer.status_code == 403, (method, path, headers)
                assert answer.json()["title"] == "Another site"
        for fine in (
            {},
            {"Origin": running.address},
            {"Sec-Fetch-Site": "same-origin"},
            {"Sec-Fetch-Site": "none"},
        ):
            assert web.post("/api/queues/x/pause", headers=fine).status_code == 200


def test_a_browser_without_credentials_is_asked_for_them_in_words(serve: Serve) -> None:
    with httpx.Client(base_url=serve(tokens=TOKENS).address) as web:
        answer = web.get("/", headers={"Accept": "text/html,*/*"})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Basic")
        assert "sign in" in answer.text
        # A page that asks in the background shows its own way in.
        assert web.get("/api/me").headers["www-authenticate"].startswith("Bearer")


def test_every_answer_tells_the_browser_to_run_nothing_of_others(serve: Serve, dist: Path) -> None:
    with httpx.Client(base_url=serve().address) as web:
        for path in (
            "/",
            "/assets/index-4711.js",
            "/api/me",
            "/api/nothing",
            "/livez",
            "/openapi.json",
            "/%ff",
        ):
            headers = web.get(path).headers
            policy = headers["content-security-policy"]
            assert policy.startswith(
                "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:"
            )
            assert "unsafe" not in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert "server" not in headers
            if path.startswith("/api"):
                assert headers["cache-control"] == "no-store"
        assert "immutable" in web.get("/assets/index-4711.js").headers["cache-control"]
        assert web.get("/jobs/a%2Fb").text == web.get("/").text
        assert web.get("/assets/other.js").status_code == 404
        assert web.get("/api/queues/x/pause").status_code == 405
        assert (
            "access-control-allow-origin"
            not in web.get("/api/me", headers={"Origin": "https://evil"}).headers
        )


def test_secrets_are_compared_in_constant_time() -> None:
    tree = ast.parse(inspect.getsource(credentials))
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
            assert not {"secret", "seal"} & {
                name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")
                for name in ast.walk(node)
                if isinstance(name, ast.Attribute | ast.Name)
            }, ast.unparse(node)


def test_basic_credentials_that_cannot_be_read_are_refused(serve: Serve) -> None:
    with httpx.Client(base_url=serve(tokens=TOKENS).address) as web:
        unreadable = base64.b64encode(b"\xff:\xff").decode()
        for given in ("Basic", "Basic !!!", f"Basic {unreadable}", "Digest x", "Bearer"):
            assert web.get("/api/me", headers={"Authorization": given}).status_code == 401, given


def test_the_app_has_no_page_that_loads_scripts_from_elsewhere() -> None:
    paths = {path for _, path in every_route(create_app(WebSettings()).routes)}
    assert not {"/docs", "/redoc", "/docs/oauth2-redirect"} & paths
