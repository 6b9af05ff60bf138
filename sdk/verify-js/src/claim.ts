export type State = "proved" | "failed" | "not provable";

/** One numbered step of docs/protocol/receipt.md. */
export interface Step {
  number: string;
  check: string;
  state: State;
  detail?: string;
}

export interface Claim {
  name: string;
  state: State;
  reason: string;
  required: boolean;
  steps: Step[];
}

/** Thrown in a step that lacks evidence: the claim is not provable. */
export class Lacking extends Error {}

/** Ends a claim whose last step failed. */
class Ended extends Error {}

/** The steps of one claim, in order. */
export class Steps {
  readonly list: Step[] = [];

  /**
   * Runs one step and returns its result. Missing evidence makes the claim not
   * provable, and undefined is returned; later steps continue where they can.
   * Any other error is a contradiction and ends the claim.
   */
  step<T>(number: string, check: string, find: () => T): T | undefined {
    try {
      const found = find();
      this.list.push({ number, check, state: "proved" });
      return found;
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      const lacks = error instanceof Lacking;
      this.list.push({ number, check, state: lacks ? "not provable" : "failed", detail });
      if (!lacks) throw new Ended();
      return undefined;
    }
  }

  /** A step that only checks a condition. */
  demand(number: string, check: string, ok: boolean, otherwise: string): void {
    this.step(number, check, () => require(ok, otherwise));
  }
}

export function require(ok: boolean, otherwise: string): void {
  if (!ok) throw new Error(otherwise);
}

/** Runs the steps of a claim; `prove` returns the reason if the claim is proved. */
export function grade(name: string, required: boolean, prove: (steps: Steps) => string): Claim {
  const steps = new Steps();
  let reason = "";
  try {
    reason = prove(steps);
  } catch (error) {
    if (!(error instanceof Ended)) throw error;
  }
  const worst = steps.list.find((s) => s.state === "failed") ?? steps.list.find((s) => s.state === "not provable");
  if (worst) reason = `${worst.check}: ${worst.detail ?? ""}`;
  return { name, state: worst?.state ?? "proved", reason, required, steps: steps.list };
}
