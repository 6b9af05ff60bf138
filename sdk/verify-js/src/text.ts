import type { Claim, State } from "./claim.js";
import type { Report } from "./verify.js";

const meanings: Record<Report["exit_code"], string> = {
  0: "every required claim is proved",
  1: "a claim failed",
  3: "a required claim is not provable",
};

/** The report as text; with `explain`, with every step. */
export function formatReport(report: Report, explain: boolean): string {
  const lines = [
    `receipt   ${report.receipt_id}`,
    `provider  ${report.provider_id}`,
    `buyer     ${report.buyer_id}`,
    `amount    ${report.amount_msats} msats ${report.asset_id}, mode ${report.mode}, for the ${report.purpose}`,
    "",
    ...report.claims.flatMap((claim) => formatClaim(claim, explain)),
    "",
  ];
  if (report.self_asserted.length > 0) lines.push(`self-asserted: ${report.self_asserted.join(", ")}`);
  lines.push(...report.notes.map((note) => `note: ${note}`), "", `${meanings[report.exit_code]} (exit ${report.exit_code})`);
  return lines.map(printable).join("\n") + "\n";
}

function formatClaim(claim: Claim, explain: boolean): string[] {
  const lines = [`${column(claim.state)}  ${claim.name}${claim.required ? "" : " (not required)"}`, `${" ".repeat(14)}${claim.reason}`];
  if (!explain) return lines;
  const steps = claim.steps.map((s) => `${" ".repeat(16)}${s.number.padEnd(5)} ${column(s.state)}  ${s.check}${s.detail ? `: ${s.detail}` : ""}`);
  return [...lines, ...steps];
}

function column(state: State): string {
  return state.padEnd("not provable".length);
}

/** Characters that control a terminal or change the direction of text. */
const steering = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * The report as indented JSON. Characters that control a terminal, which JSON
 * allows in strings, are escaped.
 */
export function formatJson(report: Report): string {
  const escaped = (c: string) => Array.from({ length: c.length }, (_, i) => `\\u${c.charCodeAt(i).toString(16).padStart(4, "0")}`).join("");
  const text = JSON.stringify(report, null, 2).replace(steering, (c) => (c === "\n" ? c : escaped(c)));
  return `${text}\n`;
}

/** Reasons quote the bundle, which is untrusted: nothing in it may control a terminal. */
export function printable(line: string): string {
  return line.replace(steering, (c) => `\\u{${(c.codePointAt(0) ?? 0).toString(16)}}`);
}
