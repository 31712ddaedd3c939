"""POST .../messages and .../messages/count_tokens."""

from __future__ import annotations

import time

import msgspec

from node.api.body import read_object
from node.api.content import ContentWriter
from node.api.messages_reply import MessageFrames, MessageReply
from node.api.messages_request import MessagesRequest, parse
from node.api.served import Served
from node.http.message import Request, Response, StreamResponse


class Messages:
    """The Anthropic Messages API on the served model."""

    def __init__(self, served: Served) -> None:
        self._served = served

    async def create(self, request: Request) -> Response | StreamResponse:
        asked = await self._read(request, counting=False)
        answer = await self._served.answer(request.id, asked.wish())
        try:
            reply = MessageReply(answer, asked.model, request.id, ContentWriter(asked.thinking.shown))
            if not asked.scalars.stream:
                return Response(200, await reply.whole(), _ignored(asked))
            # Until the first token exists a failure is a plain HTTP error, and ttft can be told in the head.
            first = await answer.next(self._served.patience)
        except BaseException:
            answer.close()
            raise
        waited = (time.monotonic() - request.arrived) * 1000
        timing = (("ttft", waited),) if first is not None else ()
        return StreamResponse(MessageFrames(reply, first), headers=_ignored(asked), timing=timing)

    async def count_tokens(self, request: Request) -> Response:
        asked = await self._read(request, counting=True)
        wish = asked.wish()
        prompt = await self._served.prompt(wish)
        await self._served.constraint(wish, prompt)  # counting refuses what creating would refuse
        return Response(200, msgspec.json.encode({"input_tokens": len(prompt.ids)}), _ignored(asked))

    async def _read(self, request: Request, *, counting: bool) -> MessagesRequest:
        self._served.authenticate(request)
        body = read_object(await request.body(), request.headers.get("content-type"))
        asked = parse(body, counting=counting)
        self._served.require(asked.model)
        if asked.thinking.on and not self._served.chat.thinks:
            asked.ignored.append("thinking")
        return asked


def _ignored(asked: MessagesRequest) -> tuple[tuple[str, str], ...]:
    """The header that names the fields that were accepted and ignored."""
    return (("b3os-ignored", ", ".join(asked.ignored)),) if asked.ignored else ()
