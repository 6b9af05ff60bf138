import { Collector, UnusableError, type Bundle } from "./bundle.js";
import { fromUtf8 } from "./hex.js";

const block = 512;
const maxEntries = 1000;

interface Entry {
  name: string;
  type: string;
  data: Uint8Array;
}

/**
 * Reads a bundle from a tar archive as made by tar(1): the files at the top, or
 * all in one folder. Links and devices are refused.
 */
export function readTar(archive: Uint8Array): Bundle {
  const files = new Collector();
  let root: string | undefined;
  for (const { name, type, data } of entries(archive)) {
    if (type === "5") continue;
    if (type !== "0" && type !== "\0") throw new UnusableError(`${JSON.stringify(name)} is not a regular file`);
    const [folder, file] = split(name);
    root ??= folder;
    if (folder !== root) throw new UnusableError(`${JSON.stringify(name)} is outside the bundle's folder`);
    files.add(file, data.slice());
  }
  return files.bundle();
}

/** Splits "folder/artifacts/x" into "folder" and "artifacts/x". */
function split(name: string): [folder: string, file: string] {
  const parts = name.split("/").filter((part) => part !== "" && part !== ".");
  const file = parts.splice(parts.at(-2) === "artifacts" ? -2 : -1).join("/");
  return [parts.join("/"), file];
}

function* entries(archive: Uint8Array): Generator<Entry> {
  let longName: string | undefined;
  let at = 0;
  for (let n = 0; at < archive.length; n++) {
    const header = archive.subarray(at, at + block);
    if (header.length < block) throw new UnusableError("tar: cut header");
    if (header.every((byte) => byte === 0)) break;
    if (n === maxEntries) throw new UnusableError(`tar: more than ${maxEntries} entries`);
    checkSum(header);
    const size = octal(header, 124, 12);
    const data = archive.subarray(at + block, at + block + size);
    if (data.length < size) throw new UnusableError("tar: cut file");
    at += block + Math.ceil(size / block) * block;
    const type = String.fromCharCode(header[156] ?? 0);
    if (type === "L" || type === "x") {
      longName = (type === "L" ? text(data, 0, size) : paxPath(data)) ?? longName;
      continue;
    }
    if (type === "g") continue; // a comment on the whole archive
    yield { name: longName ?? entryName(header), type, data };
    longName = undefined;
  }
  // Another program could read the rest as part of the archive.
  if (archive.subarray(at).some((byte) => byte !== 0)) throw new UnusableError("tar: data behind the end of the archive");
}

/** The path in a PAX header: records of the form "LENGTH path=VALUE\n". */
function paxPath(data: Uint8Array): string | undefined {
  let path: string | undefined;
  for (let at = 0; at < data.length; ) {
    const length = /^[1-9][0-9]{0,5}(?= )/.exec(text(data, at, 7))?.[0] ?? "";
    const record = text(data, at, Number(length));
    const [, key, value] = /^[0-9]+ ([^=]+)=(.*)\n$/s.exec(record) ?? [];
    if (key === undefined) throw new UnusableError("tar: bad extended header");
    if (key === "size" || key.startsWith("GNU.sparse")) throw new UnusableError("tar: a form of file that is not read");
    if (key === "path") path = value;
    at += Number(length);
  }
  return path;
}

function entryName(header: Uint8Array): string {
  const prefix = text(header, 257, 6) === "ustar" ? text(header, 345, 155) : "";
  const name = text(header, 0, 100);
  return prefix ? `${prefix}/${name}` : name;
}

function checkSum(header: Uint8Array): void {
  const sum = header.reduce((total, byte, i) => total + (i >= 148 && i < 156 ? 32 : byte), 0);
  if (sum !== octal(header, 148, 8)) throw new UnusableError("tar: not an archive, or damaged");
}

function octal(header: Uint8Array, at: number, length: number): number {
  const digits = text(header, at, length).trim();
  if (!/^[0-7]+$/.test(digits)) throw new UnusableError("tar: bad number");
  return parseInt(digits, 8);
}

/** Text up to the first NUL. */
function text(data: Uint8Array, at: number, length: number): string {
  const field = data.subarray(at, at + length);
  const end = field.indexOf(0);
  try {
    return fromUtf8(end < 0 ? field : field.subarray(0, end));
  } catch {
    throw new UnusableError("tar: a name is not UTF-8");
  }
}
