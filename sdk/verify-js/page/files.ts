/** Makes a bundle from a browser's files. */
import { Collector, readTar, UnusableError, type Bundle } from "../src/index.js";

export interface Given {
  path: string;
  file: File;
}

const archiveLimit = (256 << 20) + (1 << 20);

/**
 * A single file other than RECEIPT.json is an archive; otherwise the files are
 * those of a bundle.
 */
export async function readFiles(given: Given[]): Promise<Bundle> {
  const [only, ...more] = given;
  if (only && more.length === 0 && !only.path.endsWith("RECEIPT.json")) {
    if (only.file.size > archiveLimit) throw new UnusableError("the archive is too large");
    return readTar(await bytesOf(only.file));
  }
  const files = new Collector();
  const root = rootOf(given);
  for (const { path, file } of given) {
    const name = nameOf(path.slice(root.length));
    files.admit(name, file.size);
    files.add(name, await bytesOf(file));
  }
  return files.bundle();
}

/** A folder's files have its name at the start of every path. */
function rootOf(given: Given[]): string {
  const receipt = given.find(({ path }) => path === "RECEIPT.json" || path.endsWith("/RECEIPT.json"));
  const root = receipt?.path.slice(0, -"RECEIPT.json".length) ?? "";
  return given.every(({ path }) => path.startsWith(root)) ? root : "";
}

/**
 * Files chosen individually have lost their folder: those named by a digest are
 * artifacts.
 */
function nameOf(path: string): string {
  return /^[0-9a-f]{64}$/.test(path) ? `artifacts/${path}` : path;
}

async function bytesOf(file: File): Promise<Uint8Array> {
  return new Uint8Array(await file.arrayBuffer());
}

/** In Chromium, a page from file:// cannot read the entries of a folder. */
interface HandleItem {
  getAsFileSystemHandle?(): Promise<FileSystemHandle | null>;
}

/**
 * Reads dropped files and folders. Everything is taken from the items before
 * the first await, because they become invalid then.
 */
export async function readDropped(data: DataTransfer): Promise<Bundle> {
  const dropped = [...data.items].filter((item) => item.kind === "file").map((item) => {
    const entry = item.webkitGetAsEntry();
    if (!entry?.isDirectory) return { file: item.getAsFile() };
    return { entry, handle: (item as HandleItem).getAsFileSystemHandle?.() };
  });
  const given: Given[] = [];
  for (const { file, entry, handle } of dropped) {
    const directory = await handle;
    if (file) take(given, file.name, file);
    else if (directory) await takeHandle(given, directory, "");
    else if (entry) await takeEntry(given, entry);
  }
  if (given.length === 0) throw new UnusableError("nothing was dropped that can be read");
  return readFiles(given);
}

/** More files than a bundle can have; listing a whole disk would be pointless. */
const maxFiles = 1000;

function take(given: Given[], path: string, file: File): void {
  if (given.length === maxFiles) throw new UnusableError("more files than a bundle has");
  given.push({ path, file });
}

async function takeHandle(given: Given[], handle: FileSystemHandle, below: string): Promise<void> {
  const path = below + handle.name;
  if (handle.kind === "file") return take(given, path, await (handle as FileSystemFileHandle).getFile());
  for await (const child of (handle as FileSystemDirectoryHandle).values()) await takeHandle(given, child, `${path}/`);
}

async function takeEntry(given: Given[], entry: FileSystemEntry): Promise<void> {
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    return take(given, entry.fullPath.replace(/^\//, ""), file);
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const batch = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (batch.length === 0) return; // readEntries returns a part at a time
    for (const child of batch) await takeEntry(given, child);
  }
}
