"""Agents for Lightwork in Python: one file, standard library only, Python 3.9 or later.

    from lightwork_agent import Agent, Call

    agent = Agent(version="1.0.0")

    @agent.tool(description="Greets by name.",
                input_schema={"type": "object", "properties": {"name": {"type": "string"}}})
    def greet(call: Call) -> dict:
        return {"greeting": "Hello, " + call.input.get("name", "world")}

    agent.run()

The node launches the program and tells it by environment where to connect.
This module is the agent side of the OpenSentience runtime protocol, version 1:
frames of a 4-byte big-endian length and one JSON object, over a Unix socket.

Who runs what: the caller of Agent.run waits; one thread reads, one writes, one
sends heartbeats, and every call has a thread of its own, so that a handler is
a plain function that may block. A handler that wants to be cancelable looks at
call.canceled. C code that keeps the interpreter's lock for longer than three
heartbeat intervals gets the agent restarted.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import logging
import math
import os
import queue
import re
import signal
import socket
import struct
import threading
import time
import unicodedata
import uuid
from collections import deque
from dataclasses import dataclass
from typing import Any, BinaryIO, Callable, Deque, Dict, List, NamedTuple, NoReturn, Optional, Sequence, Tuple

__all__ = [
    "Agent", "AgentError", "Call", "Canceled", "Disconnected", "Goodbye", "ProtocolError",
    "SchemaError", "StreamEnded", "StreamLimit", "ToolError", "Unauthorized",
]
__version__ = "1.0.0"

ENV_SOCKET_PATH = "OPENSENTIENCE_SOCKET_PATH"
ENV_TOKEN = "OPENSENTIENCE_SESSION_TOKEN"
ENV_AGENT_ID = "OPENSENTIENCE_AGENT_ID"

MAX_FRAME_BYTES = 4 << 20  # payload bytes, the header not counted (OS-2.2.1)
MAX_INFLIGHT = 256  # calls (OS-2.2.5)
MAX_STREAM_BYTES = 16 << 20  # for each call

_VERSION = 1
_WHERE = "agent.runtime"
_MAX_ID_BYTES = 256
_MAX_TYPE_BYTES = 100
_MAX_MESSAGE_BYTES = 2 << 10
_MAX_CHUNK_BYTES = 64 << 10  # text of one stream chunk
_CHUNK_OVERHEAD = 16  # added for each chunk
_ENVELOPE_RESERVE = 16 << 10  # room in a frame besides the output
_MAX_VALUE_DEPTH = 64
_MAX_SCHEMA_DEPTH = 32
_MAX_SCHEMA_BYTES = 64 << 10
_MAX_NUMBER_CHARS = 64
_MAX_INT = (1 << 63) - 1
_REPLAY_ENTRIES = 1024
_REPLAY_BYTES = 16 << 20
_URGENT_BYTES = 64 << 20
_HANDSHAKE_SECONDS = 10.0
_WRITE_SECONDS = 10  # a node that reads nothing for this long counts as disconnected
_STOP_SECONDS = 1.0  # how long to wait for handlers at the end
_DAY_SECONDS = 24 * 60 * 60.0

_CHANNELS = ("stdout", "stderr", "log", "status")
_CODE = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)+")
_AGENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_TOOL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_SEMVER = re.compile(r"(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?:\.[0-9]+)?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
# Matches the escapes of a JSON text; group 1 is an unpaired surrogate.
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F])|.)")

Json = Dict[str, Any]


# --- Errors ---------------------------------------------------------------


class AgentError(Exception):
    """Base class of the errors that end Agent.serve."""


class Unauthorized(AgentError):
    """The node refused the handshake."""


class ProtocolError(AgentError):
    """The node sent invalid data; the connection is closed."""


class Disconnected(AgentError):
    """The node closed the connection without a goodbye."""


class Goodbye(NamedTuple):
    """The node's announcement that it ends the session."""

    reason: str
    retry_after_ms: int  # minimum wait before the next start, 0 if the node gave none


class SchemaError(ValueError):
    """The schema of a tool is malformed."""


class StreamLimit(Exception):
    """The call has reached its stream limit, or a chunk does not fit in a frame."""


class StreamEnded(Exception):
    """A chunk was sent after done() or after the handler returned."""


class Canceled(Exception):
    """The call was canceled or took too long. Handlers may let it pass through."""


class ToolError(Exception):
    """A failure that is shown to the caller: code, message and details are sent, so
    they must not contain secrets. The code is dotted lower case, such as
    "tool.failed" if no other fits; any other form is a ValueError.
    """

    def __init__(self, code: str, message: str, retryable: bool = False, details: Optional[Json] = None) -> None:
        super().__init__(code, message)
        if len(code) > _MAX_TYPE_BYTES or not _CODE.fullmatch(code):
            raise ValueError("code must be dotted lower case, such as tool.failed")
        self.code = code
        self.message = _safe_text(message)
        self.retryable = retryable
        self.details = details

    def _wire(self) -> Json:
        doc: Json = {"code": self.code, "message": self.message, "where": _WHERE}
        if self.retryable:
            doc["retryable"] = True
        if self.details is not None:
            doc["details"] = self.details
        return doc


class _Refused(Exception):
    """A message that violates the protocol, with the fields needed to answer it."""

    def __init__(self, code: str, at: str, reason: str) -> None:
        super().__init__(code, at, reason)
        self.code, self.at, self.reason = code, at, reason
        self.id = ""
        self.request_id = ""


# --- Text and JSON --------------------------------------------------------


def _valid_text(text: str) -> str:
    """Replaces lone surrogates, which UTF-8 cannot represent, by U+FFFD."""
    try:
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _cut(data: bytes, limit: int) -> bytes:
    """Returns the longest prefix of at most limit bytes that splits no character."""
    if len(data) <= limit:
        return data
    while data[limit] & 0xC0 == 0x80:
        limit -= 1
    return data[:limit]


def _safe_text(text: str) -> str:
    """Makes text fit for an error message: bounded and without control characters."""
    text = text.replace("\n", " ").replace("\t", " ")
    text = "".join(c for c in _valid_text(text) if unicodedata.category(c) != "Cc")
    return _cut(text.encode("utf-8"), _MAX_MESSAGE_BYTES).decode("utf-8")


def _dumps(value: Any) -> bytes:
    """Returns compact JSON; TypeError, ValueError or RecursionError if that is
    impossible.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


class _BadNumber:
    """Stands for a number that is too long or too large to use."""


def _parse(text: str) -> Tuple[Any, str]:
    """Parses JSON more strictly than the json module does.

    Returns the value and what is wrong with it, "" for nothing. A complaint
    comes with a value, so that the sender can be answered. ValueError or
    RecursionError where there is none. Of two equal names the first counts.
    """
    complaints: List[str] = []

    def pairs(items: List[Tuple[str, Any]]) -> Json:
        obj = dict(items)
        if len(obj) != len(items):
            complaints.append("a name occurs twice")
            obj = dict(reversed(items))
        return obj

    def constant(_: str) -> Any:
        complaints.append("NaN and Infinity are not JSON")
        return _BadNumber()

    def integer(digits: str) -> Any:
        return int(digits) if len(digits) <= _MAX_NUMBER_CHARS else _BadNumber()

    def real(digits: str) -> Any:
        value = float(digits) if len(digits) <= _MAX_NUMBER_CHARS else math.inf
        return value if math.isfinite(value) else _BadNumber()

    value = json.loads(text, object_pairs_hook=pairs, parse_constant=constant, parse_int=integer, parse_float=real)
    if "\\u" in text and any(m.group(1) for m in _ESCAPE.finditer(text)):
        complaints.append("half of a surrogate pair")
    return value, complaints[0] if complaints else ""


def _now() -> str:
    now = datetime.datetime.now(datetime.timezone.utc)
    return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# --- Frames and messages --------------------------------------------------


def _read_frame(stream: BinaryIO, limit: int) -> str:
    """Returns the text of the next frame. Raises Disconnected at the end of the stream,
    and ProtocolError if the stream cannot be continued. The body of a frame over the
    limit is not read (OS-2.2.8), and a header alone allocates nothing.
    """
    (size,) = struct.unpack(">I", _read_exactly(stream, 4))
    if size == 0:
        raise ProtocolError("read frame: empty payload")
    if size > limit:
        raise ProtocolError("read frame: %d bytes, the limit is %d" % (size, limit))
    try:
        text = _read_exactly(stream, size).decode("utf-8")
    except UnicodeDecodeError:
        raise ProtocolError("read frame: payload is not UTF-8") from None
    text = text.strip(" \t\r\n")
    if len(text) < 2 or text[0] != "{" or text[-1] != "}":
        raise ProtocolError("read frame: payload is not a JSON object")
    return text


def _read_exactly(stream: BinaryIO, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        try:
            part = stream.read(min(size - len(data), 256 << 10))
        except (OSError, ValueError):  # ValueError: closed by us
            part = b""
        if not part:
            raise Disconnected("the node closed the connection")
        data += part
    return bytes(data)


@dataclass
class _Message:
    type: str
    id: str
    payload: Json
    request_id: str = ""
    correlation_id: str = ""
    causation_id: str = ""
    actor: Optional[Json] = None
    error: Optional[Json] = None


def _encode(kind: str, payload: bytes, limit: int, request: Optional[_Message] = None,
            reply: bool = True, error: Optional[Json] = None) -> bytes:
    """Returns one frame. Messages about a request repeat its ids (OS-3.1.7)."""
    head: Json = {"v": _VERSION, "type": kind, "id": str(uuid.uuid4()), "ts": _now()}
    if request is not None:
        if reply and request.id:
            head["in_reply_to"] = request.id
        for name in ("request_id", "correlation_id", "causation_id"):
            if getattr(request, name):
                head[name] = getattr(request, name)
    if error is not None:
        head["error"] = error
    body = _dumps(head)[:-1] + b',"payload":' + payload + b"}"
    if len(body) > limit:
        raise StreamLimit("the message is larger than a frame")
    return struct.pack(">I", len(body)) + body


def _decode(text: str) -> _Message:
    """Checks one message of the node; raises _Refused."""
    try:
        doc, complaint = _parse(text)
    except (ValueError, RecursionError):
        raise _Refused("protocol.invalid_message", "", "not JSON") from None
    try:
        if complaint:
            _refuse("", complaint)
        return _envelope(doc)
    except _Refused as refused:
        refused.id = _short(doc.get("id"))
        refused.request_id = _short(doc.get("request_id"))
        raise


def _short(value: Any) -> str:
    """Returns an id if it may be repeated in an answer."""
    if not isinstance(value, str) or len(_valid_text(value).encode("utf-8")) > _MAX_ID_BYTES:
        return ""
    return _valid_text(value)


def _refuse(at: str, reason: str) -> NoReturn:
    raise _Refused("protocol.invalid_message", at, reason)


def _envelope(doc: Json) -> _Message:
    for name in ("v", "type", "id", "ts", "payload"):
        if name not in doc or doc[name] is None and name != "payload":
            _refuse(name, "required")
    kind = _string(doc, "type", "type")
    _string(doc, "ts", "ts")
    if len(kind.encode("utf-8")) > _MAX_TYPE_BYTES:
        _refuse("type", "too long")
    if _integer(doc, "v", "v") != _VERSION:
        raise _Refused("protocol.unsupported_version", "v", "must be 1")
    if not kind.startswith("core.") or kind == "core.":
        raise _Refused("protocol.wrong_direction", "type", "not a type that this side may send")
    message = _Message(
        type=kind, id=_id(doc, "id", "id", required=True), payload=_object(doc, "payload", "payload") or {},
        request_id=_id(doc, "request_id", "request_id"), correlation_id=_id(doc, "correlation_id", "correlation_id"),
        causation_id=_id(doc, "causation_id", "causation_id"), actor=_actor(doc), error=_error(doc, "error"),
    )
    _id(doc, "in_reply_to", "in_reply_to")
    if doc["payload"] is None:
        _refuse("payload", "must be an object")
    check = _PAYLOADS.get(kind)
    if check is None:
        raise _Refused("protocol.unknown_type", "type", "unknown message type")
    # A refusal has only an error, so its payload is not checked.
    if message.error is None:
        check(message.payload)
    _rfc3339(doc["ts"])
    return message


def _rfc3339(ts: str) -> None:
    found = _RFC3339.fullmatch(ts)
    try:
        if found is None:
            raise ValueError
        datetime.datetime(*(int(part) for part in found.groups()))  # type: ignore[arg-type]
    except ValueError:
        _refuse("ts", "must be an RFC 3339 time")


# These functions read an optional member; null counts as missing, because many
# languages write missing members as null.


def _string(doc: Json, name: str, at: str) -> str:
    value = doc.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        _refuse(at, "must be a string")
    return value


def _id(doc: Json, name: str, at: str, required: bool = False) -> str:
    value = _string(doc, name, at)
    if required and not value:
        _refuse(at, "required")
    if len(value.encode("utf-8")) > _MAX_ID_BYTES:
        _refuse(at, "longer than %d bytes" % _MAX_ID_BYTES)
    return value


def _integer(doc: Json, name: str, at: str, least: int = 0) -> int:
    """Returns an integer of at least least; 0 if it is missing and 0 is allowed."""
    value = doc.get(name)
    if value is None:
        value = 0
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _MAX_INT:
        _refuse(at, "must be an integer")
    if value < least:
        _refuse(at, "must be %d or more" % least)
    return value


def _object(doc: Json, name: str, at: str) -> Optional[Json]:
    value = doc.get(name)
    if value is not None and not isinstance(value, dict):
        _refuse(at, "must be an object")
    return value


def _strings(doc: Json, name: str, at: str) -> List[str]:
    value = doc.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        _refuse(at, "must be a list of strings")
    return value


def _error(doc: Json, name: str, at: str = "") -> Optional[Json]:
    at = at or name
    error = _object(doc, name, at)
    if error is None:
        return None
    code = _string(error, "code", at + ".code")
    if len(code) > _MAX_TYPE_BYTES or not _CODE.fullmatch(code):
        _refuse(at + ".code", "must be a dotted lower-case code")
    if len(_string(error, "message", at + ".message").encode("utf-8")) > _MAX_MESSAGE_BYTES:
        _refuse(at + ".message", "too long")
    if len(_string(error, "where", at + ".where").encode("utf-8")) > _MAX_TYPE_BYTES:
        _refuse(at + ".where", "too long")
    if not isinstance(error.get("retryable"), (bool, type(None))):
        _refuse(at + ".retryable", "must be true or false")
    _object(error, "details", at + ".details")
    _object(error, "debug", at + ".debug")
    return error


def _actor(doc: Json) -> Optional[Json]:
    actor = _object(doc, "actor", "actor")
    if actor is not None:
        _who(actor, "actor")
        _id(actor, "id", "actor.id", required=True)
        _id(actor, "display", "actor.display")
    return actor


def _who(doc: Json, at: str) -> None:
    if _string(doc, "type", at + ".type") not in ("human", "agent", "system"):
        _refuse(at + ".type", "not one of the allowed values")


def _check_welcome(p: Json) -> None:
    _integer(p, "heartbeat_interval_ms", "payload.heartbeat_interval_ms", least=1)
    _integer(p, "max_frame_bytes", "payload.max_frame_bytes", least=1)
    _integer(p, "accepted_version", "payload.accepted_version", least=1)
    _id(p, "session_id", "payload.session_id", required=True)
    server = _object(p, "server", "payload.server") or {}
    _string(server, "core_version", "payload.server.core_version")
    _string(server, "instance_id", "payload.server.instance_id")


def _check_goodbye(p: Json) -> None:
    _id(p, "reason", "payload.reason", required=True)
    _integer(p, "retry_after_ms", "payload.retry_after_ms")


def _check_registered(p: Json) -> None:
    _strings(p, "registered", "payload.registered")
    rejected = p.get("rejected") or []
    if not isinstance(rejected, list) or not all(isinstance(item, dict) for item in rejected):
        _refuse("payload.rejected", "must be a list of objects")
    for item in rejected:
        _string(item, "tool_id", "payload.rejected.tool_id")
        if _error(item, "error", "payload.rejected.error") is None:
            _refuse("payload.rejected.error", "required")


def _check_call(p: Json) -> None:
    agent, slash, tool = _string(p, "tool_id", "payload.tool_id").partition("/")
    if not slash or not _AGENT_ID.fullmatch(agent) or not _TOOL_NAME.fullmatch(tool):
        _refuse("payload.tool_id", "must be <agent_id>/<tool_name>")
    if _object(p, "input", "payload.input") is None:
        _refuse("payload.input", "must be an object")
    caller = _object(p, "caller", "payload.caller")
    if caller is not None:
        _who(caller, "payload.caller")
        _string(caller, "id", "payload.caller.id")
    context = _object(p, "context", "payload.context")
    if context is not None:
        _string(context, "project_root", "payload.context.project_root")
        _strings(context, "resource_paths", "payload.context.resource_paths")
        _object(context, "ui", "payload.context.ui")
    _id(p, "call_id", "payload.call_id", required=True)
    _id(p, "idempotency_key", "payload.idempotency_key")
    _integer(p, "timeout_ms", "payload.timeout_ms")


def _check_cancel(p: Json) -> None:
    _id(p, "call_id", "payload.call_id", required=True)
    _id(p, "reason", "payload.reason")
    _integer(p, "deadline_ms", "payload.deadline_ms")


def _check_nothing(p: Json) -> None:
    """No member of the payload is used."""


_PAYLOADS: Dict[str, Callable[[Json], None]] = {
    "core.welcome": _check_welcome, "core.goodbye": _check_goodbye,
    "core.tools.registered": _check_registered, "core.tools.unregistered": _check_nothing,
    "core.tool.call": _check_call, "core.tool.cancel": _check_cancel,
    "core.ping": _check_nothing, "core.error": _check_nothing,
}


# --- Schemas --------------------------------------------------------------

_TYPES: Dict[str, Callable[[Any], bool]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "number": lambda v: _is_number(v),
    "integer": lambda v: _is_number(v) and (isinstance(v, int) or v.is_integer()),
}
_ANNOTATIONS = {
    "$schema", "$comment", "$defs", "title", "description", "default", "examples", "deprecated",
    "readOnly", "writeOnly",
}
_ASSERTIONS = {
    "type", "properties", "required", "additionalProperties", "enum", "const", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "pattern", "items", "minItems", "maxItems",
    "minProperties", "maxProperties", "anyOf", "oneOf", "allOf",
}
_BOUNDS: Tuple[Tuple[str, Any, Callable[[Any, Any], Any]], ...] = (
    ("minimum", (int, float), lambda v, limit: v >= limit),
    ("maximum", (int, float), lambda v, limit: v <= limit),
    ("exclusiveMinimum", (int, float), lambda v, limit: v > limit),
    ("exclusiveMaximum", (int, float), lambda v, limit: v < limit),
    ("minLength", str, lambda v, limit: len(v) >= limit),
    ("maxLength", str, lambda v, limit: len(v) <= limit),
    ("minItems", list, lambda v, limit: len(v) >= limit),
    ("maxItems", list, lambda v, limit: len(v) <= limit),
    ("minProperties", dict, lambda v, limit: len(v) >= limit),
    ("maxProperties", dict, lambda v, limit: len(v) <= limit),
)


class _Invalid(Exception):
    """Says where a value violates its schema, without quoting the value."""


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _equal(a: Any, b: Any) -> bool:
    """JSON equality: 1 equals 1.0, but true does not equal 1."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def _check_value(value: Any, depth: int = _MAX_VALUE_DEPTH) -> None:
    if depth == 0:
        raise _Invalid("nested too deep")
    if isinstance(value, _BadNumber):
        raise _Invalid("a number is out of range")
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            _check_value(item, depth - 1)


class _Schema:
    """A subset of JSON Schema 2020-12: type, properties, required,
    additionalProperties, enum, const, (exclusive)minimum and maximum, min and
    max of length, items and properties, pattern, items, anyOf, oneOf, allOf.

    Other keywords are ignored: the node has validated strictly before it
    calls. So nothing is refused here on account of what is not understood.
    """

    def __init__(self, doc: Any, depth: int = _MAX_SCHEMA_DEPTH) -> None:
        if depth == 0:
            raise SchemaError("nested too deep")
        if not isinstance(doc, (dict, bool)):
            raise SchemaError("a schema is an object, true or false")
        self.never = doc is False
        self.doc: Json = doc if isinstance(doc, dict) else {}
        self.pattern: Optional[re.Pattern[str]] = None
        self.inner: Dict[str, _Schema] = {}  # additionalProperties, items
        self.properties: Dict[str, _Schema] = {}
        self.branches: Dict[str, List[_Schema]] = {}
        self._check_shape()
        for name in ("additionalProperties", "items"):
            if name in self.doc:
                self.inner[name] = _Schema(self.doc[name], depth - 1)
        for name, sub in self.doc.get("properties", {}).items():
            self.properties[name] = _Schema(sub, depth - 1)
        for name in ("anyOf", "oneOf", "allOf"):
            if name in self.doc:
                self.branches[name] = [_Schema(sub, depth - 1) for sub in self.doc[name]]
        # True if a value that passes these checks is certainly valid.
        below = [*self.inner.values(), *self.properties.values(), *(s for b in self.branches.values() for s in b)]
        self.complete: bool = not (self.doc.keys() - _ANNOTATIONS - _ASSERTIONS) and all(s.complete for s in below)
        self._compile_pattern()

    def _check_shape(self) -> None:
        types = self.doc.get("type", [])
        self.types: List[str] = [types] if isinstance(types, str) else types
        if not isinstance(self.types, list) or any(not isinstance(t, str) or t not in _TYPES for t in self.types):
            raise SchemaError("type must be one of " + ", ".join(_TYPES))
        required = self.doc.get("required", [])
        if not isinstance(required, list) or not all(isinstance(r, str) for r in required):
            raise SchemaError("required must be a list of strings")
        for name, form in (("properties", dict), ("enum", list), ("pattern", str)):
            if not isinstance(self.doc.get(name, form()), form):
                raise SchemaError(name + " has the wrong type")
        for name in ("anyOf", "oneOf", "allOf"):
            if name in self.doc and (not isinstance(self.doc[name], list) or not self.doc[name]):
                raise SchemaError(name + " must be a list of schemas")
        for name, kind, _ in _BOUNDS:
            limit = self.doc.get(name, 0)
            if not _is_number(limit) or kind != (int, float) and (limit < 0 or limit != int(limit)):
                raise SchemaError(name + " must be a number that makes sense")

    def _compile_pattern(self) -> None:
        pattern = self.doc.get("pattern")
        if pattern is None:
            return
        try:
            # The node supports another regexp dialect, so leave differences to it.
            self.pattern = None if "[[:" in pattern else re.compile(pattern, re.ASCII)
        except (re.error, RecursionError, OverflowError):
            pass
        self.complete = self.complete and self.pattern is not None

    def check(self, value: Any, path: str = "") -> None:
        """Raises _Invalid at the first violation."""
        if self.never:
            self._fail(path, "not allowed")
        if self.types and not any(_TYPES[t](value) for t in self.types):
            got = next((t for t, match in _TYPES.items() if match(value)), "nothing")
            self._fail(path, "got %s, want %s" % (got, " or ".join(self.types)))
        if "enum" in self.doc and not any(_equal(value, item) for item in self.doc["enum"]):
            self._fail(path, "enum does not hold")
        if "const" in self.doc and not _equal(value, self.doc["const"]):
            self._fail(path, "const does not hold")
        for name, kind, holds in _BOUNDS:
            applies = name in self.doc and isinstance(value, kind) and not isinstance(value, bool)
            if applies and not holds(value, self.doc[name]):
                self._fail(path, name + " does not hold")
        if self.pattern is not None and isinstance(value, str) and not self.pattern.search(value):
            self._fail(path, "pattern does not hold")
        if isinstance(value, dict):
            self._check_members(value, path)
        elif isinstance(value, list) and "items" in self.inner:
            for i in range(len(self.doc.get("prefixItems", [])), len(value)):
                self.inner["items"].check(value[i], "%s/%d" % (path, i))
        self._check_branches(value, path)

    def _check_members(self, value: Json, path: str) -> None:
        missing = [name for name in self.doc.get("required", []) if name not in value]
        if missing:
            self._fail(path, "missing " + ", ".join(missing))
        rest = self.inner.get("additionalProperties")
        if "patternProperties" in self.doc:
            rest = None  # the additional members are unknown here
        for name, item in value.items():
            sub = self.properties.get(name, rest)
            if sub is not None and sub.never:
                self._fail(path, "unknown " + name)
            if sub is not None:
                sub.check(item, path + "/" + name.replace("~", "~0").replace("/", "~1"))

    def _check_branches(self, value: Any, path: str) -> None:
        for sub in self.branches.get("allOf", []):
            sub.check(value, path)
        for name in ("anyOf", "oneOf"):
            if name not in self.branches:
                continue
            passed = [sub for sub in self.branches[name] if sub._accepts(value)]
            if not passed or name == "oneOf" and sum(sub.complete for sub in passed) > 1:
                self._fail(path, name + " does not hold")

    def _accepts(self, value: Any) -> bool:
        try:
            self.check(value)
            return True
        except _Invalid:
            return False

    def _fail(self, path: str, reason: str) -> NoReturn:
        raise _Invalid(_safe_text(path + ": " + reason if path else reason))


# --- Calls ----------------------------------------------------------------


class _Cancellation(threading.Event):
    """An event that is also set when its deadline has passed, without a timer."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._deadline = time.monotonic() + seconds if seconds else math.inf
        self._explicit = False

    def remaining(self) -> Optional[float]:
        """Returns the seconds to the deadline, None without one."""
        return None if self._deadline == math.inf else max(0.0, self._deadline - time.monotonic())

    def cause(self) -> str:
        """Returns why the event is set: "canceled", "timeout", or "" if it is not."""
        if self._explicit:
            return "canceled"
        return "timeout" if self.remaining() == 0 else ""

    def set(self) -> None:
        if not self.cause():  # keep the first cause
            self._explicit = True
        super().set()

    def is_set(self) -> bool:
        return self.cause() != ""

    def wait(self, timeout: Optional[float] = None) -> bool:
        limits = [t for t in (timeout, self.remaining()) if t is not None]
        super().wait(min(limits) if limits else None)
        return self.is_set()


Handler = Callable[["Call"], Optional[Json]]


@dataclass
class _Tool:
    name: str
    handler: Handler
    schema: _Schema
    timeout: float
    declared: Json  # the registration without tool_id


@dataclass
class _Result:
    status: str
    output: bytes = b""
    error: Optional[Json] = None
    started_at: str = ""
    finished_at: str = ""

    def payload(self, call_id: str) -> bytes:
        doc: Json = {"call_id": call_id, "status": self.status, "started_at": self.started_at,
                     "finished_at": self.finished_at}
        if self.error is not None:
            doc["error"] = self.error
        body = _dumps(doc)
        return body[:-1] + b',"output":' + self.output + b"}" if self.output else body


class Call:
    """One invocation as its handler sees it. Its methods may be called from
    several threads until the handler returns.

    canceled is a threading.Event that is set when the caller cancels, the call
    takes longer than timeout_ms, or the session ends. timeout_ms is the
    caller's limit, 0 for none. actor and context are metadata, never authority.
    """

    def __init__(self, session: _Session, message: _Message, tool: Optional[_Tool]) -> None:
        p = message.payload
        self.id: str = p["call_id"]
        self.tool: str = p["tool_id"].partition("/")[2]
        self.input: Json = p["input"]
        self.timeout_ms: int = p.get("timeout_ms") or 0
        self.idempotency_key: str = p.get("idempotency_key") or ""
        self.context: Json = p.get("context") or {}
        self.actor: Optional[Json] = message.actor
        self.request_id = message.request_id
        self.correlation_id = message.correlation_id
        self.causation_id = message.causation_id
        limits = [min(s, _DAY_SECONDS) for s in (self.timeout_ms / 1000, tool.timeout if tool else 0) if s > 0]
        self._cancellation = _Cancellation(min(limits, default=0.0))
        self.canceled: threading.Event = self._cancellation
        self._session = session
        self._message = message
        self._tool = tool
        self._started = _now()
        self._lock = threading.Lock()  # orders chunks, and delays the result until they are queued
        self._seq = 0
        self._streamed = 0
        self._ended = False

    def stream(self, channel: str, text: str) -> None:
        """Sends text on "stdout", "stderr", "log" or "status", in several
        chunks if it is long, and waits while the node does not read. Raises
        StreamLimit, StreamEnded, Canceled or Disconnected.
        """
        if channel not in _CHANNELS:
            raise ValueError("channel must be one of " + ", ".join(_CHANNELS))
        data = _valid_text(text).encode("utf-8")
        while True:
            part = _cut(data, self._session.max_chunk)
            self._chunk(len(part), {"channel": channel, "data": {"text": part.decode("utf-8")}})
            data = data[len(part):]
            if not data:
                return

    def partial(self, obj: Json) -> None:
        """Sends an object as a partial result. Raises the same errors as stream."""
        if not isinstance(obj, dict):
            raise TypeError("a partial result is an object")
        doc = _dumps(obj)
        if _parse(doc.decode("utf-8"))[1]:
            raise ValueError("two names of a partial result are equal as JSON")
        self._chunk(len(doc), {"channel": "partial_result", "data": {"json": obj}})

    def done(self) -> None:
        """Announces that no more chunks follow; the result is still sent."""
        self._chunk(0, {"channel": "status", "data": {"text": ""}, "done": True})

    def _chunk(self, size: int, p: Json) -> None:
        with self._lock:
            if self._ended:
                raise StreamEnded("the stream of the call has ended")
            # Small chunks count as larger than they are, which bounds their number too.
            # The end may always be sent.
            total = self._streamed + size + _CHUNK_OVERHEAD
            if total > self._session.agent.max_stream_bytes and not p.get("done"):
                raise StreamLimit("the call has streamed all it may")
            p.update(call_id=self.id, seq=self._seq + 1)
            frame = self._session.encode("agent.tool.stream", _dumps(p), self._message, reply=False)
            self._session.outbox.send(frame, self._cancellation)
            self._streamed, self._seq, self._ended = total, self._seq + 1, bool(p.get("done"))

    # The following methods are for the session.

    def _end_stream(self) -> None:
        with self._lock:
            self._ended = True

    def _execute(self) -> _Result:
        """Validates the input, runs the handler and shapes its result."""
        assert self._tool is not None
        try:
            _check_value(self.input)
            self._tool.schema.check(self.input)
        except _Invalid as e:
            return self._failed("tool.invalid_input", str(e))
        try:
            return self._session.replays.do(self, self._run_handler)
        except Canceled:
            return self._gave_up()

    def _run_handler(self) -> _Result:
        assert self._tool is not None
        log = self._session.agent.log
        try:
            value = self._tool.handler(self)
            output = b"{}" if value is None else _dumps(value)
        except BaseException as e:  # a handler may even call sys.exit
            if self.canceled.is_set():
                return self._gave_up()
            if isinstance(e, ToolError):
                return self._failure(e._wire())
            log.error("tool %s failed, call %r", self.tool, self.id, exc_info=True)
            if isinstance(e, Exception) and not isinstance(e, (RecursionError, MemoryError)):
                return self._failed("tool.failed", "the tool failed")
            return self._failed("tool.internal", "the tool broke down")
        if len(output) > self._session.max_output:
            return self._too_large()
        # The keys 1 and "1" of a dict, for example, become the same name.
        if output[:1] != b"{" or value is not None and _parse(output.decode("utf-8"))[1]:
            return self._failed("tool.invalid_output", "the tool's output is not an object")
        return _Result("succeeded", output, None, self._started, _now())

    def _gave_up(self) -> _Result:
        """Returns the result of a handler that ended because of its cancellation."""
        if self._cancellation.cause() == "timeout":
            return self._failed("tool.timeout", "the call took too long", retryable=True)
        result = self._failed("tool.canceled", "the call was canceled")
        result.status = "canceled"
        return result

    def _too_large(self) -> _Result:
        return self._failed("tool.output_too_large", "the output is larger than %d bytes" % self._session.max_output)

    def _failed(self, code: str, message: str, retryable: bool = False) -> _Result:
        return self._failure(ToolError(code, message, retryable)._wire())

    def _failure(self, error: Json) -> _Result:
        try:
            _, complaint = _parse(_dumps(error).decode("utf-8"))
        except (TypeError, ValueError, RecursionError):
            complaint = "no JSON"
        if complaint:
            error.pop("details", None)
        return _Result("failed", b"", error, self._started, _now())


@dataclass
class _Replay:
    input: bytes  # SHA-256 of its JSON
    finished: bool = False
    result: Optional[_Result] = None  # None once it is finished and not stored


class _Replays:
    """Gives a call with a known idempotency key the outcome of the first call instead
    of running it again (OS-4.3.1.6), as long as the session lives. Outcomes that a
    retry should change are not stored: retryable failures and cancellations.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()  # guards the fields below
        self._entries: Dict[str, _Replay] = {}
        self._order: Deque[str] = deque()  # stored entries, oldest first
        self._bytes = 0

    def do(self, call: Call, execute: Callable[[], _Result]) -> _Result:
        """Runs execute, or waits for the outcome of the earlier call with the same tool
        and key and repeats it; raises Canceled if this call is canceled while
        waiting.
        """
        if not call.idempotency_key:
            return execute()
        key = call.tool + "\0" + call.idempotency_key
        digest = hashlib.sha256(json.dumps(call.input, sort_keys=True).encode("utf-8")).digest()
        with self.changed:
            while key in self._entries:
                entry = self._entries[key]
                if entry.input != digest:
                    return call._failed("tool.invalid_input", "idempotency_key was used with another input")
                if entry.result is not None:
                    return entry.result
                if call.canceled.is_set():
                    raise Canceled
                self.changed.wait(call._cancellation.remaining())
            entry = self._entries[key] = _Replay(digest)
        result = execute()
        self._finish(key, entry, result)
        return result

    def _finish(self, key: str, entry: _Replay, result: _Result) -> None:
        retry = result.status == "canceled" or bool(result.error and result.error.get("retryable"))
        with self.changed:
            self.changed.notify_all()
            if retry or len(result.output) > _REPLAY_BYTES // 4:
                del self._entries[key]
                return
            entry.result = result
            self._order.append(key)
            self._bytes += len(result.output)
            while len(self._order) > _REPLAY_ENTRIES or self._bytes > _REPLAY_BYTES:
                oldest = self._entries.pop(self._order.popleft())
                self._bytes -= len(oldest.result.output) if oldest.result else 0


# --- The session ----------------------------------------------------------


class _Outbox:
    """Writes frames to the connection from a separate thread, so that a node that does
    not read blocks only callers that want to wait. There is a queue for those (send)
    and one for those that must not wait (try_send), which goes first: a long stream
    delays no heartbeat.
    """

    def __init__(self, conn: socket.socket, depth: int) -> None:
        self._conn = conn
        self._depth = depth
        self.changed = threading.Condition()  # guards the fields below
        self._urgent: Deque[bytes] = deque()
        self._urgent_bytes = 0
        self._queue: Deque[bytes] = deque()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="lightwork-writer", daemon=True)
        self._thread.start()

    def try_send(self, frame: bytes) -> bool:
        """Returns False if the node reads too slowly."""
        with self.changed:
            if self._closed:
                return True  # the reader will notice
            if len(self._urgent) >= self._depth or self._urgent_bytes + len(frame) > _URGENT_BYTES:
                return False
            self._urgent.append(frame)
            self._urgent_bytes += len(frame)
            self.changed.notify_all()
            return True

    def send(self, frame: bytes, cancellation: Optional[_Cancellation] = None) -> None:
        """Waits for room. Raises Canceled or Disconnected."""
        with self.changed:
            while True:
                if self._closed:
                    raise Disconnected("the connection is closed")
                if cancellation is not None and cancellation.is_set():
                    raise Canceled
                if len(self._queue) < self._depth:
                    break
                self.changed.wait(cancellation.remaining() if cancellation is not None else None)
            self._queue.append(frame)
            self.changed.notify_all()

    def close(self) -> None:
        """Refuses further frames, writes the queued ones, and ends the connection."""
        with self.changed:
            self._closed = True
            self.changed.notify_all()
        self._thread.join()

    def _serve(self) -> None:
        try:
            while True:
                with self.changed:
                    self.changed.wait_for(lambda: self._urgent or self._queue or self._closed)
                    if not self._urgent and not self._queue:
                        return
                    batch = self._take()
                    self.changed.notify_all()
                self._conn.sendall(batch)
        except OSError:
            pass  # the reader sees the closed connection and ends the session
        finally:
            with self.changed:
                self._closed = True
                self._urgent.clear()
                self._queue.clear()
                self.changed.notify_all()
            _shut(self._conn)

    def _take(self) -> bytes:
        """Returns the frames of one write: many small ones cost one system call."""
        batch = bytearray()
        while (self._urgent or self._queue) and len(batch) < _MAX_CHUNK_BYTES:
            if self._urgent:
                frame = self._urgent.popleft()
                self._urgent_bytes -= len(frame)
            else:
                frame = self._queue.popleft()
            batch += frame
        return bytes(batch)


def _shut(conn: socket.socket) -> None:
    """Wakes the threads that read or write the connection."""
    try:
        conn.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it was already closed


class _Session:
    """One authenticated connection to the node."""

    def __init__(self, agent: Agent, conn: socket.socket) -> None:
        self.agent = agent
        self.conn = conn
        self.stream: BinaryIO = conn.makefile("rb")
        self.limit: int = agent.max_frame_bytes
        self.max_chunk: int = _MAX_CHUNK_BYTES
        self.max_output: int = 0
        self.id = ""
        self.beat = 0.0
        self.started = time.monotonic()
        self.replays: _Replays = _Replays()
        self.over = threading.Event()  # ends the heartbeats
        self.lock = threading.Lock()  # guards the three fields below
        self.calls: Dict[str, Call] = {}
        self.handlers: List[threading.Thread] = []
        self.stopping = False
        # Receives signals from the reader and from a signal handler, for which
        # SimpleQueue is safe. None means to end as requested.
        self.events: queue.SimpleQueue[Optional[BaseException]] = queue.SimpleQueue()
        self.outbox: _Outbox = _Outbox(conn, 2 * agent.max_inflight)

    def encode(self, kind: str, payload: bytes, request: Optional[_Message] = None,
               reply: bool = True, error: Optional[Json] = None) -> bytes:
        return _encode(kind, payload, self.limit, request, reply, error)

    def handshake(self, token: str) -> None:
        agent = self.agent
        hello: Json = {
            "session_token": token, "agent_id": agent.id, "agent_version": agent.version,
            "protocol": {"supported_versions": [_VERSION], "capabilities": ["tools", "streaming", "cancellation"]},
            "sdk": {"name": "lightwork-agent-python", "version": __version__},
        }
        if agent.manifest_hash:
            hello["manifest_hash"] = agent.manifest_hash
        self.outbox.send(self.encode("agent.hello", _dumps(hello)))
        welcome = self._answer("core.welcome", Unauthorized)
        if welcome["accepted_version"] != _VERSION:
            raise Unauthorized("the node accepted a version that was not offered")
        self.id = welcome["session_id"]
        self.beat = min(welcome["heartbeat_interval_ms"] / 1000, _DAY_SECONDS)
        self.limit = min(agent.max_frame_bytes, welcome["max_frame_bytes"])
        room = max(self.limit - _ENVELOPE_RESERVE, self.limit // 2)
        self.max_output = min(agent.max_output_bytes or room, room)
        # A character may need six bytes as JSON.
        self.max_chunk = min(_MAX_CHUNK_BYTES, max(4, room // 8))
        tools = [dict(t.declared, tool_id=agent.id + "/" + t.name) for t in agent.tools.values()]
        self.outbox.send(self.encode("agent.tools.register", _dumps({"tools": tools, "replace": True})))
        for item in self._answer("core.tools.registered", ProtocolError).get("rejected") or []:
            agent.log.error("the node rejects tool %r: %s: %s", item.get("tool_id"), item["error"].get("code"),
                            _safe_text(item["error"].get("message") or ""))

    def _answer(self, kind: str, refusal: Callable[[str], AgentError]) -> Json:
        """Returns the payload of the next message, which must be of this kind."""
        try:
            message = _decode(_read_frame(self.stream, self.limit))
        except _Refused as e:
            raise ProtocolError("wait for %s: %s: %s %s" % (kind, e.code, e.at, e.reason)) from None
        if message.error is not None:
            raise refusal("%s: %s" % (message.error["code"], _safe_text(message.error.get("message") or "")))
        if message.type != kind:
            raise ProtocolError("wait for %s: unexpected %r" % (kind, message.type))
        return message.payload

    def serve(self) -> Optional[Goodbye]:
        """Runs calls until an event. Before it returns it cancels every running call
        and waits a second for their handlers.
        """
        threads = [threading.Thread(target=target, name=name, daemon=True) for target, name in (
            (self._read_loop, "lightwork-reader"), (self._heartbeats, "lightwork-heartbeat"))]
        for thread in threads:
            thread.start()
        try:
            reason = self.events.get()
            # The connection stays open, so that results can still be sent.
            self._stop_handlers()
        finally:
            self.over.set()
            self.outbox.close()
            for thread in threads:
                thread.join()
        if isinstance(reason, BaseException):
            raise reason
        return reason

    def close(self) -> None:
        self.outbox.close()
        self.stream.close()
        self.conn.close()

    def _stop_handlers(self) -> None:
        with self.lock:
            self.stopping = True
            calls, handlers = list(self.calls.values()), list(self.handlers)
        for call in calls:
            self._cancel(call)
        end = time.monotonic() + _STOP_SECONDS
        for thread in handlers:
            thread.join(max(0.0, end - time.monotonic()))
        if any(thread.is_alive() for thread in handlers):
            # They are daemon threads: one that ignores its cancellation does not keep
            # the process alive.
            self.agent.log.warning("handlers are still running at the end of the session")

    def _cancel(self, call: Call) -> None:
        call.canceled.set()
        for changed in (self.outbox.changed, self.replays.changed):
            with changed:
                changed.notify_all()

    def _read_loop(self) -> None:
        try:
            while True:
                try:
                    message = _decode(_read_frame(self.stream, self.limit))
                except _Refused as refused:
                    self._answer_refused(refused)
                    continue
                if message.type == "core.goodbye" and message.error is None:
                    p = message.payload
                    self.events.put(Goodbye(p["reason"], p.get("retry_after_ms") or 0))
                    return
                self._dispatch(message)
        except BaseException as e:  # any error ends the session
            self.events.put(e)

    def _dispatch(self, message: _Message) -> None:
        """Never blocks, because the reader must keep reading."""
        if message.type == "core.error" or message.error is not None:
            code = message.error["code"] if message.error else "no error given"
            self.agent.log.warning("the node refused a message: %s", code)
        elif message.type == "core.tool.call":
            self._start_call(message)
        elif message.type == "core.tool.cancel":
            self._cancel_call(message)
        elif message.type == "core.ping":
            self._reply(self.encode("agent.pong", b"{}", message))

    def _answer_refused(self, refused: _Refused) -> None:
        self.agent.log.warning("message refused: %s: %s", refused.code, refused.at)
        # Answer only messages of a logical request (OS-6.2.2, OS-6.2.3).
        if refused.id and refused.request_id:
            reason = "%s: %s" % (refused.at, refused.reason) if refused.at else refused.reason
            about = _Message("", refused.id, {}, request_id=refused.request_id)
            error = {"code": refused.code, "message": reason, "where": _WHERE}
            self._reply(self.encode("agent.error", b"{}", about, error=error))

    def _reply(self, frame: bytes) -> None:
        """Queues an answer of the reader. A node that keeps sending requests while it
        does not read the answers is disconnected.
        """
        if not self.outbox.try_send(frame):
            self.agent.log.error("the node does not read; closing")
            _shut(self.conn)

    def _start_call(self, message: _Message) -> None:
        agent_id, _, name = message.payload["tool_id"].partition("/")
        tool = self.agent.tools.get(name) if agent_id == self.agent.id else None
        call = Call(self, message, tool)
        thread = threading.Thread(target=self._run_call, args=(call,), name="lightwork-call", daemon=True)
        with self.lock:
            duplicate = call.id in self.calls
            full = len(self.calls) >= self.agent.max_inflight or self.stopping
            if not duplicate and not full and tool is not None:
                self.calls[call.id] = call
                try:
                    thread.start()
                    self.handlers = [t for t in self.handlers if t.is_alive()] + [thread]
                    return
                except RuntimeError:  # the system cannot start another thread
                    del self.calls[call.id]
                    full = True
        if duplicate:
            # A result would end the running call with this id.
            error = {"code": "protocol.duplicate_call", "message": "a call with this id is running", "where": _WHERE}
            self._reply(self.encode("agent.error", b"{}", message, error=error))
        elif full:
            self._refuse_call(call, "tool.overloaded", "too many calls in flight", retryable=True)
        else:
            self._refuse_call(call, "tool.unavailable", "no such tool")

    def _refuse_call(self, call: Call, code: str, reason: str, retryable: bool = False) -> None:
        result = call._failed(code, reason, retryable)
        self._reply(self.encode("agent.tool.result", result.payload(call.id), call._message))

    def _cancel_call(self, message: _Message) -> None:
        call_id = message.payload["call_id"]
        with self.lock:
            call = self.calls.get(call_id)
        about = message
        if call is not None:  # the ids are those of the call, reply_to is that of the cancel
            m = call._message
            about = _Message("", message.id, {}, m.request_id, m.correlation_id, m.causation_id)
        ack = _dumps({"call_id": call_id, "accepted": call is not None})
        self._reply(self.encode("agent.tool.cancel_ack", ack, about))
        if call is not None:
            self._cancel(call)

    def _run_call(self, call: Call) -> None:
        """Runs a call to its single result."""
        try:
            result = call._execute()
        except BaseException:
            self.agent.log.error("call %r broke the SDK", call.id, exc_info=True)
            result = call._failed("tool.internal", "the tool broke down")
        call._end_stream()
        with self.lock:
            del self.calls[call.id]
        try:
            try:
                frame = self.encode("agent.tool.result", result.payload(call.id), call._message)
            except StreamLimit:
                frame = self.encode("agent.tool.result", call._too_large().payload(call.id), call._message)
            # Not when canceled: a canceled call has a result too.
            self.outbox.send(frame)
        except Disconnected:
            pass

    def _heartbeats(self) -> None:
        while True:
            with self.lock:
                inflight = len(self.calls)
            beat = _dumps({"session_id": self.id, "uptime_ms": int((time.monotonic() - self.started) * 1000),
                           "inflight_calls": inflight, "status": "ok"})
            # If the queue is full, a heartbeat would be too late anyway.
            self.outbox.try_send(self.encode("agent.heartbeat", beat))
            if self.over.wait(self.beat):
                return


# --- The agent ------------------------------------------------------------


class Agent:
    """What the process offers. It takes the connection from the environment
    that the node sets, and removes the session token from it at once, so that
    no child process finds one. log defaults to the logger "lightwork.agent",
    which writes warnings and errors to stderr unless logging is set up.

    version is the semantic version of the manifest. The limits are in bytes
    and calls; max_output_bytes 0 means what fits in a frame.
    """

    def __init__(self, version: str, *, manifest_hash: str = "", max_frame_bytes: int = MAX_FRAME_BYTES,
                 max_inflight: int = MAX_INFLIGHT, max_output_bytes: int = 0,
                 max_stream_bytes: int = MAX_STREAM_BYTES, log: Optional[logging.Logger] = None) -> None:
        self._token = os.environ.pop(ENV_TOKEN, "")
        self._socket_path = os.environ.get(ENV_SOCKET_PATH, "")
        self.id = os.environ.get(ENV_AGENT_ID, "")
        if len(version) > _MAX_TYPE_BYTES or not _SEMVER.fullmatch(version):
            raise ValueError("version must be a semantic version")
        self.version = version
        self.manifest_hash = manifest_hash
        self.max_frame_bytes = max_frame_bytes
        self.max_inflight = max_inflight
        self.max_output_bytes = max_output_bytes
        self.max_stream_bytes = max_stream_bytes
        self.log = log or logging.getLogger("lightwork.agent")
        self.tools: Dict[str, _Tool] = {}

    def tool(self, *, name: str = "", description: str = "", input_schema: Optional[Json] = None,
             output_schema: Optional[Json] = None, capabilities: Sequence[str] = ("streaming", "cancellation"),
             side_effects: bool = False, requires_directive: bool = False, tags: Sequence[str] = (),
             timeout: float = 0) -> Callable[[Handler], Handler]:
        """Offers the decorated function as a tool. Its name and docstring are
        the defaults of name and description; no input_schema accepts any
        object. timeout is an own limit per call in seconds, 0 for the caller's.

        The function gets a Call and returns an object, or None for {}. A
        ToolError that it raises is sent as it is; what any other exception
        says goes to the log only, and the caller gets code "tool.failed".
        """
        accepts: Json = {"type": "object"} if input_schema is None else input_schema
        declared: Json = {"input_schema": accepts, "capabilities": list(capabilities),
                          "side_effects": side_effects, "requires_directive": requires_directive, "tags": list(tags)}
        if output_schema is not None:
            declared["output_schema"] = output_schema

        def register(handler: Handler) -> Handler:
            own = name or handler.__name__
            if not _TOOL_NAME.fullmatch(own) or own in self.tools:
                raise ValueError("tool %r needs a name of its own of letters, digits and ._-" % own)
            schema = _compile(own, accepts)
            if output_schema is not None:
                _compile(own, output_schema)
            declared.update(name=own, description=description or (handler.__doc__ or "").strip())
            self.tools[own] = _Tool(own, handler, schema, timeout, json.loads(_dumps(declared)))
            return handler

        return register

    def run(self) -> None:
        """Serves as the main function of a program: an error is printed as one line on
        stderr and gives exit status 1.
        """
        try:
            self.serve()
        except AgentError as e:
            raise SystemExit("lightwork agent: " + " ".join(str(e).split())) from None

    def serve(self) -> Optional[Goodbye]:
        """Connects and serves until SIGTERM or SIGINT, or until the node says
        goodbye, which it returns. Raises Unauthorized, Disconnected or
        ProtocolError otherwise.
        There is no reconnecting: a session token is good for one session, and
        the node starts a new process for the next.
        """
        session = self._connect()
        previous: List[Tuple[int, Any]] = []
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                previous.append((number, signal.signal(number, lambda *_: session.events.put(None))))
        try:
            return session.serve()
        finally:
            for which, handler in previous:
                signal.signal(which, handler)
            session.close()

    def _connect(self) -> _Session:
        token, self._token = self._token, ""  # can be used only once
        for value, variable in ((self._socket_path, ENV_SOCKET_PATH), (token, ENV_TOKEN)):
            if not value:
                raise AgentError("not launched by a node: %s is not set" % variable)
        if not _AGENT_ID.fullmatch(self.id):
            raise AgentError("missing or malformed agent id: set " + ENV_AGENT_ID)
        conn = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            conn.settimeout(_HANDSHAKE_SECONDS)
            conn.connect(self._socket_path)
            conn.settimeout(None)
            # Bounds only writes, which settimeout cannot.
            conn.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _WRITE_SECONDS, 0))
        except OSError as e:
            conn.close()
            raise Disconnected("connect to the node: %s" % e) from None
        session = _Session(self, conn)
        timer = threading.Timer(_HANDSHAKE_SECONDS, _shut, (conn,))
        timer.daemon = True
        timer.start()
        try:
            session.handshake(token)
            return session
        except BaseException:
            session.close()
            raise
        finally:
            timer.cancel()


def _compile(tool: str, doc: Json) -> _Schema:
    try:
        if len(_dumps(doc)) > _MAX_SCHEMA_BYTES:
            raise SchemaError("longer than %d bytes" % _MAX_SCHEMA_BYTES)
        if not isinstance(doc, dict):
            raise SchemaError("not an object")
        return _Schema(doc)
    except (TypeError, ValueError, RecursionError) as e:
        raise SchemaError("schema of %s: %s" % (tool, e)) from None
