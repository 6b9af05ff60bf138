"""Tests of the SDK: each plays the node over a real Unix socket, in this process."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from typing import Any, Callable, Dict, List, Optional, Tuple
from unittest import mock

import lightwork_agent as sdk
from lightwork_agent import Agent, Call, Canceled, StreamEnded, StreamLimit, ToolError

ID = "com.example.test"
WAIT = 20.0  # seconds that nothing here takes, unless it hangs
Json = Dict[str, Any]


class Node:
    """The other end: it says exactly what a test wants."""

    def __init__(self, test: unittest.TestCase, **limits: Any) -> None:
        self.test = test
        self.dir = tempfile.TemporaryDirectory()
        test.addCleanup(self.dir.cleanup)
        path = os.path.join(self.dir.name, "s")
        self.listener = socket.socket(socket.AF_UNIX)
        test.addCleanup(self.listener.close)
        self.listener.bind(path)
        self.listener.listen(1)
        env = {sdk.ENV_SOCKET_PATH: path, sdk.ENV_TOKEN: "secret-token", sdk.ENV_AGENT_ID: ID}
        with mock.patch.dict(os.environ, env):
            self.agent = Agent("1.0.0", **limits)
            test.assertNotIn(sdk.ENV_TOKEN, os.environ)
        self.ended: Any = None  # what serve returned or raised

    def dial(self) -> None:
        """Runs the agent and takes its connection; the handshake is still to come."""
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        self.conn, _ = self.listener.accept()
        self.conn.settimeout(WAIT)
        self.test.addCleanup(self.join)
        self.test.addCleanup(self.close)

    def _run(self) -> None:
        try:
            self.ended = self.agent.serve()
        except BaseException as e:
            self.ended = e

    def serve(self) -> Node:
        """Runs the agent through the handshake and its first heartbeat."""
        self.dial()
        self.test.assertEqual(self.recv()["type"], "agent.hello")
        self.welcome()
        self.test.assertEqual(self.recv()["type"], "agent.tools.register")
        self.send("core.tools.registered", {"registered": []})
        self.test.assertEqual(self.recv()["type"], "agent.heartbeat")
        return self

    def close(self) -> None:
        self.conn.close()

    def join(self) -> Optional[BaseException]:
        """How the agent ended: the exception of run, or None."""
        self.thread.join(WAIT)
        self.test.assertFalse(self.thread.is_alive(), "the agent does not end")
        return self.ended

    def raw(self, text: str) -> None:
        data = text.encode("utf-8")
        self.conn.sendall(struct.pack(">I", len(data)) + data)

    def send(self, kind: str, payload: Any, **members: Any) -> None:
        doc = {"v": 1, "type": kind, "id": "m", "ts": "2026-01-16T12:00:00Z", "payload": payload}
        doc.update(members)
        self.raw(json.dumps(doc))

    def welcome(self, beat: int = 3_600_000, limit: int = sdk.MAX_FRAME_BYTES, **members: Any) -> None:
        self.send("core.welcome", {"accepted_version": 1, "session_id": "s1", "heartbeat_interval_ms": beat,
                                   "max_frame_bytes": limit, "server": {"core_version": "1", "instance_id": "i"},
                                   **members})

    def call(self, call_id: str, tool: str, value: Any = None, **payload: Any) -> None:
        self.send("core.tool.call", {"call_id": call_id, "tool_id": ID + "/" + tool,
                                     "input": {} if value is None else value, **payload},
                  id="m-" + call_id, request_id="r-" + call_id, correlation_id="c-" + call_id,
                  causation_id="d-" + call_id)

    def recv(self) -> Json:
        (size,) = struct.unpack(">I", self.exactly(4))
        message = json.loads(self.exactly(size))
        self.test.assertEqual(message["v"], 1)
        self.test.assertRegex(message["id"], r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
        self.test.assertRegex(message["ts"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.test.assertIsInstance(message["payload"], dict)
        return dict(message)

    def exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.conn.recv(size - len(data))
            if not part:
                raise EOFError("the agent closed the connection")
            data += part
        return data

    def result(self) -> Json:
        """The payload of the next message, which must be the result of a call."""
        message = self.recv()
        self.test.assertEqual(message["type"], "agent.tool.result", message)
        call_id = message["payload"]["call_id"]
        self.test.assertEqual(message["in_reply_to"], "m-" + call_id)
        self.echoes(message, call_id)
        return dict(message["payload"])

    def echoes(self, message: Json, call_id: str) -> None:
        got = [message.get(n) for n in ("request_id", "correlation_id", "causation_id")]
        self.test.assertEqual(got, ["r-" + call_id, "c-" + call_id, "d-" + call_id])

    def silent(self) -> None:
        """Fails if the agent has said anything before the answer to a ping."""
        self.send("core.ping", {}, id="ping")
        message = self.recv()
        self.test.assertEqual((message["type"], message.get("in_reply_to")), ("agent.pong", "ping"))


def code(result: Json) -> str:
    return str(result.get("error", {}).get("code", ""))


def wait(event: threading.Event) -> None:
    if not event.wait(WAIT):
        raise AssertionError("never happened")


class Handshake(unittest.TestCase):
    def test_hello_register_heartbeats(self) -> None:
        node = Node(self, manifest_hash="abc")

        @node.agent.tool(input_schema={"type": "object"}, tags=["t"], side_effects=True)
        def x(call: Call) -> None:
            """What x does."""

        node.dial()
        hello = node.recv()["payload"]
        self.assertEqual((hello["session_token"], hello["agent_id"], hello["agent_version"], hello["manifest_hash"]),
                         ("secret-token", ID, "1.0.0", "abc"))
        self.assertEqual(hello["protocol"]["supported_versions"], [1])
        node.welcome(beat=10)
        register = node.recv()["payload"]
        self.assertTrue(register["replace"])
        tool = register["tools"][0]
        self.assertEqual((tool["tool_id"], tool["name"], tool["description"]), (ID + "/x", "x", "What x does."))
        self.assertEqual((tool["tags"], tool["side_effects"]), (["t"], True))
        with self.assertLogs("lightwork.agent", "ERROR") as logs:
            node.send("core.tools.registered", {"registered": [], "rejected": [
                {"tool_id": ID + "/x", "error": {"code": "protocol.invalid_tool", "message": "no good"}}]})
            beats = [node.recv() for _ in range(3)]
        self.assertIn("no good", logs.output[0])
        for beat in beats:
            self.assertEqual(beat["type"], "agent.heartbeat")
            p = beat["payload"]
            self.assertEqual((p["session_id"], p["inflight_calls"], p["status"]), ("s1", 0, "ok"))
            self.assertGreaterEqual(p["uptime_ms"], 0)

    def test_refusals(self) -> None:
        def refused(n: Node) -> None:
            n.send("core.welcome", {}, error={"code": "protocol.unauthorized", "message": "no"})

        def not_registered(n: Node) -> None:
            n.welcome()
            n.send("core.error", {}, error={"code": "protocol.invalid_tool"})
        cases: List[Tuple[str, Callable[[Node], None], type]] = [
            ("refused", refused, sdk.Unauthorized),
            ("other version", lambda n: n.welcome(accepted_version=2), sdk.Unauthorized),
            ("no welcome", lambda n: n.send("core.ping", {}), sdk.ProtocolError),
            ("no interval", lambda n: n.welcome(beat=0), sdk.ProtocolError),
            ("no limit", lambda n: n.welcome(limit=0), sdk.ProtocolError),
            ("no session", lambda n: n.welcome(session_id=None), sdk.ProtocolError),
            ("closed", lambda n: n.conn.shutdown(socket.SHUT_RDWR), sdk.Disconnected),
            ("registration refused", not_registered, sdk.ProtocolError),
        ]
        for name, say, want in cases:
            with self.subTest(name):
                node = Node(self)
                node.dial()
                node.recv()
                say(node)
                ended = node.join()
                self.assertIsInstance(ended, want)
                self.assertNotIn("secret-token", repr(ended))

    def test_environment(self) -> None:
        env = {sdk.ENV_SOCKET_PATH: "/nowhere", sdk.ENV_TOKEN: "t", sdk.ENV_AGENT_ID: ID}
        for name in env:
            with self.subTest(name), mock.patch.dict(os.environ, {**env, name: ""}):
                with self.assertRaisesRegex(sdk.AgentError, name):
                    Agent("1.0.0").serve()
        with mock.patch.dict(os.environ, env), self.assertRaises(sdk.Disconnected):
            Agent("1.0.0").serve()
        with mock.patch.dict(os.environ, env), self.assertRaisesRegex(SystemExit, "^lightwork agent: connect to the node: "):
            Agent("1.0.0").run()
        self.assertRaises(ValueError, Agent, "one")

    def test_tools_are_checked_at_once(self) -> None:
        agent = Agent("1.0.0")

        def x(call: Call) -> None: ...
        agent.tool()(x)
        self.assertRaises(ValueError, agent.tool(), x)
        self.assertRaises(ValueError, agent.tool(name="a/b"), x)
        deep: Json = {}
        for _ in range(40):
            deep = {"items": deep}
        malformed: List[Json] = [
            {"type": 7}, {"type": "strange"}, {"properties": []}, {"required": "a"}, {"items": 3},
            {"anyOf": []}, {"minLength": -1}, {"maximum": "9"}, {"enum": 1}, {"x": object()}, deep,
            {"description": "x" * 70_000},
        ]
        for schema in malformed:
            with self.subTest(schema=str(schema)[:40]):
                self.assertRaises(sdk.SchemaError, agent.tool(name="y", input_schema=schema), x)


class Outcomes(unittest.TestCase):
    def test_results(self) -> None:
        node = Node(self, max_output_bytes=100)
        tool = node.agent.tool

        def raises(e: BaseException) -> Callable[[Call], Json]:
            def handler(call: Call) -> Json:
                raise e
            return handler
        loop: List[Any] = []
        loop.append(loop)
        handlers: Dict[str, Tuple[Callable[[Call], Any], str, str]] = {
            "nothing": (lambda c: None, "succeeded", ""),
            "object": (lambda c: {"a": "\u20ac"}, "succeeded", ""),
            "fails": (raises(ToolError("shop.closed", "come\nback", True, {"at": 8})), "failed", "shop.closed"),
            "strange": (raises(ToolError("shop.closed", "x", details={"x": object()})), "failed", "shop.closed"),
            "breaks": (raises(ValueError("canary")), "failed", "tool.failed"),
            "exits": (raises(SystemExit("canary")), "failed", "tool.internal"),
            "memory": (raises(MemoryError("canary")), "failed", "tool.internal"),
            "array": (lambda c: [1], "failed", "tool.invalid_output"),
            "twice": (lambda c: {1: 1, "1": 2}, "failed", "tool.invalid_output"),
            "no_json": (lambda c: {"a": object()}, "failed", "tool.failed"),
            "loop": (lambda c: {"a": loop}, "failed", "tool.failed"),
            "nan": (lambda c: {"a": float("nan")}, "failed", "tool.failed"),
            "half": (lambda c: {"a": "\ud800"}, "failed", "tool.failed"),
            "large": (lambda c: {"x": "x" * 100}, "failed", "tool.output_too_large"),
        }
        for name, (handler, _, _) in handlers.items():
            tool(name=name)(handler)
        tool(name="typed", input_schema={"required": ["a"]})(lambda c: {"ok": True})
        tool(name="slow", timeout=0.001)(lambda c: {} if not c.canceled.wait(WAIT) else raises(Canceled())(c))
        node.serve()
        with self.assertLogs("lightwork.agent", "ERROR"):
            for name, (_, status, want) in handlers.items():
                with self.subTest(name):
                    node.call(name, name)
                    result = node.result()
                    self.assertEqual((result["status"], code(result)), (status, want))
                    self.assertNotIn("canary", json.dumps(result))
                    self.assertNotIn("Traceback", json.dumps(result))
                    self.assertLessEqual(result["started_at"], result["finished_at"])
                    if name == "fails":
                        self.assertEqual(result["error"], {"code": "shop.closed", "message": "come back",
                                                           "where": "agent.runtime", "retryable": True,
                                                           "details": {"at": 8}})
                    if name == "object":
                        self.assertEqual(result["output"], {"a": "\u20ac"})
        node.call("a", "typed")
        self.assertEqual(code(node.result()), "tool.invalid_input")
        node.call("b", "slow")
        result = node.result()
        self.assertEqual((code(result), result["status"]), ("tool.timeout", "failed"))
        self.assertTrue(result["error"]["retryable"])
        node.call("c", "none")
        self.assertEqual(code(node.result()), "tool.unavailable")
        node.silent()

    def test_timeout_of_the_caller(self) -> None:
        node = Node(self)

        @node.agent.tool()
        def slow(call: Call) -> None:
            if call.canceled.wait(WAIT):
                raise RuntimeError("because of the timeout")
        node.serve()
        node.call("1", "slow", timeout_ms=1)
        self.assertEqual(code(node.result()), "tool.timeout")

    def test_hostile_input(self) -> None:
        node = Node(self)
        node.agent.tool(name="x")(lambda c: None)
        node.serve()
        form = ('{"v":1,"type":"core.tool.call","id":"m-1","ts":"2026-01-16T12:00:00Z","request_id":"r-1",'
                '"correlation_id":"c-1","causation_id":"d-1",'
                '"payload":{"call_id":"1","tool_id":"%s/x","input":{"a":%s}}}')
        for value in ("9" * 65, "1e999", "[" * 100 + "]" * 100, "9" * 100_000):
            node.raw(form % (ID, value))
            self.assertEqual(code(node.result()), "tool.invalid_input", value[:20])
        with self.assertLogs("lightwork.agent", "WARNING"):
            node.raw(form % (ID, "[" * 100_000 + "]" * 100_000))  # nobody can tell whose it is
            node.silent()

    def test_call_metadata(self) -> None:
        node = Node(self)
        seen: List[Call] = []
        node.agent.tool(name="x")(lambda c: seen.append(c))
        node.serve()
        node.call("1", "x", {"a": 1}, timeout_ms=5000, idempotency_key="k", context={"project_root": "/p"})
        node.result()
        c = seen[0]
        self.assertEqual((c.id, c.tool, c.input, c.timeout_ms, c.idempotency_key, c.request_id, c.correlation_id,
                          c.causation_id, c.context), ("1", "x", {"a": 1}, 5000, "k", "r-1", "c-1", "d-1",
                                                       {"project_root": "/p"}))


class Concurrency(unittest.TestCase):
    def test_many_calls(self) -> None:
        node = Node(self, max_inflight=3)
        release = threading.Event()
        node.agent.tool(name="wait")(lambda c: wait(release))
        node.agent.tool(name="quick")(lambda c: None)
        node.serve()
        node.call("1", "wait")
        node.call("2", "wait")
        node.call("3", "quick")
        self.assertEqual(node.result()["call_id"], "3")
        node.call("4", "wait")
        node.call("5", "quick")
        result = node.result()
        self.assertEqual((result["call_id"], code(result)), ("5", "tool.overloaded"))
        self.assertTrue(result["error"]["retryable"])
        node.call("1", "quick")  # its id is taken
        message = node.recv()
        self.assertEqual((message["type"], message["in_reply_to"], message["error"]["code"]),
                         ("agent.error", "m-1", "protocol.duplicate_call"))
        release.set()
        self.assertEqual(sorted(node.result()["call_id"] for _ in range(3)), ["1", "2", "4"])
        node.silent()

    def test_the_257th_call(self) -> None:
        node = Node(self)
        release = threading.Event()
        node.agent.tool(name="wait")(lambda c: wait(release))
        node.serve()
        for i in range(257):
            node.call(str(i), "wait")
        self.assertEqual(code(node.result()), "tool.overloaded")
        release.set()
        self.assertEqual({node.result()["status"] for _ in range(256)}, {"succeeded"})

    def test_inflight_in_heartbeats(self) -> None:
        node = Node(self)
        release = threading.Event()
        node.agent.tool(name="wait")(lambda c: wait(release))
        node.dial()
        node.recv()
        node.welcome(beat=5)
        node.recv()
        node.send("core.tools.registered", {"registered": []})
        node.call("1", "wait")
        end = time.monotonic() + WAIT
        while node.recv()["payload"]["inflight_calls"] != 1:
            self.assertLess(time.monotonic(), end)
        release.set()

    def test_cancel(self) -> None:
        node = Node(self)
        started = threading.Event()

        @node.agent.tool()
        def obeys(call: Call) -> None:
            started.set()
            if call.canceled.wait(WAIT):
                raise Canceled
        node.serve()
        node.call("1", "obeys")
        wait(started)
        node.send("core.tool.cancel", {"call_id": "1", "reason": "enough"}, id="k")
        ack, result = node.recv(), node.result()
        self.assertEqual((ack["type"], ack["in_reply_to"], ack["payload"]),
                         ("agent.tool.cancel_ack", "k", {"call_id": "1", "accepted": True}))
        node.echoes(ack, "1")
        self.assertEqual((result["status"], code(result)), ("canceled", "tool.canceled"))
        node.send("core.tool.cancel", {"call_id": "1"}, id="k2")
        ack = node.recv()
        self.assertEqual((ack["in_reply_to"], ack["payload"]["accepted"]), ("k2", False))

    def test_success_may_win_over_cancel(self) -> None:
        node = Node(self)
        started = threading.Event()

        @node.agent.tool()
        def finishes(call: Call) -> Json:
            started.set()
            wait(call.canceled)
            return {"n": 1}
        node.serve()
        node.call("1", "finishes")
        wait(started)
        node.send("core.tool.cancel", {"call_id": "1"})
        self.assertEqual(node.recv()["type"], "agent.tool.cancel_ack")
        self.assertEqual(node.result()["status"], "succeeded")
        node.silent()


class Streams(unittest.TestCase):
    def test_channels_and_limits(self) -> None:
        node = Node(self, max_stream_bytes=200_000)
        raised: List[type] = []
        kept: List[Call] = []

        def attempt(f: Callable[..., None], *args: Any) -> None:
            try:
                f(*args)
            except Exception as e:
                raised.append(type(e))

        @node.agent.tool()
        def x(call: Call) -> None:
            kept.append(call)
            call.stream("stdout", "a")
            call.stream("stderr", "b")
            call.stream("log", "c\udfff")
            call.partial({"p": 1})
            call.stream("status", "\u20ac" * 30_000)
            attempt(call.stream, "stdout", "x" * 150_000)
            attempt(call.stream, "partial_result", "x")
            attempt(call.partial, [1])
            attempt(call.partial, {1: 1, "1": 1})
            call.done()
            attempt(call.stream, "stdout", "after done")
        node.serve()
        node.call("1", "x")
        want = [("stdout", 1), ("stderr", 1), ("log", 4), ("partial_result", 0), ("status", 65535), ("status", 24465),
                ("stdout", 65536), ("status", 0)]
        for seq, (channel, size) in enumerate(want, 1):
            message = node.recv()
            p = message["payload"]
            got = len(p["data"].get("text", "").encode("utf-8"))
            self.assertEqual((message["type"], p["seq"], p["channel"], got), ("agent.tool.stream", seq, channel, size))
            self.assertEqual(p.get("done", False), seq == len(want))
            if channel == "partial_result":
                self.assertEqual(p["data"], {"json": {"p": 1}})
            node.echoes(message, "1")
        node.result()
        self.assertEqual(raised, [StreamLimit, ValueError, TypeError, ValueError, StreamEnded])
        self.assertRaises(StreamEnded, kept[0].stream, "log", "after the result")

    def pouring(self) -> Tuple[Node, threading.Event]:
        """A node that does not read, a call that streams to it for ever, and the event of its end."""
        node = Node(self, max_inflight=1, max_stream_bytes=1 << 40)
        ended = threading.Event()

        @node.agent.tool()
        def pours(call: Call) -> None:
            try:
                while True:
                    call.stream("stdout", "x" * 60_000)
            finally:
                ended.set()
        node.serve()
        node.call("1", "pours")
        return node, ended

    def test_cancel_ends_the_wait(self) -> None:
        node, ended = self.pouring()
        node.send("core.tool.cancel", {"call_id": "1"}, id="k")
        wait(ended)
        kinds: List[str] = []
        while not kinds or kinds[-1] != "agent.tool.result":
            message = node.recv()
            kinds.append(message["type"])
        self.assertEqual(message["payload"]["status"], "canceled")
        self.assertIn("agent.tool.cancel_ack", kinds)

    def test_goodbye_ends_the_wait(self) -> None:
        node, ended = self.pouring()
        for _ in range(20):  # more than the queue holds: the call has to wait
            node.recv()
        node.send("core.goodbye", {"reason": "shutdown"})
        wait(ended)

    def test_small_frames(self) -> None:
        node = Node(self)
        node.agent.tool(name="x")(lambda c: c.stream("stdout", "\x01" * 5000))
        node.agent.tool(name="large")(lambda c: {"x": "x" * 4000})
        node.dial()
        node.recv()
        node.welcome(limit=4096)
        node.recv()
        node.send("core.tools.registered", {"registered": []})
        node.recv()
        node.call("1", "x")
        text = ""
        while len(text) < 5000:
            text += node.recv()["payload"]["data"]["text"]
        self.assertEqual(node.result()["status"], "succeeded")
        node.call("2", "large")
        self.assertEqual(code(node.result()), "tool.output_too_large")


class Replays(unittest.TestCase):
    def setUp(self) -> None:
        self.node = Node(self)
        self.count = 0
        self.release = threading.Event()

        @self.node.agent.tool()
        def count(call: Call) -> Json:
            self.count += 1
            if call.input.get("wait"):
                wait(self.release)
            if call.input.get("fail"):
                raise ToolError("shop.closed", "later", retryable=call.input["fail"] == "retry")
            return {"n": self.count}
        self.node.serve()

    def outcome(self, call_id: str, value: Json, key: str = "k") -> Any:
        self.node.call(call_id, "count", value, idempotency_key=key)
        result = self.node.result()
        self.assertEqual(result["call_id"], call_id)
        return result.get("output", {}).get("n") or code(result)

    def test_same_key(self) -> None:
        self.assertEqual(self.outcome("1", {"a": 1, "b": 2}), 1)
        self.assertEqual(self.outcome("2", {"b": 2, "a": 1}), 1)
        self.assertEqual(self.outcome("3", {"a": 2}), "tool.invalid_input")
        self.assertEqual(self.outcome("4", {"a": 1}, key="other"), 2)
        self.assertEqual(self.outcome("5", {"a": 1}, key=""), 3)
        self.assertEqual(self.outcome("6", {"a": 1}, key=""), 4)

    def test_failures(self) -> None:
        self.assertEqual([self.outcome(i, {"fail": "x"}) for i in "12"], ["shop.closed"] * 2)
        self.assertEqual(self.count, 1)
        self.assertEqual([self.outcome(i, {"fail": "retry"}, key="r") for i in "34"], ["shop.closed"] * 2)
        self.assertEqual(self.count, 3)

    def test_at_the_same_time(self) -> None:
        for i in range(10):
            self.node.call(str(i), "count", {"wait": True}, idempotency_key="k")
        self.node.silent()  # all have been read
        self.node.send("core.tool.cancel", {"call_id": "9"}, id="k")
        self.assertTrue(self.node.recv()["payload"]["accepted"])
        result = self.node.result()  # call 9 only waits, so it ends at once; 0 is the one that runs
        self.assertEqual((result["call_id"], result["status"]), ("9", "canceled"))
        self.release.set()
        self.assertEqual([self.node.result()["output"]["n"] for _ in range(9)], [1] * 9)
        self.assertEqual(self.count, 1)


class HostileNode(unittest.TestCase):
    def test_bad_frames(self) -> None:
        def head(size: int, body: bytes = b"") -> bytes:
            return struct.pack(">I", size) + body
        for name, data in {
            "over the limit": head(1001), "all ones": head(0xFFFFFFFF), "empty": head(0), "array": head(2, b"[]"),
            "not UTF-8": head(3, b"{\xff}"), "surrogate": head(5, b"{\xed\xa0\x80}"), "half an object": head(1, b"{"),
            "byte order mark": head(5, b"\xef\xbb\xbf{}"),
        }.items():
            with self.subTest(name):
                node = Node(self, max_frame_bytes=1000).serve()
                node.conn.sendall(data)
                self.assertIsInstance(node.join(), sdk.ProtocolError)
                self.assertRaises((EOFError, ConnectionError), node.exactly, 1)

    def test_end_inside_a_frame(self) -> None:
        for data in (b"\0\0", struct.pack(">I", 100) + b'{"v":'):
            node = Node(self).serve()
            node.conn.sendall(data)
            node.close()
            self.assertIsInstance(node.join(), sdk.Disconnected)

    def test_largest_frame_in_pieces(self) -> None:
        node = Node(self)
        node.agent.tool(name="length")(lambda c: {"n": len(c.input["x"])})
        node.serve()
        doc = {"v": 1, "type": "core.tool.call", "id": "m-1", "ts": "2026-01-16T12:00:00.5+01:00", "request_id": "r-1",
               "correlation_id": "c-1", "causation_id": "d-1",
               "payload": {"call_id": "1", "tool_id": ID + "/length", "input": {"x": ""}}}
        room = sdk.MAX_FRAME_BYTES - len(json.dumps(doc))
        doc["payload"]["input"]["x"] = "x" * room  # type: ignore[index]
        data = json.dumps(doc).encode()
        self.assertEqual(len(data), sdk.MAX_FRAME_BYTES)
        data = struct.pack(">I", len(data)) + data
        for part in (data[:1], data[1:5], data[5:70_000], data[70_000:]):
            node.conn.sendall(part)
        self.assertEqual(node.result()["output"], {"n": room})

    def test_refused_messages(self) -> None:
        """Each breaks one rule, is answered as it has a request_id, and leaves the session intact."""
        node = Node(self)
        node.agent.tool(name="x")(lambda c: None)
        node.serve()
        good: Json = {"v": 1, "type": "core.tool.call", "id": "m", "ts": "2026-01-16T12:00:00Z", "request_id": "r",
                      "payload": {"call_id": "1", "tool_id": ID + "/x", "input": {}}}

        def changed(**members: Any) -> str:
            return json.dumps({k: v for k, v in {**good, **members}.items() if v is not Node})

        def payload(**members: Any) -> str:
            return changed(payload={k: v for k, v in {**good["payload"], **members}.items() if v is not Node})
        text = json.dumps(good)
        invalid = [
            changed(v=Node), changed(ts=Node), changed(payload=Node), changed(type=Node), changed(v="1"),
            changed(v=1.0), changed(v=True), changed(ts="yesterday"), changed(ts="2026-13-01T00:00:00Z"),
            changed(ts="2026-01-16T12:00:00"), changed(ts=5), changed(payload=[]), changed(payload=None),
            changed(type="core." + "x" * 100),
            changed(correlation_id=5), changed(causation_id="x" * 257), changed(actor={"type": "root", "id": "x"}),
            changed(actor={"type": "human"}), changed(actor=[]), changed(error={"code": "NO"}), changed(error=3),
            payload(call_id=Node), payload(call_id=""), payload(call_id="\u20ac" * 86), payload(tool_id="x"),
            payload(tool_id=ID + "/a/b"), payload(tool_id=ID + "/"), payload(input=Node), payload(input=[]),
            payload(timeout_ms=-1), payload(timeout_ms="5"), payload(timeout_ms=True), payload(timeout_ms=1 << 63),
            payload(idempotency_key=7), payload(caller={"type": "god", "id": "x"}), payload(context=[]),
            payload(context={"resource_paths": [1]}), payload(context={"ui": 1}),
            text.replace('"input": {}', '"input": {"a": NaN}'),
            text.replace('"input": {}', '"input": {"a": 1, "a": 1}'),
            text.replace('"v": 1', '"v": 1, "v": 1'), text.replace('"input": {}', '"input": {"a": "\\ud800"}'),
            text.replace('"input": {}', '"input": {"a": -Infinity}'),
        ]
        other = [(changed(v=2), "protocol.unsupported_version"),
                 (changed(type="core.dance"), "protocol.unknown_type"),
                 (changed(type="agent.pong"), "protocol.wrong_direction"),
                 (changed(type="core."), "protocol.wrong_direction"),
                 (changed(type="hello"), "protocol.wrong_direction")]
        with self.assertLogs("lightwork.agent", "WARNING"):
            for doc, want in [(doc, "protocol.invalid_message") for doc in invalid] + other:
                with self.subTest(doc[:200]):
                    node.raw(doc)
                    message = node.recv()
                    self.assertEqual((message["type"], message.get("in_reply_to"), message.get("request_id")),
                                     ("agent.error", "m", "r"))
                    self.assertEqual(message["error"]["code"], want)
            for doc in (changed(id=Node), changed(id=""), changed(request_id=Node, type="core.dance"),
                        changed(request_id=5), "{nonsense}", '{"v":1', text[:-1] + ",}"):
                node.raw(doc if doc.endswith("}") else doc + "}")
                node.silent()
        node.call("1", "x")
        self.assertEqual(node.result()["status"], "succeeded")

    def test_ignored(self) -> None:
        node = Node(self)
        node.agent.tool(name="x")(lambda c: {"got": c.input})
        node.serve()
        node.send("core.tools.unregistered", {"tool_ids": []})
        with self.assertLogs("lightwork.agent", "WARNING"):
            node.send("core.error", {}, error={"code": "protocol.invalid_message"})
            node.silent()
        # Unknown members, null for absent, a whole surrogate pair and an escaped backslash in front of a u.
        node.raw('{"v":1,"type":"core.tool.call","id":"m-1","ts":"2026-01-16T12:00:00Z","request_id":"r-1","new":1,'
                 '"correlation_id":"c-1","causation_id":"d-1","actor":null,"payload":{"call_id":"1","tool_id":"%s/x",'
                 '"timeout_ms":null,"caller":null,"more":[1],"input":{"a":"\\ud83d\\ude00","b":"\\\\ud800"}}}' % ID)
        self.assertEqual(node.result()["output"], {"got": {"a": "\U0001F600", "b": "\\ud800"}})


class End(unittest.TestCase):
    def setUp(self) -> None:
        self.stopped = threading.Event()
        self.node = Node(self)

        @self.node.agent.tool()
        def waits(call: Call) -> None:
            wait(call.canceled)
            self.stopped.set()
            raise Canceled
        self.node.serve()
        self.node.call("1", "waits")
        self.node.silent()

    def test_goodbye(self) -> None:
        self.node.send("core.goodbye", {"reason": "shutdown", "retry_after_ms": 5})
        self.assertEqual(self.node.result()["status"], "canceled")
        self.assertEqual(self.node.join(), sdk.Goodbye("shutdown", 5))
        wait(self.stopped)

    def test_closed(self) -> None:
        self.node.close()
        self.assertIsInstance(self.node.join(), sdk.Disconnected)
        wait(self.stopped)

    def test_no_thread_is_left(self) -> None:
        self.node.send("core.goodbye", {"reason": "shutdown"})
        self.node.join()
        wait(self.stopped)
        left = [t.name for t in threading.enumerate() if t.name.startswith("lightwork") and t.name != "lightwork-call"]
        self.assertEqual(left, [])


class Process(unittest.TestCase):
    def test_terminate(self) -> None:
        """SIGTERM cancels the calls, sends their results and ends with 0."""
        node = Node(self)
        here = os.path.dirname(os.path.abspath(__file__))
        env = {sdk.ENV_SOCKET_PATH: node.listener.getsockname(), sdk.ENV_TOKEN: "t", sdk.ENV_AGENT_ID: ID}
        command = [sys.executable, "-B", os.path.join(here, "reference", "reference_agent.py")]
        process = subprocess.Popen(command, env={**os.environ, **env}, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        node.conn, _ = node.listener.accept()
        self.addCleanup(node.close)
        node.conn.settimeout(WAIT)
        node.recv()
        node.welcome()
        node.recv()
        node.send("core.tools.registered", {"registered": []})
        node.recv()
        node.call("1", "stream_counter", {"count": 2, "interval_ms": 60_000})
        self.assertEqual(node.recv()["payload"]["data"], {"text": "1\n"})
        process.send_signal(signal.SIGTERM)
        self.assertEqual(node.result()["status"], "canceled")
        self.assertRaises(EOFError, node.exactly, 1)
        self.assertEqual((process.communicate(timeout=WAIT)[1], process.returncode), (b"", 0))


class Schemas(unittest.TestCase):
    def test_subset(self) -> None:
        s = {"type": "string"}
        cases: List[Tuple[Any, List[Any], List[Any]]] = [
            ({"type": "integer"}, [1, 1.0, -3], [1.5, True, "1", None]),
            ({"type": ["string", "null"]}, ["", None], [0, False]),
            ({"type": "number"}, [1, 1.5], [True, "1"]),
            ({"enum": [1, "a", None, [True]]}, [1, 1.0, "a", None, [True]], [True, [1], "b"]),
            ({"const": {"a": 1}}, [{"a": 1}], [{"a": True}, {}, {"a": 1, "b": 1}]),
            ({"minimum": 1, "exclusiveMaximum": 3}, [1, 2.9, "x", True], [0, 3]),
            ({"exclusiveMinimum": 1, "maximum": 3}, [2, 3], [1, 4]),
            ({"minLength": 1, "maxLength": 2}, ["\u20ac\u20ac", 5], ["", "abc"]),
            ({"pattern": "^a\\d"}, ["a1", 5], ["b", "a\u0664"]),
            ({"items": s, "minItems": 1, "maxItems": 2}, [["a"], {}], [[], [1], ["a", "b", "c"]]),
            ({"prefixItems": [{}], "items": s}, [[1], [1, "a"]], [[1, 2]]),
            ({"properties": {"a": s}, "required": ["a"], "additionalProperties": False, "maxProperties": 1},
             [{"a": "x"}, 5], [{}, {"a": 1}, {"a": "x", "b": 1}]),
            ({"additionalProperties": s, "minProperties": 1}, [{"a": "x"}], [{"a": 1}, {}]),
            ({"anyOf": [s, {"type": "null"}]}, ["a", None], [1]),
            ({"allOf": [s, {"minLength": 2}]}, ["ab"], ["a", 1]),
            ({"oneOf": [{"minimum": 1}, {"maximum": 3}]}, [0, 4], [2]),
            ({"properties": {"a": False, "b": True}}, [{"b": 1}], [{"a": 1}]),
            # What is not understood refuses nothing.
            ({"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}, [1, "x"], []),
            ({"patternProperties": {"^a": {}}, "additionalProperties": False}, [{"a1": 1}], []),
            ({"pattern": "\\p{Greek}"}, ["x"], []),
            ({"not": {}, "format": "date", "multipleOf": 2}, [3, "x"], []),
        ]
        for schema, good, bad in cases:
            compiled = sdk._Schema(schema)
            for value, want in [(v, True) for v in good] + [(v, False) for v in bad]:
                with self.subTest(schema=schema, value=value):
                    self.assertEqual(compiled._accepts(value), want)

    def test_reasons_hold_no_value(self) -> None:
        compiled = sdk._Schema({"properties": {"a/b": {"type": "array", "items": {"const": 1}}}, "required": ["c"],
                                "additionalProperties": False})
        for value, want in (({}, "missing c"), ({"c": 1, "d": "canary"}, "unknown c"),
                            ({"c": 1, "a/b": "canary"}, "unknown c")):
            with self.assertRaises(sdk._Invalid) as caught:
                compiled.check(value)
            self.assertEqual(str(caught.exception), want)
        compiled = sdk._Schema({"properties": {"a/b": {"type": "array", "items": {"const": 1}}}})
        for value, want in (({"a/b": "canary"}, "/a~1b: got string, want array"),
                            ({"a/b": [1, "canary"]}, "/a~1b/1: const does not hold")):
            with self.assertRaises(sdk._Invalid) as caught:
                compiled.check(value)
            self.assertEqual(str(caught.exception), want)


class Texts(unittest.TestCase):
    def test_tool_error(self) -> None:
        for bad in ("", "Shop.closed", "shop", "shop.", ".x", "a.b\n", "a." + "b" * 99):
            self.assertRaises(ValueError, ToolError, bad, "")
        error = ToolError("a.b", "x\x00\x1b\u20ac" + "\u20ac" * 1000 + "\ud800")
        self.assertTrue(error.message.startswith("x\u20ac\u20ac"))
        self.assertLessEqual(len(error.message.encode("utf-8")), 2048)

    def test_log_default(self) -> None:
        self.assertIs(Agent("1.0.0").log, logging.getLogger("lightwork.agent"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
