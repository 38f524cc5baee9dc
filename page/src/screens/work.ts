/** The API's data about tickets, pipelines and changes, and how its states are shown. */

import { api, Problem } from "../lib/api";
import type { Tone } from "../parts/Badge.svelte";
import type { Question, Usage } from "../lib/types";

export type TicketState = "pending" | "discussing" | "in_progress" | "blocked" | "awaiting_review" | "done" | "error";

export interface Ticket {
  task: string;
  id: string;
  state: TicketState;
  kind: Kind;
  owner: string | null;
  title: string;
  message: string;
  dependencies: string[];
  closed_by: string | null;
  checks: string;
  plan_task: string;
  waits_for: string[];
  asks: string | null;
  turns: number;
  seconds: number;
  tokens: number | null;
}

export interface Criterion {
  text: string;
  command?: string | null;
}

/** A message between manager, workers and Coterie about a ticket. */
export interface Envelope {
  timestamp: string;
  source: string;
  target: string;
  payload_type: string;
  payload: Record<string, unknown>;
}

export interface Moment {
  at: string;
  event: string;
  message: string;
}

export interface TicketPage extends Ticket {
  branch: string | null;
  history: Moment[];
  envelopes: Envelope[];
  failures?: { member: string; message: string }[];
  questions?: Question[];
  status?: string;
}

/** The state of a ticket, in the terminal's words. */
export type Kind = "blocked" | "ready" | "working" | "in review" | "failed" | "done" | "dropped" | "replaced";

const STATES: Record<TicketState, [mark: string, tone: Tone]> = {
  pending: ["○", "plain"],
  discussing: ["●", "accent"],
  in_progress: ["●", "accent"],
  blocked: ["■", "warn"],
  awaiting_review: ["◌", "accent"],
  done: ["✓", "good"],
  error: ["✗", "bad"],
};

export const isGone = ({ kind }: Ticket): boolean => kind === "dropped" || kind === "replaced";

export function toneOf(ticket: Ticket): Tone {
  return ticket.asks ? "warn" : isGone(ticket) || ticket.waits_for.length ? "plain" : STATES[ticket.state][1];
}

export function markOf(ticket: Ticket): string {
  return ticket.asks ? "▲" : isGone(ticket) ? "–" : STATES[ticket.state][0];
}

/** Whether all of its checks passed in their last run. */
export function passes({ checks }: Ticket): boolean {
  const [passed, total] = checks.split("/");
  return passed === total;
}

/** The ticket's state in words, with what blocks it. */
export function stateOf(ticket: Ticket): string {
  const { kind } = ticket;
  if (kind === "replaced") return `now ${ticket.closed_by}`;
  if (kind === "dropped") return ticket.closed_by ?? kind;
  if (ticket.asks) return `asks you · ${ticket.asks}`;
  return ticket.waits_for.length ? `blocked: ${ticket.waits_for.join(" ")}` : kind;
}

export interface FileStat {
  path: string;
  added: number | null;
  removed: number | null;
}

export interface Diff {
  task: string;
  patches: { folder: string; files: FileStat[]; patch: string }[];
  missed: { path: string; why: string }[];
  reverted_at: string | null;
  /** The commit that merged it into the user's branch. */
  accepted: string | null;
  problem: string | null;
}

export const patchOf = (diff: Diff): string => diff.patches.map((one) => one.patch).join("\n");

export interface CostRow {
  key: string;
  turns: number;
  untold: number;
  usage: (Usage & { source?: string }) | null;
}

/** How many characters of the end of a log are shown; the download has all of it. */
const LONGEST_LOG = 200_000;

export interface Excerpt {
  text: string;
  cut: boolean;
}

/** Load the text of an artifact. Throws Problem. */
export async function readText(path: string, signal?: AbortSignal): Promise<Excerpt> {
  const response = await fetch(api.address(path), { cache: "no-store", ...(signal ? { signal } : {}) });
  if (!response.ok) throw new Problem({ detail: `It could not be read: the server answered ${response.status}.` }, response.status);
  const text = await response.text();
  return { text: text.slice(-LONGEST_LOG), cut: text.length > LONGEST_LOG };
}

interface Payloads {
  instruction: Instruction;
  instruction_proposal: Proposal;
  report: Report;
  review: Review;
  error: Failure;
}

/** All payloads of one kind about a ticket, oldest first, each with its sender and time. */
export function payloadsOf<K extends keyof Payloads>(page: TicketPage, kind: K): (Payloads[K] & By)[] {
  return page.envelopes
    .filter((one) => one.payload_type === kind)
    .map(({ payload, source, timestamp }) => ({ ...(payload as unknown as Payloads[K]), source, timestamp }));
}

export function newest<K extends keyof Payloads>(page: TicketPage, kind: K): (Payloads[K] & By) | undefined {
  return payloadsOf(page, kind).at(-1);
}

interface By {
  source: string;
  timestamp: string;
}
interface Instruction {
  summary: string;
  steps?: string[];
  resources?: string[];
  acceptance_criteria?: Criterion[];
}
interface Proposal {
  summary: string;
  risks?: string[];
}
interface Report {
  status: string;
  outputs?: string[];
  evidence?: string[];
  issues?: string[];
  next_actions?: string[];
}
interface Review {
  decision: string;
  notes?: string;
  requested_changes?: string[];
}
interface Failure {
  code: string;
  message: string;
  resolution_hint?: string;
}

export interface Check {
  command: string;
  exit_code: number | null;
  tree: string;
  log: string;
  /** The digest of the log; empty if none is stored. */
  digest: string;
  at: string;
}

/** The latest outcome of each command that Coterie ran for a ticket, in the order of their first run. */
export function checksOf(page: TicketPage): Check[] {
  const found = new Map<string, Check>();
  for (const { payload, payload_type, timestamp } of page.envelopes) {
    const ran = payload_type === "artifact_ref" ? (payload.check as Partial<Check> | undefined) : undefined;
    if (!ran?.command) continue;
    const { command, exit_code = null, tree = "" } = ran;
    const digest = String(payload.digest ?? "").replace("sha256:", "");
    found.set(command, { command, exit_code, tree, log: String(payload.uri), digest, at: timestamp });
  }
  return [...found.values()];
}

export interface Phase {
  steps: string[];
  gate?: string | null;
  next?: string | null;
  back?: string | null;
  rounds: number;
}

export interface GateDecision {
  gate: string;
  passed: boolean;
  reasons: string[];
  tree: string;
}

export interface Actor {
  round: number;
  status: string;
  reason: string;
}

export interface Pipeline {
  graph: { name: string; description: string; start: string; phases: Record<string, Phase> };
  /** What each step does. */
  steps: Record<string, string>;
  phase: string;
  actors: Record<string, Actor>;
  gates: Record<string, GateDecision>;
  overrides: Record<string, string>;
  /** By name: the file below the task's artifacts. */
  artifacts: Record<string, string>;
  reverts: number;
  message: string;
  commit: string;
}

/** The phases in the order of a run; those reached only through a failed gate come last. */
export function inOrder({ graph }: Pipeline): string[] {
  const found = new Set<string>();
  for (const first of [graph.start, ...Object.keys(graph.phases)]) {
    let name: string | null | undefined = first;
    while (name && !found.has(name)) {
      found.add(name);
      name = graph.phases[name]?.next;
    }
  }
  return [...found];
}

/** A file that a task produced, requested by its digest. */
export interface Artifact {
  name: string;
  digest: string;
  size_bytes: number;
}

export interface CheckOutcome {
  command: string;
  exit_code: number | null;
  output: string;
  duration_ms: number;
  tree: string;
}

export interface Accepted {
  task: string;
  branch: string;
  before: string;
  commit: string;
  files: FileStat[];
  checks: CheckOutcome[];
  kept: { name: string; kept: string }[];
}

export interface Reverted {
  restored: string[];
  merged: string[];
  removed: string[];
  kept: { path: string; why: string }[];
}

/** A tool call in the audit log. */
export interface ToolUse {
  at: string;
  task: string;
  member: string;
  id: string;
  name: string;
  input: Record<string, unknown> | null;
  outcome: string;
  output: Record<string, unknown> | null;
  is_error: boolean | null;
  duration_ms: number | null;
}

export interface Audit {
  /** The newest first. */
  calls: ToolUse[];
  total: number;
}

export interface AuditCheck {
  rows: number;
  events: number;
  whole: boolean;
  envelopes: number;
  signed: number;
  problems: string[];
}
