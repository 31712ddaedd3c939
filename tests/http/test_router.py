import time

import pytest

from node.http import Fault, Request, Response, Router


def handler(request: Request) -> Response:
    return Response(200)


def other(request: Request) -> Response:
    return Response(201)


@pytest.fixture
def router() -> Router:
    router = Router()
    router.add("GET", "/v1/models", handler)
    router.add("GET", "/v1/models/{id}", handler)
    router.add("POST", "/v1/models/{id}", other)
    router.add("GET", "/v1/models/default", other)
    router.add("POST", "/v1/messages", handler)
    return router


def test_literal_path_has_no_parameters(router: Router) -> None:
    assert router.match("GET", "/v1/models") == (handler, {})


def test_encoded_slash_stays_in_its_segment_and_is_decoded(router: Router) -> None:
    assert router.match("GET", "/v1/models/b3os%2Fqwen3.5-9b") == (handler, {"id": "b3os/qwen3.5-9b"})


def test_methods_of_one_pattern_have_their_own_handlers(router: Router) -> None:
    assert router.match("POST", "/v1/models/a") == (other, {"id": "a"})


def test_literal_wins_over_parameter(router: Router) -> None:
    assert router.match("GET", "/v1/models/default") == (other, {})


@pytest.mark.parametrize(
    "path", ["/", "", "*", "/v1/models/", "/v1/models/a/b", "/v1/Models", "/v1//models", "x"]
)
def test_unknown_path_is_not_found(router: Router, path: str) -> None:
    with pytest.raises(Fault) as raised:
        router.match("GET", path)
    assert (raised.value.kind, raised.value.status) == ("not_found", 404)


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ("/v1/message", "/v1/messages"),
        ("/api/v1/messages", "/v1/messages"),
        ("/v1/model/qwen", "/v1/models"),
        ("/v1/models/qwen/id", "/v1/models/{id}"),
        ("/favicon.ico", None),
        ("/v1/messages" + "/messages" * 9, None),
        ("/" + "v1/messages" * 5000, None),
    ],
)
def test_unknown_path_comes_with_the_nearest_route(router: Router, path: str, nearest: str | None) -> None:
    with pytest.raises(Fault) as raised:
        router.match("POST", path)
    assert raised.value.nearest == nearest


def test_looking_for_the_nearest_route_costs_no_more_for_a_longer_path(router: Router) -> None:
    def seconds(path: str) -> float:
        begun = time.process_time()
        for _ in range(20):
            with pytest.raises(Fault):
                router.match("POST", path)
        return time.process_time() - begun

    assert seconds("/v1/messages" * 5000) < 4 * seconds("/v1/mesages" * 8) + 0.02


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", "/v1/models", ("GET", "HEAD")),
        ("OPTIONS", "/v1/messages", ("POST",)),
        ("HEAD", "/v1/messages", ("POST",)),
        ("PUT", "/v1/models/a", ("GET", "HEAD", "POST")),
        ("get", "/v1/models", ("GET", "HEAD")),
    ],
)
def test_wrong_method_names_the_allowed_ones(
    router: Router, method: str, path: str, allow: tuple[str, ...]
) -> None:
    with pytest.raises(Fault) as raised:
        router.match(method, path)
    assert (raised.value.kind, raised.value.allow) == ("method_not_allowed", allow)
    assert raised.value.headers == (("allow", ", ".join(allow)),)


def test_head_falls_back_to_get(router: Router) -> None:
    assert router.match("HEAD", "/v1/models") == (handler, {})


def test_a_route_is_added_once(router: Router) -> None:
    with pytest.raises(ValueError, match="has a handler already"):
        router.add("GET", "/v1/models/{id}", other)
