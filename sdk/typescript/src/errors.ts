/** Codes of the protocol's error table that an agent uses. */
export const Code = {
  invalidMessage: "protocol.invalid_message",
  unknownType: "protocol.unknown_type",
  wrongDirection: "protocol.wrong_direction",
  unsupportedVersion: "protocol.unsupported_version",
  duplicateCall: "protocol.duplicate_call",
  invalidInput: "tool.invalid_input",
  invalidOutput: "tool.invalid_output",
  outputTooLarge: "tool.output_too_large",
  failed: "tool.failed",
  internal: "tool.internal",
  timeout: "tool.timeout",
  canceled: "tool.canceled",
  unavailable: "tool.unavailable",
  overloaded: "tool.overloaded",
} as const;

const maxCodeBytes = 100;
const maxMessageBytes = 2048;
const codeForm = /^[a-z][a-z0-9_]*(\.[a-z0-9_]+)+$/;

/** The standard error object (OS-3.3) in its wire form. */
export interface WireError {
  code: string;
  message: string;
  details?: Record<string, unknown>;
  retryable?: boolean;
  where?: string;
}

/**
 * A failure that is shown to the caller. Code and message are sent, so they
 * must not contain secrets. The code is dotted lower case, for example
 * "shop.closed"; other forms are sent as "tool.failed".
 */
export class ToolError extends Error {
  override readonly name = "ToolError";
  readonly retryable: boolean;
  readonly details: Record<string, unknown> | undefined;

  constructor(
    readonly code: string,
    message: string,
    options: { retryable?: boolean; details?: Record<string, unknown> } = {},
  ) {
    super(message);
    this.retryable = options.retryable ?? false;
    this.details = options.details;
  }
}

/**
 * How the agent itself failed:
 * - config: it cannot start like this
 * - unauthorized: the node refused the handshake
 * - disconnected: the node went away without a goodbye
 * - protocol: the node sent what cannot be read on from
 * - stream_limit, stream_ended: a chunk was refused
 */
export type AgentErrorCode =
  | "config"
  | "unauthorized"
  | "disconnected"
  | "protocol"
  | "stream_limit"
  | "stream_ended";

/** An error of this library. */
export class AgentError extends Error {
  override readonly name = "AgentError";

  constructor(
    readonly code: AgentErrorCode,
    message: string,
  ) {
    super(message);
  }
}

/** Reports whether code may be sent. */
export function validCode(code: unknown): code is string {
  return typeof code === "string" && code.length <= maxCodeBytes && codeForm.test(code);
}

/** Reports whether text is short enough for an error's message. */
export function fitsMessage(text: string): boolean {
  return Buffer.byteLength(text) <= maxMessageBytes;
}

/**
 * Makes text fit for an error message: well-formed, on one line, without
 * control characters, and no longer than the node accepts.
 */
export function safeText(text: string): string {
  const line = text
    .slice(0, maxMessageBytes) // a UTF-16 unit is at least one byte
    .toWellFormed()
    .replace(/[\n\t]/g, " ")
    .replace(/[\u0000-\u001f\u007f-\u009f]/g, "");
  return cutBytes(line, maxMessageBytes);
}

/**
 * Returns the longest prefix of at most limit bytes of UTF-8 that splits no
 * character.
 */
export function cutBytes(text: string, limit: number): string {
  if (text.length * 3 <= limit) {
    return text;
  }
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(limit));
  return text.slice(0, read);
}
