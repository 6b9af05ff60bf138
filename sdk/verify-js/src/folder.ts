/** Reads bundles in Node: a folder, a .tar file, or standard input. */
import { lstatSync, readdirSync, readFileSync, readSync, statSync } from "node:fs";
import { join } from "node:path";
import { Collector, UnusableError, type Bundle } from "./bundle.js";
import { fromUtf8 } from "./hex.js";
import { readTar } from "./tar.js";

/** The maximum size of a bundle's archive: the files and their headers. */
const archiveLimit = (256 << 20) + (1 << 20);

/** Opens a bundle named on the command line; "-" is a tar archive on standard input. */
export function openBundle(path: string): Bundle {
  try {
    if (path === "-") return readTar(readStdin());
    const stat = statSync(path);
    if (stat.isDirectory()) return readFolder(path);
    if (stat.size > archiveLimit) throw new UnusableError("the archive is too large");
    return readTar(readFileSync(path));
  } catch (error) {
    if (error instanceof UnusableError) throw error;
    throw new UnusableError((error as Error).message);
  }
}

/** The maximum size of a file of key changes. */
const keysLimit = 4 << 20;

/** Reads a file of key changes. */
export function readKeys(path: string): string {
  try {
    if (statSync(path).size > keysLimit) throw new UnusableError(`--keys: ${path} has more than ${keysLimit} bytes`);
    return fromUtf8(readFileSync(path));
  } catch (error) {
    if (error instanceof UnusableError) throw error;
    throw new UnusableError(`--keys: ${(error as Error).message}`);
  }
}

function readStdin(): Uint8Array {
  const chunks: Uint8Array[] = [];
  for (let total = 0; total <= archiveLimit; ) {
    const chunk = new Uint8Array(1 << 20);
    const n = readSync(0, chunk);
    if (n === 0) return Buffer.concat(chunks);
    chunks.push(chunk.subarray(0, n));
    total += n;
  }
  throw new UnusableError("the archive is too large");
}

function readFolder(root: string): Bundle {
  const files = new Collector();
  readEntries(files, root, "");
  return files.bundle();
}

function readEntries(files: Collector, root: string, below: string): void {
  for (const entry of readdirSync(join(root, below))) {
    const name = below + entry;
    const stat = lstatSync(join(root, name)); // a link is refused, not followed
    if (stat.isDirectory() && name === "artifacts") {
      readEntries(files, root, "artifacts/");
      continue;
    }
    if (!stat.isFile()) throw new UnusableError(`${JSON.stringify(name)} is not a regular file`);
    files.admit(name, stat.size);
    files.add(name, readFileSync(join(root, name)));
  }
}
