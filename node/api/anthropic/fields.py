"""What the node does with every field of a Messages request: the tables that all else reads."""

from __future__ import annotations

from node.api.fields import NO_EXTRA, FieldTables, ignored, refused, yes

NO_SERVER_TOOLS = "this node runs custom tools only"

CACHE_CONTROL = ignored("prefixes are reused without being asked to")
CITATIONS = ignored()

TABLES: FieldTables = {
    "request": {
        "model": yes("the exact id; no other name maps to it"),
        "messages": yes("the first is the user's; neighbours of one role are joined"),
        "max_tokens": yes("clamped to the remaining context; 0 runs the prompt and says nothing"),
        "system": yes("text, or text parts joined by a newline"),
        "stream": yes(),
        "stop_sequences": yes("at most 16 of 256 characters; matched in text only"),
        "temperature": yes("0 to 2, 1 where absent; 0 takes the likeliest token"),
        "top_p": yes("0 to 1; 0 takes the likeliest token"),
        "top_k": yes("0 or absent: off"),
        "seed": yes("an extension: 64 bits, repeats an answer"),
        "tools": yes("custom tools"),
        "tool_choice": yes("auto, any, none, tool; enforced while decoding"),
        "thinking": yes("enabled with a budget, adaptive, disabled"),
        "output_config": yes("format; effort and task_budget are ignored"),
        "output_format": yes("the older name of output_config.format"),
        "metadata": ignored(),
        "service_tier": ignored("there is one tier"),
        "cache_control": CACHE_CONTROL,
        "context_management": ignored("nothing is cleared from a conversation"),
        "diagnostics": ignored(),
        "anthropic_version": ignored(),
        "anthropic_beta": ignored(),
        "inference_geo": refused("this node cannot promise where it runs"),
        "speed": refused("this node has one speed, standard", "standard"),
        "container": refused(NO_SERVER_TOOLS),
        "mcp_servers": refused(NO_SERVER_TOOLS, []),
        "fallbacks": refused(NO_EXTRA, []),
        "fallback": refused(NO_EXTRA, []),
        "fallback_credit_token": refused(),
        "compaction": refused(),
        "thread": refused("this node keeps no conversations"),
        "billing_policy": refused(),
        "chat_template_kwargs": refused("thinking is the switch"),
        "min_p": yes("an extension, as are the three below"),
        "presence_penalty": yes("-2 to 2"),
        "frequency_penalty": yes("-2 to 2"),
        "repetition_penalty": yes("0.1 to 2; of the prompt too"),
    },
    "message": {"role": yes("user or assistant"), "content": yes("text or parts")},
    "text": {"type": yes(), "text": yes(), "cache_control": CACHE_CONTROL, "citations": CITATIONS},
    "thinking": {
        "type": yes(),
        "thinking": yes("goes back to the model as the reasoning of its turn"),
        "signature": yes("any, or none"),
        "cache_control": CACHE_CONTROL,
    },
    "redacted_thinking": {"type": yes(), "data": ignored("opaque to this node: left out of the prompt")},
    "tool_use": {
        "type": yes(),
        "id": yes("any text of up to 256 characters"),
        "name": yes(),
        "input": yes("an object"),
        "cache_control": CACHE_CONTROL,
        "caller": refused(NO_SERVER_TOOLS, {"type": "direct"}),
        "toolset_name": refused(NO_SERVER_TOOLS),
    },
    "tool_result": {
        "type": yes(),
        "tool_use_id": yes("of a call in the assistant's message before"),
        "content": yes("text, or parts of text, documents and search results"),
        "is_error": yes("the text is then led by `Error: `"),
        "cache_control": CACHE_CONTROL,
        "toolset_name": refused(NO_SERVER_TOOLS),
    },
    "tool_reference": {"type": yes(), "tool_name": yes("read as text"), "cache_control": CACHE_CONTROL},
    "document": {
        "type": yes(),
        "source": yes("text, or content of text parts; PDF, URL and file are refused"),
        "title": yes(),
        "context": yes(),
        "cache_control": CACHE_CONTROL,
        "citations": CITATIONS,
    },
    "source": {"type": yes(), "media_type": ignored(), "data": yes(), "content": yes()},
    "search_result": {
        "type": yes(),
        "source": yes(),
        "title": yes(),
        "content": yes("text parts"),
        "cache_control": CACHE_CONTROL,
        "citations": CITATIONS,
    },
    "tool": {
        "type": yes("custom or absent"),
        "name": yes("letters, digits, _ and -, up to 128; unique"),
        "description": yes(),
        "input_schema": yes("any JSON schema of an object"),
        "strict": yes("arguments always fit the schema"),
        "cache_control": CACHE_CONTROL,
        "eager_input_streaming": ignored("arguments always stream as they are written"),
        "defer_loading": ignored("every tool is in the prompt"),
        "input_examples": ignored(),
        "allowed_callers": refused(NO_SERVER_TOOLS, ["direct"], []),
    },
    "tool_choice": {
        "type": yes(),
        "name": yes(),
        "disable_parallel_tool_use": yes("the first call ends the turn"),
    },
    "thinking_config": {
        "type": yes("enabled, adaptive, disabled"),
        "budget_tokens": yes("of enabled: at least 1024 and below max_tokens"),
        "display": yes("omitted keeps the thinking back; other values change nothing"),
        "block_binding": ignored(),
    },
    "output_config": {
        "effort": ignored(),
        "task_budget": ignored(),
        "format": yes("json_schema; always kept to"),
    },
    "output_format": {"type": yes("json_schema"), "schema": yes(), "name": ignored()},
}

# What the errors of refused fields hold beside their words, by path. The SDKs' tool runner asks for a thread first;
# told so, it sends the whole conversation with every turn instead.
REFUSAL_DETAILS = {"thread": {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}}
