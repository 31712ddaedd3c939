"""What the operator decides. docs/settings.md is made from this table: `python -m node.settings_page > FILE`."""
# ruff: noqa: RUF009  (`setting` only makes fields)

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from node.setting import Auto, Group, PerDevice, Setting, Unset, per_device
from node.values import at_least, choice, origins, port, seconds, share, size_between, some_seconds, switch

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

P = TypeVar("P", bound="DataclassInstance")
DEFAULT_CONTEXT = 32_768  # tokens; less where the model's own maximum is


class SettingsError(Exception):
    """Something the operator wrote cannot be used. The message names it and says where it stands."""


def setting(
    group: Group,
    default: str | Unset,
    parse: Callable[[str], Any],
    help: str,
    reason: str,
    was: str = "",
) -> Any:
    """A field of Settings; as node.setting.Setting, whose name is the field's."""
    value = default.value if isinstance(default, Unset) else parse(default)
    about = {"group": group, "default": default, "parse": parse, "help": help, "reason": reason, "was": was}
    return field(default=value, metadata=about)


@dataclass(frozen=True, slots=True)
class Settings:
    """Each is a flag (`--served-name`), a variable (`B3OS_NODE_SERVED_NAME`), a TOML key (`served_name`)."""

    model: Path = setting(
        Group.MODEL,
        "weights/demo",
        Path,
        "folder of the checkpoint",
        "every clone has the demo model, so that a first start downloads nothing",
    )
    served_name: str = setting(
        Group.MODEL,
        Unset("", "b3os/ and the folder's name"),
        str,
        "what requests call the model",
        "the folder says which model it is",
    )
    device: str = setting(
        Group.MODEL,
        Auto("", "cuda where there is one, else cpu"),
        choice("cpu", "cuda"),
        "cpu or cuda",
        "a GPU that is there is meant to be used",
    )
    dtype: str = setting(
        Group.MODEL,
        "bfloat16",
        choice("bfloat16", "float32"),
        "type of weights and KV: bfloat16 or float32",
        "checkpoints are published in it, and it is half of float32",
    )
    context: int = setting(
        Group.MODEL,
        Auto(0, f"{DEFAULT_CONTEXT}, or the model's maximum where that is less"),
        at_least(1),
        "tokens of prompt and output",
        "a card of 24 GiB holds the 9B and one such context whole",
    )

    host: str = setting(
        Group.LISTENING,
        "127.0.0.1",
        str,
        "address to listen on",
        "a node that nobody configured is reachable from its own machine alone",
    )
    port: int = setting(
        Group.LISTENING,
        "8080",
        port,
        "port to listen on; 0 takes a free one",
        "the usual port of HTTP that needs no privileges",
    )
    api_key: str | None = setting(
        Group.LISTENING,
        Unset(None, "one is made at the first start"),
        str,
        "the key that opens the node",
        "no node is open to everybody, and a first start needs no configuration",
    )
    cors_origins: tuple[str, ...] = setting(
        Group.LISTENING,
        Unset((), "none"),
        origins,
        "origins whose pages may ask from a browser, separated by commas, or * for all",
        "a page can be read by whoever opens it, and so can the key that it sends",
    )

    device_memory: int = setting(
        Group.MEMORY,
        Auto(0, "what is free on cuda, half of what is free on cpu"),
        size_between("1"),
        "memory that the node may use, such as 24GiB",
        "a GPU is the node's, but the memory around a CPU has other uses",
    )
    memory_utilization: float = setting(
        Group.MEMORY,
        "0.92",
        share,
        "share of that memory that is planned for",
        "the rest is the driver's, the allocator's rounding and other processes'",
    )
    state_share: float = setting(
        Group.MEMORY,
        "0.25",
        share,
        "share that state slots may take of what weights and workspace leave",
        "beyond it slots would starve the pages they serve",
    )
    sequences_per_cached_state: int = setting(
        Group.MEMORY,
        "2",
        at_least(1),
        "running sequences for each slot that keeps a cached state",
        "a conversation keeps two, and half of those that could run are often at rest",
    )
    min_cached_states: int = setting(
        Group.MEMORY,
        "8",
        at_least(0),
        "cached states to keep slots for at least, where there is memory for them",
        "a few agents side by side, even where few sequences run at once",
    )
    state_writes: str = setting(
        Group.MEMORY,
        "each",
        choice("each", "eighth"),
        "each, or eighth: how often delta states are written; eighth moves less and holds more (of the 9B a tenth)",
        "the memory that eighth takes is paid at once, and what it saves shows with hundreds of sequences",
    )

    max_num_seqs: int | PerDevice = setting(
        Group.SCHEDULING,
        per_device(cuda=256, cpu=64),
        at_least(1),
        "sequences that run at once, as far as memory holds them",
        "steps are captured for up to 256 rows, larger ones run eagerly; on a CPU each row slows the others",
    )
    max_num_batched_tokens: int | PerDevice = setting(
        Group.SCHEDULING,
        per_device(cuda=8192, cpu=512),
        at_least(1),
        "prompt tokens that one step runs while nothing decodes",
        "reckoned, 150 ms of an H200 with the 9B, and most of a second of two cores with 0.5B parameters",
    )
    max_prefill_tokens_beside_decode: int | PerDevice = setting(
        Group.SCHEDULING,
        per_device(cuda=512, cpu=128),
        at_least(1),
        "prompt tokens that one step runs beside sequences that decode; never more than max_num_batched_tokens",
        "a long prompt should not stall the others: 10 ms of that H200, a fifth of a second of those cores",
    )
    max_partial_prefills_per_organization: int = setting(
        Group.SCHEDULING,
        "32",
        at_least(1),
        "prompts of one organization that are begun and not done",
        "more would only hold pages and rows",
    )

    queue_requests: int = setting(
        Group.QUEUE,
        "1024",
        at_least(0),
        "requests that may wait beside those that run; more are refused with 529",
        "four times what a GPU runs at once: who comes later would wait longer than clients do",
    )
    queue_tokens: int = setting(
        Group.QUEUE,
        "4_194_304",
        at_least(1),
        "tokens of all prompts that wait; more are refused with 529, but one prompt may always wait",
        "32 MiB of ids, and minutes of work for any one device",
    )
    queue_schema_bytes: int = setting(
        Group.QUEUE,
        "1MiB",
        size_between("1"),
        "bytes of requests whose schemas wait to be compiled; more are refused with 529, but one may always wait",
        "an ordinary tool takes 5 ms; the worst 90 kB that are let through take 0.7 s: some 8 s of them",
    )

    queue_timeout: float = setting(
        Group.TIMEOUTS,
        "120",
        seconds,
        "seconds that a request may wait for its first step; then it is answered 504",
        "most clients have given up or asked again by then, and their requests should cost no step",
        was="max_wait",
    )
    first_token_timeout: float = setting(
        Group.TIMEOUTS,
        "10",
        seconds,
        "seconds that a stream's head waits for the first token",
        "until then a failure is a plain HTTP error; later only pings help, for clients call 20 s of silence a stall",
        was="patience",
    )
    drain_timeout: float = setting(
        Group.TIMEOUTS,
        "45",
        seconds,
        "seconds that running requests have after SIGTERM",
        "orchestrators allow 60 at best",
    )
    unhealthy_timeout: float = setting(
        Group.TIMEOUTS,
        "30",
        some_seconds,
        "seconds without a step, while something waits for one, after which /health fails",
        "the longest honest step is a full prompt chunk on a slow CPU: a few seconds",
    )
    watchdog_timeout: float = setting(
        Group.TIMEOUTS,
        "90",
        some_seconds,
        "seconds without a step, while something waits for one, after which the process ends with its stacks",
        "a router has taken three failed probes of 30 s by then",
    )

    max_header: int = setting(
        Group.HTTP,
        "64KiB",
        size_between("1KiB", "128KiB"),  # node.http.line reads no further ahead
        "largest head of a request",
        "Claude Code's anthropic-beta header grows every release",
    )
    max_body: int = setting(
        Group.HTTP,
        "4MiB",
        size_between("1"),
        "largest body of a request",
        "four bytes a character of the longest context, with a margin for JSON",
    )
    header_timeout: float = setting(
        Group.HTTP,
        "10",
        some_seconds,
        "seconds from the first byte of a head to its last",
        "a head is a packet or two: who needs longer only holds a connection",
    )
    body_timeout: float = setting(
        Group.HTTP,
        "60",
        some_seconds,
        "seconds from when a body is asked for to its last byte",
        "4 MiB at 70 kB/s",
    )
    idle_timeout: float = setting(
        Group.HTTP,
        "120",
        some_seconds,
        "seconds that a connection may rest between requests",
        "longer than the 90 s for which proxies (Go's, hyper's) keep a connection in their pool",
    )
    send_timeout: float = setting(
        Group.HTTP,
        "60",
        some_seconds,
        "seconds that a full send buffer waits for a peer that does not read",
        "nginx's send_timeout",
    )
    linger_timeout: float = setting(
        Group.HTTP,
        "30",
        some_seconds,
        "seconds that a refused client has to finish sending and read the refusal",
        "nginx's lingering_time",
    )
    max_linger: int = setting(
        Group.HTTP,
        "64MiB",
        size_between("0"),
        "bytes that are dropped unread meanwhile",
        "a client that sends everything first still reads the refusal",
    )

    record: Path | None = setting(
        Group.DIAGNOSTICS,
        Unset(None, "nothing is recorded"),
        Path,
        "file to write every step and event to, for b3os-node simulate",
        "a recording grows with every step",
    )
    record_texts: bool = setting(
        Group.DIAGNOSTICS,
        "no",
        switch,
        "yes or no: whether ids of tokens are recorded too, in which prompts and answers can be read",
        "lengths and what is shared are enough to simulate, and what was said is nobody else's",
    )

    @property
    def name(self) -> str:
        return self.served_name or f"b3os/{self.model.resolve().name.lower()}"

    @property
    def deferred(self) -> bool:
        return self.state_writes == "eighth"

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the node."""
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return self.host == "localhost"

    def part(self, kind: type[P]) -> P:
        """The settings that one part reads: `kind` is a dataclass whose fields are named as they are here."""
        return kind(**{item.name: getattr(self, item.name) for item in dataclasses.fields(kind)})


TABLE = tuple(Setting(item.name, **item.metadata) for item in dataclasses.fields(Settings))
