/** What the API sends, under the names that screens use. */

export type Status = "created" | "running" | "waiting" | "completed" | "failed" | "canceled";
export type MemberState = "starting" | "working" | "waiting" | "quiet" | "stuck" | "idle" | "gone";
export type WaitsFor = "you" | "limit" | "budget" | "command" | "model";
export type Effect = "read" | "write" | "run" | "fetch" | "other";

export interface Project {
  id: string;
  name: string;
  root: string;
  problem?: ProblemBody | null;
}

export interface Task {
  project: string;
  id: string;
  session_id: string;
  parent_id: string | null;
  workflow: string;
  title: string;
  status: Status;
  reason: string;
  created_at: string;
  changed_at: string;
  pid: number | null;
  questions: string[];
  can_resume: boolean;
  rehearsal?: boolean;
}

export interface MemberDoing {
  member: string;
  agent: string;
  state: MemberState;
  reason: string;
  since: string;
  mode?: string;
  waits_for?: WaitsFor | null;
  until?: string | null;
  question?: string | null;
}

export interface TaskDetail extends Task {
  goal: string;
  team: string;
  members: MemberDoing[];
  summary: string;
  turns: number;
}

export interface Option {
  id: string;
  label: string;
  style: "primary" | "danger" | "plain";
  default: boolean;
  detail: string;
}

export interface Validation {
  regex?: string | null;
  required: boolean;
  meaning: string;
  example: string;
}

export interface About {
  kind: string;
  ticket?: string | null;
  [more: string]: unknown;
}

export interface Question {
  project: string;
  id: string;
  task: string;
  task_title: string;
  member: string;
  kind: "Select" | "Confirm" | "Input" | "Composite";
  purpose: string;
  title: string;
  description: string;
  content: string;
  content_kind: "PlainText" | "Json" | "Diff" | "Table";
  options: Option[];
  validation: Validation;
  state: "open" | "answered" | "closed";
  about: About | null;
  asked_at: string;
  answer?: string;
  answer_text?: string;
  answered_at?: string | null;
  by?: string;
}

/** What `about` holds for a question that asks for permission. */
export interface ToolPermission extends About {
  kind: "tool_permission";
  tool: string;
  cwd: string;
  effect: Effect;
  command: string;
  paths: string[];
  target: string;
  why: string;
  said: string;
  note: string;
  may_have_run_at: string | null;
}

export interface Usage {
  input_tokens: number | null;
  output_tokens: number | null;
  cost_usd: number | null;
}

export type TaskRecord = { type: "task"; id: string; workflow: string; status: Status };
export type MemberRecord = MemberDoing & { type: "member"; task: string };
export type MessageRecord = {
  type: "message";
  task: string;
  turn: number;
  member: string;
  text: string;
  next: string | null;
  duration_ms: number | null;
  usage: Usage | null;
  cut: boolean;
};
export type ToolCallRecord = {
  type: "tool_call";
  task: string;
  member: string;
  id: string;
  name: string;
  input: Record<string, unknown>;
  status: "started" | "completed" | "unknown";
  is_error: boolean | null;
  duration_ms: number | null;
  denied: string;
  not_run: string;
  effect?: Effect | null;
};
export type InteractionRecord = { type: "interaction" } & Partial<Question> & {
    id: string;
    task: string;
    member: string;
    title: string;
    state: Question["state"];
  };
export type TicketRecord = {
  type: "ticket";
  task: string;
  id: string;
  state: string;
  owner: string | null;
  title: string;
  message: string;
  dependencies: string[];
  checks: string;
};
export type PhaseRecord = {
  type: "phase";
  task: string;
  phase: string;
  step: string;
  status: string;
  round: number;
  gate: string;
  passed: boolean | null;
  issues: string[];
};
export type ErrorRecord = {
  type: "error";
  code: string;
  message: string;
  hint: string | null;
  member: string | null;
  where: string | null;
  task: string | null;
};
export type ResultRecord = {
  type: "result";
  task: string;
  status: Status;
  reason: string;
  summary: string;
  turns: number;
  usage: Usage | null;
  changed: string[];
};
export type Record_ =
  | TaskRecord
  | MemberRecord
  | MessageRecord
  | ToolCallRecord
  | InteractionRecord
  | TicketRecord
  | PhaseRecord
  | ErrorRecord
  | ResultRecord;

/** One line of a task's timeline, in its place in the store's own sequence. */
export interface Entry {
  seq: number;
  at: string;
  record: Record_;
}

export interface ToolCallDetail {
  id: string;
  name: string;
  member: string;
  input: Record<string, unknown>;
  output: Record<string, unknown> | null;
  diff?: string | null;
  is_error: boolean | null;
  duration_ms: number | null;
}

export interface ProblemBody {
  type: string;
  title: string;
  status: number;
  detail: string;
  hint?: string | null;
  where?: string | null;
}

/** What the event stream sends. */
export type StreamEvent =
  | { name: "record"; data: { project: string; task: string; seq: number; at: string; record: Record_ } }
  | { name: "delta"; data: { project: string; task: string; member: string; text: string } }
  | { name: "task"; data: Task }
  | { name: "question"; data: Question }
  | { name: "reset"; data: unknown };
