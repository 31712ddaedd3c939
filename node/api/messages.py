"""POST .../messages and .../messages/count_tokens."""

from __future__ import annotations

import time

import msgspec

from node.api.body import read_object
from node.api.content import ContentWriter
from node.api.messages_reply import MessageFrames, MessageReply
from node.api.messages_request import MessagesRequest, parse
from node.api.model_service import ModelService
from node.api.wish import HEAVY, Wish
from node.http.message import Request, Response, StreamResponse


class Messages:
    """The Anthropic Messages API on the served model."""

    def __init__(self, service: ModelService) -> None:
        self._service = service

    async def create(self, request: Request) -> Response | StreamResponse:
        organization = self._service.authenticate(request)
        asked, wish = await self._read(request, counting=False)
        answer = await self._service.answer(request.id, organization, wish)
        try:
            reply = MessageReply(answer, asked.model, request.id, ContentWriter(asked.thinking.shown))
            if not asked.scalars.stream:
                return Response(200, await reply.whole(), _ignored(asked))
            # Until the first token exists a failure is a plain HTTP error, and ttft can be told in the head.
            first = await answer.next(max(0.0, request.arrived + self._service.patience - time.monotonic()))
        except BaseException:
            answer.close()
            raise
        waited = (time.monotonic() - request.arrived) * 1000
        timing = (("ttft", waited),) if first is not None else ()
        return StreamResponse(MessageFrames(reply, first), headers=_ignored(asked), timing=timing)

    async def count_tokens(self, request: Request) -> Response:
        self._service.authenticate(request)
        asked, wish = await self._read(request, counting=True)
        prompt = await self._service.prompt(wish)
        await self._service.constraint(wish, prompt)  # counting refuses what creating would refuse
        return Response(200, msgspec.json.encode({"input_tokens": len(prompt.ids)}), _ignored(asked))

    async def _read(self, request: Request, *, counting: bool) -> tuple[MessagesRequest, Wish]:
        service, body = self._service, await request.body()
        heavy, media_type = len(body) > HEAVY, request.headers.get("content-type")
        asked = await service.work(heavy, lambda: parse(read_object(body, media_type), counting=counting))
        service.require(asked.model)
        if asked.thinking.on and not service.chat.thinks:
            asked.ignored.append("thinking")
        return asked, await service.work(heavy, asked.wish, len(body))


def _ignored(asked: MessagesRequest) -> tuple[tuple[str, str], ...]:
    """The header that names the fields that were accepted and ignored."""
    return (("b3os-ignored", ", ".join(asked.ignored)),) if asked.ignored else ()
