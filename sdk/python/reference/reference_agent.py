"""The reference agent: five small tools that show what an agent does."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any, Dict

# The SDK is the file one folder up; your own agent has a copy of it.
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from lightwork_agent import Agent, Call, Canceled, ToolError  # noqa: E402

agent = Agent(version="1.0.0")
TAGS = ["reference"]


def schema(properties: Dict[str, Any], *required: str) -> Dict[str, Any]:
    """Returns an object schema that allows only the given properties."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


@agent.tool(description="Greets by name.", tags=TAGS,
            input_schema=schema({"name": {"type": "string", "minLength": 1, "maxLength": 200}}),
            output_schema=schema({"greeting": {"type": "string"}}, "greeting"))
def hello_world(call: Call) -> Dict[str, Any]:
    return {"greeting": "Hello, " + call.input.get("name", "world") + "!"}


@agent.tool(description="Streams the numbers from 1 to count, then returns count.", tags=TAGS,
            input_schema=schema({"count": {"type": "integer", "minimum": 0, "maximum": 100000},
                                 "interval_ms": {"type": "integer", "minimum": 0, "maximum": 60000}}, "count"),
            output_schema=schema({"count": {"type": "integer"}}, "count"))
def stream_counter(call: Call) -> Dict[str, Any]:
    count = int(call.input["count"])
    for i in range(1, count + 1):
        call.stream("stdout", "%d\n" % i)
        pause(call, call.input.get("interval_ms", 0))
    call.done()
    return {"count": count}


@agent.tool(description="Sleeps for ms milliseconds, or until it is canceled.", tags=TAGS,
            input_schema=schema({"ms": {"type": "integer", "minimum": 0, "maximum": 3600000}}, "ms"),
            output_schema=schema({"slept_ms": {"type": "integer"}}, "slept_ms"))
def sleep(call: Call) -> Dict[str, Any]:
    pause(call, call.input["ms"])
    return {"slept_ms": int(call.input["ms"])}


@agent.tool(description="Finds every input invalid.", tags=TAGS)
def invalid_input(call: Call) -> Dict[str, Any]:
    raise ToolError("tool.invalid_input", "this tool accepts no input")


@agent.tool(description="Returns a text of bytes bytes; with as_file it writes the text to a file in the agent's "
                        "working directory and returns its path.", tags=TAGS, side_effects=True,
            input_schema=schema({"bytes": {"type": "integer", "minimum": 0, "maximum": 67108864},
                                 "as_file": {"type": "boolean"}}, "bytes"))
def large_output(call: Call) -> Dict[str, Any]:
    size = int(call.input["bytes"])
    text = "x" * size
    if not call.input.get("as_file"):
        return {"text": text}
    handle, path = tempfile.mkstemp(prefix="output-", suffix=".txt", dir=".")
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(text)
    return {"path": os.path.join(".", os.path.basename(path)), "bytes": size}


def pause(call: Call, ms: float) -> None:
    if call.canceled.wait(ms / 1000):
        raise Canceled


if __name__ == "__main__":
    agent.run()
