/** Frames: a 4-byte big-endian length and that many bytes of one JSON object (OS-2.1.1). */

import { AgentError } from "./errors.js";

export const headerBytes = 4;
/** Default limit of a payload (OS-2.2.1). */
export const defaultMaxBytes = 4 << 20;

const window = 64 << 10; // smallest buffer
const keepBytes = 256 << 10; // largest buffer kept between frames

/**
 * Receives bytes as they arrive and returns payloads. After an error the stream
 * cannot continue, and the caller must close it.
 */
export class FrameReader {
  readonly #limit: number;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  #buf = Buffer.allocUnsafe(window);
  #start = 0; // received and unread bytes: #buf from #start to #end
  #end = 0;
  #size = -1; // payload size of the frame being read; -1 before its header

  constructor(limit: number) {
    this.#limit = limit;
  }

  /**
   * Adds received bytes. The buffer grows with the bytes: a header alone
   * allocates nothing, and a body in tiny pieces no more than its size.
   */
  push(chunk: Buffer): void {
    const held = this.#end - this.#start;
    const need = held + chunk.length;
    if (this.#end + chunk.length > this.#buf.length || (held === 0 && this.#buf.length > keepBytes)) {
      const room = need > this.#buf.length ? Math.max(need, 2 * held) : Math.max(need, window);
      const buf = Buffer.allocUnsafe(room);
      this.#buf.copy(buf, 0, this.#start, this.#end);
      this.#buf = buf;
      this.#start = 0;
      this.#end = held;
    }
    chunk.copy(this.#buf, this.#end);
    this.#end += chunk.length;
  }

  /**
   * Returns the text of the next complete frame, or undefined until more bytes
   * arrive. Throws an AgentError "protocol" for a length of zero or over the
   * limit (before it waits for the body), for bytes that are not UTF-8, and for
   * a payload that is not an object.
   */
  next(): string | undefined {
    if (this.#size < 0) {
      if (this.#end - this.#start < headerBytes) {
        return undefined;
      }
      this.#size = this.#checked(this.#take(headerBytes).readUInt32BE());
    }
    if (this.#end - this.#start < this.#size) {
      return undefined;
    }
    const payload = this.#take(this.#size);
    this.#size = -1;
    return this.#text(payload);
  }

  #checked(size: number): number {
    if (size === 0) {
      throw new AgentError("protocol", "empty frame");
    }
    if (size > this.#limit) {
      throw new AgentError("protocol", `frame of ${size} bytes, the limit is ${this.#limit}`);
    }
    return size;
  }

  #text(payload: Buffer): string {
    let text: string;
    try {
      text = this.#decoder.decode(payload);
    } catch {
      throw new AgentError("protocol", "frame is not UTF-8");
    }
    if (!/^[ \t\r\n]*\{/.test(text) || !endsObject(text)) {
      throw new AgentError("protocol", "frame is not a JSON object");
    }
    return text;
  }

  /** Takes n available bytes; they are valid until the next push. */
  #take(n: number): Buffer {
    const taken = this.#buf.subarray(this.#start, this.#start + n);
    this.#start += n;
    if (this.#start === this.#end) {
      this.#start = this.#end = 0;
    }
    return taken;
  }
}

/** Skips trailing white space. A regular expression would retry at every position. */
function endsObject(text: string): boolean {
  let last = text.length - 1;
  while (last > 0 && " \t\r\n".includes(text.charAt(last))) {
    last--;
  }
  return text.charAt(last) === "}";
}

/** Returns one frame; undefined if the payload is larger than limit bytes. */
export function encodeFrame(text: string, limit: number): Buffer | undefined {
  const size = Buffer.byteLength(text);
  if (size > limit) {
    return undefined;
  }
  const frame = Buffer.allocUnsafe(headerBytes + size);
  frame.writeUInt32BE(size);
  frame.write(text, headerBytes);
  return frame;
}
