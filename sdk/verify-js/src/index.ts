export { limitOf, Collector, UnusableError, type Bundle } from "./bundle.js";
export type { Claim, State, Step } from "./claim.js";
export type { Pins } from "./evidence.js";
export { readTar } from "./tar.js";
export { claimNames, verify, type Report, type VerifyOptions } from "./verify.js";
