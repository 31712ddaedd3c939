"""POST .../messages and .../messages/count_tokens."""

from __future__ import annotations

import time

import msgspec

from node.api.body import read_object
from node.api.messages_reply import MessageReply
from node.api.messages_request import MessagesRequest, parse
from node.api.served import Served
from node.http.message import Request, Response, StreamResponse


class Messages:
    """The Anthropic Messages API on the served model."""

    def __init__(self, served: Served) -> None:
        self._served = served

    async def create(self, request: Request) -> Response | StreamResponse:
        asked, ignored = await self._read(request, counting=False)
        prompt = await self._served.prompt(asked.conversation)
        assert asked.max_tokens is not None
        answer = self._served.answer(
            request.id, prompt, asked.max_tokens, asked.sampling, asked.stop_sequences
        )
        try:
            reply = MessageReply(answer, asked.model, request.id)
            if not asked.stream:
                return Response(200, await reply.whole(), ignored)
            # Until the first token exists a failure is a plain HTTP error, and ttft can be told in the head.
            first = await answer.next(self._served.patience)
        except BaseException:
            answer.close()
            raise
        waited = (time.monotonic() - request.arrived) * 1000
        timing = (("ttft", waited),) if first is not None else ()
        return StreamResponse(reply.stream(first), headers=ignored, timing=timing)

    async def count_tokens(self, request: Request) -> Response:
        asked, ignored = await self._read(request, counting=True)
        prompt = await self._served.prompt(asked.conversation)
        return Response(200, msgspec.json.encode({"input_tokens": len(prompt.ids)}), ignored)

    async def _read(
        self, request: Request, *, counting: bool
    ) -> tuple[MessagesRequest, tuple[tuple[str, str], ...]]:
        """The typed request, and the header that names its ignored fields."""
        self._served.authenticate(request)
        body = read_object(await request.body(), request.headers.get("content-type"))
        asked, ignored = parse(body, counting=counting)
        self._served.require(asked.model)
        return asked, (("b3os-ignored", ", ".join(ignored)),) if ignored else ()
