import { UnusableError, verify, type Bundle, type Claim, type Pins, type Report } from "../src/index.js";
import { printable } from "../src/text.js";
import { readDropped, readFiles } from "./files.js";

const report = element("report");
const drop = element("drop");

/** The bundle shown; it is verified again when the pins change. */
let shown: Bundle | undefined;

function element(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no ${id}`);
  return found;
}

function make(tag: string, className: string, ...children: (string | Node)[]): HTMLElement {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children); // text becomes text nodes, so nothing in a bundle is interpreted as markup
  return made;
}

function pinned(): Pins {
  const pins: Pins = {};
  for (const name of ["provider", "buyer", "payee", "network"] as const) {
    const field = document.querySelector<HTMLInputElement | HTMLSelectElement>(`#pins [name=${name}]`);
    const value = field?.value.trim();
    if (value) pins[name] = value;
  }
  return pins;
}

async function open(read: () => Promise<Bundle>): Promise<void> {
  shown = undefined;
  report.replaceChildren(make("p", "", "Reading…"));
  try {
    shown = await read();
  } catch (error) {
    return showError(error);
  }
  show();
}

function show(): void {
  if (!shown) return;
  try {
    showReport(verify(shown, { pins: pinned() }));
  } catch (error) {
    showError(error);
  }
}

function showError(error: unknown): void {
  const reason = error instanceof UnusableError ? error.message : `The bundle cannot be read: ${String(error)}`;
  const line = make("p", "exit2", `Unusable: ${printable(reason)}`);
  line.id = "summary";
  report.replaceChildren(line);
}

const summaries: Record<Report["exit_code"], string> = {
  0: "Every required claim is proved.",
  1: "A claim failed: this bundle contradicts itself or what you know.",
  3: "A required claim is not provable with what the bundle holds.",
};

function showReport(r: Report): void {
  const summary = make("p", `exit${r.exit_code}`, summaries[r.exit_code]);
  summary.id = "summary";
  const facts = make("dl", "");
  for (const [name, value] of [
    ["receipt", r.receipt_id], ["provider", r.provider_id], ["buyer", r.buyer_id],
    ["amount", `${r.amount_msats} msats ${r.asset_id}, mode ${r.mode}, for the ${r.purpose}`], ["self-asserted", r.self_asserted.join(", ") || "nothing"],
  ] as const) {
    facts.append(make("dt", "", name), make("dd", "", printable(value)));
  }
  report.replaceChildren(summary, facts, ...r.claims.map(claimElement), ...r.notes.map((note) => make("p", "optional", `Note: ${printable(note)}`)));
}

function claimElement(claim: Claim): HTMLElement {
  const state = (s: Claim["state"]) => make("span", `state ${s === "not provable" ? "open" : s}`, s);
  const head = make("summary", "", state(claim.state), make("strong", "", claim.name));
  if (!claim.required) head.append(make("span", "optional", "not required"));
  head.append(make("span", "reason", printable(claim.reason)));
  const steps = claim.steps.map((s) =>
    make("li", "", make("span", "number", s.number), state(s.state), ` ${s.check}${s.detail ? `: ${printable(s.detail)}` : ""}`),
  );
  const details = make("details", "claim", head, make("ol", "", ...steps));
  details.dataset["claim"] = claim.name;
  details.dataset["state"] = claim.state;
  return details;
}

function chooser(button: string, input: string): void {
  const field = element(input) as HTMLInputElement;
  element(button).addEventListener("click", () => field.click());
  field.addEventListener("change", () => {
    const files = [...(field.files ?? [])];
    field.value = ""; // so that the same file can be chosen again
    if (files.length > 0) void open(() => readFiles(files.map((file) => ({ path: file.webkitRelativePath || file.name, file }))));
  });
}

chooser("choose-file", "files");
chooser("choose-folder", "folder");
element("pins").addEventListener("change", show);
for (const name of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(name, (event) => {
    event.preventDefault(); // else the browser would open the file instead of the page
    drop.classList.toggle("over", name === "dragover");
  });
}
document.addEventListener("drop", (event) => {
  const { dataTransfer } = event;
  if (dataTransfer) void open(() => readDropped(dataTransfer));
});
