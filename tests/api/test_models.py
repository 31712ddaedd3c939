"""The list of models, which the SDKs of both dialects read from one body."""

import http.client

import openai
import pytest

from tests.node_under_test import KEY, MODEL, RunningNode, running_node

BODY = (
    b'{"id":"b3os/scripted","object":"model","type":"model","display_name":"scripted","created":1790000000,'
    b'"created_at":"2026-09-21T14:13:20Z","owned_by":"b3os","lifecycle":"active","max_input_tokens":2048,'
    b'"max_tokens":2048,"capabilities":null,"b3os":{"kind":"chat","context_length":2048}}'
)


@pytest.fixture(scope="module")
def node():
    with running_node() as node:
        yield node


def get(node: RunningNode, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=10)
    connection.request("GET", path, headers={"authorization": f"Bearer {KEY}"})
    body = connection.getresponse().read()
    connection.close()
    return body


def test_a_model_is_both_dialects_fields_in_one_order(node: RunningNode) -> None:
    assert get(node, f"/v1/models/{MODEL}") == BODY
    assert get(node, "/v1/models") == (
        b'{"object":"list","data":['
        + BODY
        + b'],"first_id":"b3os/scripted","last_id":"b3os/scripted","has_more":false}'
    )


def test_openais_sdk_lists_and_retrieves(node: RunningNode) -> None:
    sdk = openai.OpenAI(base_url=node.base_url, api_key=KEY, max_retries=0, _strict_response_validation=True)
    listed = list(sdk.models.list())
    assert [(model.id, model.object, model.owned_by) for model in listed] == [(MODEL, "model", "b3os")]
    assert sdk.models.retrieve(MODEL) == listed[0]
    with pytest.raises(openai.NotFoundError):
        sdk.models.retrieve("b3os/other")
