/** A bundle: its files by name, as in the table of docs/protocol/receipt.md. */
export type Bundle = ReadonlyMap<string, Uint8Array>;

/** The bundle cannot be read, or is not a bundle (exit status 2). */
export class UnusableError extends Error {}

const MiB = 1 << 20;
const documentLimit = MiB;
const workLimit = 64 * MiB;
const totalLimit = 256 * MiB;
const maxArtifacts = 128;
const artifactName = /^artifacts\/[0-9a-f]{64}$/;

const limits: ReadonlyMap<string, number> = new Map([
  ["RECEIPT.json", documentLimit],
  ["RECEIPT.event.json", documentLimit],
  ["QUOTE.json", documentLimit],
  ["QUOTE.event.json", documentLimit],
  ["ACCEPTANCE.event.json", documentLimit],
  ["REQUEST.event.json", documentLimit],
  ["INPUTS.jsonl", documentLimit],
  ["RESULT.event.json", documentLimit],
  ["RESULT.json", workLimit],
  ["SEAL.json", documentLimit],
  ["REPLAY.jsonl", workLimit],
  ["POLICY.json", documentLimit],
  ["PR_SUMMARY.md", documentLimit],
  ["PREVIOUS_RECEIPT.json", documentLimit],
  ["PRUNED.event.json", documentLimit],
]);

/** The maximum size of a file with this name; undefined if a bundle has no such file. */
export function limitOf(name: string): number | undefined {
  return artifactName.test(name) ? workLimit : limits.get(name);
}

/**
 * Collects files within the limits of a bundle; a file of known size is checked
 * before it is read.
 */
export class Collector {
  private readonly files = new Map<string, Uint8Array>();
  private total = 0;
  private artifacts = 0;

  /**
   * Checks that a file of this name and size may be added; throws an
   * UnusableError if not.
   */
  admit(name: string, size: number): void {
    const limit = limitOf(name);
    if (limit === undefined) throw new UnusableError(`${JSON.stringify(name)} is no file of a bundle`);
    if (this.files.has(name)) throw new UnusableError(`${name} is there twice`);
    if (size > limit) throw new UnusableError(`${name} has more than ${limit} bytes`);
    if (this.total + size > totalLimit) throw new UnusableError(`the bundle has more than ${totalLimit} bytes`);
    if (artifactName.test(name) && this.artifacts === maxArtifacts) throw new UnusableError(`more than ${maxArtifacts} artifacts`);
  }

  add(name: string, data: Uint8Array): void {
    this.admit(name, data.length);
    this.files.set(name, data);
    this.total += data.length;
    if (artifactName.test(name)) this.artifacts++;
  }

  bundle(): Bundle {
    return this.files;
  }
}
