#!/usr/bin/env node
import { parseArgs } from "node:util";
import { UnusableError } from "./bundle.js";
import type { Pins } from "./evidence.js";
import { openBundle, readKeys } from "./folder.js";
import { formatJson, formatReport, printable } from "./text.js";
import { verify } from "./verify.js";

const usage = `usage: lightwork-verify-js [flags] BUNDLE

BUNDLE is a folder, a .tar file, or - for a tar archive on standard input.

flags:
  --provider KEY    the provider is this one (npub or hex)
  --buyer KEY       the buyer is this one (npub or hex)
  --payee KEY       the invoice is of this Lightning node (hex)
  --network NAME    mainnet, testnet, signet, regtest, simnet, play, chain:NAME or cashu:MINT
  --require LIST    claims that must be proved beside the first seven,
                    separated by commas, such as buyer_accepted,payee_pinned
  --also KEY        take this key (npub or hex), and those that key changes join it
                    with, for one holder's; may be repeated, needs --keys
  --keys FILE       the key changes that are known, as lightwork keys changes
                    writes them: a key is not believed after its end
  --explain         show every step
  --json            print the report as JSON

exit status:
  0  every required claim is proved and none failed
  1  a claim failed
  2  the bundle or the command line is unusable
  3  a required claim is not provable with what the bundle holds
`;

const text = { type: "string" } as const;
const flag = { type: "boolean", default: false } as const;

/** Runs the command line and returns the exit status. */
function run(args: string[]): number {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: { provider: text, buyer: text, payee: text, network: text, require: text, also: { ...text, multiple: true }, keys: text, explain: flag, json: flag, help: { ...flag, short: "h" } },
  });
  if (values.help) {
    process.stdout.write(usage);
    return 0;
  }
  const [path, ...more] = positionals;
  if (path === undefined || more.length > 0) throw new UnusableError(`want one bundle, got ${positionals.length} (--help explains the flags)`);
  const pins: Pins = {};
  for (const name of ["provider", "buyer", "payee", "network"] as const) {
    const pin = values[name];
    if (pin !== undefined) pins[name] = pin;
  }
  if (values.keys !== undefined) pins.keys = readKeys(values.keys);
  if (values.also !== undefined) {
    if (pins.keys === undefined) throw new UnusableError("--also: name the file with the key changes by --keys");
    pins.also = values.also;
  }
  const report = verify(openBundle(path), { pins, require: values.require?.split(",") ?? [] });
  process.stdout.write(values.json ? formatJson(report) : formatReport(report, values.explain));
  return report.exit_code;
}

try {
  process.exitCode = run(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`lightwork-verify-js: ${printable((error as Error).message)}\n`);
  process.exitCode = 2;
}
