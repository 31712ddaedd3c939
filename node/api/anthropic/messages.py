"""POST .../messages and .../messages/count_tokens."""

from __future__ import annotations

import time

import msgspec

from node.api.anthropic.content import ContentWriter
from node.api.anthropic.messages_reply import MessageFrames, MessageReply
from node.api.anthropic.messages_request import MessagesRequest, parse
from node.api.body import read_object
from node.api.generation_request import HEAVY, GenerationRequest
from node.api.model_service import ModelService
from node.http.message import Request, Response, StreamResponse


class Messages:
    """The Anthropic Messages API on the served model."""

    def __init__(self, service: ModelService) -> None:
        self._service = service

    async def create(self, request: Request) -> Response | StreamResponse:
        organization = self._service.authenticate(request)
        parsed, asked = await self._read(request, counting=False)
        answer = await self._service.answer(request.id, organization, asked)
        try:
            reply = MessageReply(answer, parsed.model, request.id, ContentWriter(parsed.thinking.shown))
            if not parsed.scalars.stream:
                return Response(200, await reply.whole(), _ignored(parsed))
            # Until the first token exists a failure is a plain HTTP error, and ttft can be told in the head.
            first = await answer.next(
                max(0.0, request.arrived + self._service.first_token_timeout - time.monotonic())
            )
        except BaseException:
            answer.close()
            raise
        waited = (time.monotonic() - request.arrived) * 1000
        timing = (("ttft", waited),) if first is not None else ()
        return StreamResponse(MessageFrames(reply, first), headers=_ignored(parsed), timing=timing)

    async def count_tokens(self, request: Request) -> Response:
        self._service.authenticate(request)
        parsed, asked = await self._read(request, counting=True)
        prompt = await self._service.prompt(asked)
        await self._service.constraint(asked, prompt)  # counting refuses what creating would refuse
        return Response(200, msgspec.json.encode({"input_tokens": len(prompt.ids)}), _ignored(parsed))

    async def _read(self, request: Request, *, counting: bool) -> tuple[MessagesRequest, GenerationRequest]:
        service, body = self._service, await request.body()
        heavy, media_type = len(body) > HEAVY, request.headers.get("content-type")
        parsed = await service.work(heavy, lambda: parse(read_object(body, media_type), counting=counting))
        service.require(parsed.model)
        if parsed.thinking.on and not service.chat.thinks:
            parsed.ignored.append("thinking")
        return parsed, await service.work(heavy, parsed.generation_request, len(body))


def _ignored(parsed: MessagesRequest) -> tuple[tuple[str, str], ...]:
    """The header that names the fields that were accepted and ignored."""
    return (("b3os-ignored", ", ".join(parsed.ignored)),) if parsed.ignored else ()
