/** What a member is doing, in the same words as on the terminal. */

import { oneLine, timeOfDay } from "./text";
import type { MemberDoing, MemberState, WaitsFor } from "./types";

const MARKS: Record<MemberState, string> = {
  starting: "●",
  working: "●",
  waiting: "▲",
  quiet: "◌",
  stuck: "■",
  idle: "○",
  gone: "○",
};
const WAITS: Record<WaitsFor, string> = {
  you: "asks you",
  limit: "waiting for a rate limit",
  budget: "waiting for a budget",
  command: "waiting for a command",
  model: "waiting for the model",
};
const QUIET: Partial<Record<WaitsFor, string>> = {
  command: "a command is still running",
  model: "the model has not answered",
};

export type Doing = Pick<
  MemberDoing,
  "state" | "reason" | "since" | "waits_for" | "until" | "question"
>;

/** A member without a turn. */
export const IDLE: Doing = { state: "idle", reason: "", since: "", waits_for: null, until: null, question: null };

export function markOf(doing: Doing): string {
  if (doing.state === "waiting" && doing.waits_for !== "you") return "◌";
  return MARKS[doing.state] ?? "○";
}

export function toneOf(doing: Doing): "plain" | "accent" | "warn" | "bad" {
  if (doing.state === "stuck") return "bad";
  if (doing.state === "quiet" || doing.state === "waiting") return "warn";
  return doing.state === "working" || doing.state === "starting" ? "accent" : "plain";
}

/** `working`, `asks you: q4`, `quiet`, `waiting for a rate limit until 14:05`. */
export function stateInWords(doing: Doing): string {
  let text: string = doing.state === "stuck" ? "stuck at its limit" : doing.state;
  if (doing.state === "waiting" && doing.waits_for) text = WAITS[doing.waits_for];
  if (doing.until) text += ` until ${timeOfDay(new Date(doing.until))}`;
  return text;
}

/** Details of the state: the tool in use, the question's id, why the member is quiet. */
export function moreInWords(doing: Doing): string {
  const more = doing.question ?? oneLine(doing.reason);
  if (doing.state !== "quiet" || !doing.waits_for) return more;
  return [QUIET[doing.waits_for], more].filter(Boolean).join(", ");
}
