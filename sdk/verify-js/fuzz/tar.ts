import type { Bundle } from "../src/bundle.js";
import { utf8 } from "../src/hex.js";

/** A ustar archive of the files. */
export function writeTar(files: Bundle): Uint8Array {
  const parts: Uint8Array[] = [];
  for (const [name, data] of files) {
    parts.push(header(name, data.length), data, new Uint8Array((512 - (data.length % 512)) % 512));
  }
  return Buffer.concat([...parts, new Uint8Array(1024)]);
}

function header(name: string, size: number): Uint8Array {
  const block = new Uint8Array(512);
  const put = (text: string, at: number) => block.set(utf8(text), at);
  put(name, 0);
  put("0000644\0", 100);
  put(`${size.toString(8).padStart(11, "0")}\0`, 124);
  put("00000000000\0", 136);
  put(" ".repeat(8), 148);
  put("0", 156);
  put("ustar\x0000", 257);
  put(`${block.reduce((a, b) => a + b, 0).toString(8).padStart(6, "0")}\0 `, 148);
  return block;
}
