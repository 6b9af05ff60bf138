/** The rules of oa.sandbox_run.v1. */
import { isHex, utf8 } from "./hex.js";
import { canonical, type ObjectValue, type Value } from "./json.js";
import { count, demand, list, object, text, values, type Rules } from "./rules.js";

const maxPathBytes = 1024;
const maxAddress = 2048;
const maxCommandBytes = 8 << 10;
const maxEnvBytes = 32 << 10;
const maxPreviewBytes = 16 << 10;

/**
 * A NUL ends a string for the operating system, so another command than the
 * signed one would run.
 */
function bounded(value: string, limit: number, path: string): void {
  demand(utf8(value).length <= limit, path, `has more than ${limit} bytes`);
  demand(!value.includes("\0"), path, "contains a NUL");
}

/** A clean path has no empty, `.` or `..` part. */
function isCleanRelative(path: string): boolean {
  return path.split("/").every((part) => part !== "" && part !== "." && part !== "..");
}

function relativePath(value: string, path: string): void {
  bounded(value, maxPathBytes, path);
  demand(isCleanRelative(value), path, "is no clean relative path");
}

export const sandboxRun: Rules = {
  request(request) {
    checkRepo(object(request, "repo"));
    list(request, "commands").forEach((command, i) => {
      bounded(text(command, "cmd"), maxCommandBytes, `commands[${i}].cmd`);
      const workdir = text(command, "workdir");
      if (workdir.startsWith("/")) bounded(workdir, maxPathBytes, `commands[${i}].workdir`);
      else if (workdir !== "") relativePath(workdir, `commands[${i}].workdir`);
    });
    for (const [name, value] of object(request, "env")) bounded(value as string, maxEnvBytes, `env.${name}`);
    checkExpected(request);
  },
  result(result) {
    list(result, "runs").forEach((run, i) => {
      bounded(text(run, "cmd"), maxCommandBytes, `runs[${i}].cmd`);
      for (const name of ["stdout_preview", "stderr_preview"]) {
        demand(utf8(text(run, name)).length <= maxPreviewBytes, `runs[${i}].${name}`, `has more than ${maxPreviewBytes} bytes`);
      }
    });
    const paths = list(result, "artifacts").map((artifact) => text(artifact, "path"));
    paths.forEach((path, i) => relativePath(path, `artifacts[${i}].path`));
    demand(new Set(paths).size === paths.length, "artifacts", "list a path twice");
    checkStatus(result);
  },
  answer(request, result) {
    const ordered = text(object(request, "sandbox"), "image_digest");
    demand(text(object(result, "env_info"), "image_digest") === ordered, "env_info.image_digest", "is not the image that was ordered");
    const status = text(result, "status");
    demand(status !== "error" && status !== "cancelled", "status", "is one that nobody pays for");
    checkRuns(list(request, "commands"), list(result, "runs"), status);
    checkExpectation(object(object(request, "verification"), "expected"), result);
  },
  agreement(result, stdout) {
    const runs = list(result, "runs");
    const artifacts = list(result, "artifacts").map((a): ObjectValue => new Map([["path", text(a, "path")], ["sha256", text(a, "sha256")]]));
    // In the order of the paths' bytes, which for UTF-8 is that of code points.
    artifacts.sort((a, b) => compareBytes(utf8(text(a, "path")), utf8(text(b, "path"))));
    const printed: [string, Value][] = stdout ? [["stdout_sha256", runs.map((run) => text(run, "stdout_sha256"))]] : [];
    return new Map<string, Value>([
      ...printed,
      ["image_digest", text(object(result, "env_info"), "image_digest")],
      ["commands", runs.map((run) => text(run, "cmd"))],
      ["exit_codes", runs.map((run) => count(run, "exit_code"))],
      ["artifacts", artifacts],
      ["status", text(result, "status")],
    ]);
  },
};

function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const at = a.findIndex((byte, i) => byte !== b[i]);
  return at < 0 ? a.length - b.length : (a[at] ?? 0) - (b[at] ?? -1);
}

const archivePrefix = "data:application/gzip;base64,";
const bundlePrefix = "data:application/x-git-bundle;base64,";

/** The bytes of a tree that are in one chunk, which may have 8 MiB on a blob server. */
const partBytes = (8 << 20) - (64 << 10);

function checkRepo(repo: ObjectValue): void {
  if (repo.has("tree")) {
    const tree = object(repo, "tree");
    demand(text(repo, "source") === "", "repo.tree", "is there together with a source");
    demand(list(tree, "chunks").length === Math.ceil(count(tree, "size") / partBytes), "repo.tree.chunks", "are not as many as the size makes");
  }
  checkSource(text(repo, "source"), text(repo, "git_ref"));
  const mount = text(repo, "mount_path");
  bounded(mount, maxPathBytes, "repo.mount_path");
  demand(mount.startsWith("/") && isCleanRelative(mount.slice(1)), "repo.mount_path", "is no clean absolute path below /");
}

function checkSource(source: string, gitRef: string): void {
  const isURL = /^https?:\/\//.test(source);
  if (isURL || source.startsWith(bundlePrefix)) {
    demand(isHex(gitRef, 20) || isHex(gitRef, 32), "repo.git_ref", "is not the full id of a commit");
    if (isURL) demand(source.length <= maxAddress, "repo.source", "is an address of more than 2048 characters"); // its form is in the schema
    else demand(decodeBase64(source.slice(bundlePrefix.length)) !== undefined, "repo.source", "is not base64");
    return;
  }
  demand(gitRef === "", "repo.git_ref", "means nothing without a git repository");
  if (source === "") return;
  demand(source.startsWith(archivePrefix), "repo.source", "is of no known form");
  const archive = decodeBase64(source.slice(archivePrefix.length));
  demand(archive !== undefined && archive.startsWith("\x1f\x8b"), "repo.source", "is no gzip archive in base64");
}

/** Strict base64: padded, without white space and stray bits. */
function decodeBase64(encoded: string): string | undefined {
  if (!/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(encoded)) return undefined;
  const bytes = atob(encoded);
  return btoa(bytes) === encoded ? bytes : undefined;
}

function checkExpected(request: ObjectValue): void {
  const verification = object(request, "verification");
  if (!verification.has("expected")) return;
  const path = "verification.expected";
  const expected = object(verification, "expected");
  const codes = values(expected, "exit_codes").length;
  demand(codes > 0 || object(expected, "artifacts").size > 0, path, "states nothing");
  demand(codes <= list(request, "commands").length, `${path}.exit_codes`, "are more than there are commands");
  for (const name of object(expected, "artifacts").keys()) relativePath(name, `${path}.artifacts.${name}`);
}

function checkStatus(result: ObjectValue): void {
  const runs = list(result, "runs");
  const failed = runs.some((run) => count(run, "exit_code") !== 0);
  const status = text(result, "status");
  if (status === "success") demand(runs.length > 0 && !failed, "status", "is success, but not every run was, or none ran");
  if (status === "failed") demand(failed, "status", "is failed, but every run exited with 0");
}

function checkRuns(commands: ObjectValue[], runs: ObjectValue[], status: string): void {
  demand(runs.length <= commands.length, "runs", "are more than were ordered");
  const endsJob = (i: number) => count(runs[i] ?? new Map(), "exit_code") !== 0 && commands[i]?.get("continue_on_fail") !== true;
  runs.forEach((run, i) => {
    demand(run.get("cmd") === commands[i]?.get("cmd"), `runs[${i}].cmd`, "is not the command that was ordered");
    demand(i === 0 || !endsJob(i - 1), `runs[${i}]`, "came after a failure that ends the job");
  });
  if (runs.length === commands.length) return;
  demand(status !== "success", "status", "is success, but not every command ran");
  demand(status !== "failed" || endsJob(runs.length - 1), "runs", "stop early, but not at a failure that ends the job");
}

function checkExpectation(expected: ObjectValue, result: ObjectValue): void {
  const codes = values(expected, "exit_codes");
  const got = list(result, "runs").map((run) => count(run, "exit_code"));
  demand(codes.length === 0 || canonical(codes) === canonical(got), "runs", "have not the exit codes that were expected");
  const artifacts = new Map(list(result, "artifacts").map((a) => [text(a, "path"), text(a, "sha256")]));
  for (const [path, digest] of object(expected, "artifacts")) {
    demand(artifacts.get(path) === digest, "artifacts", `have no ${path} with the digest that was expected`);
  }
}
