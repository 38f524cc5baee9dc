/** The API's types under the names that screens use; `api.d.ts` is generated from its description. */

import type { components } from "./api.d";

type Schemas = components["schemas"];

export type Project = Schemas["ProjectShown"];
export type Team = Schemas["TeamShown"];
export type Task = Schemas["TaskShown"];
export type TaskDetail = Schemas["TaskDetailShown"];
export type Member = Schemas["MemberShown"];
export type Question = Schemas["QuestionShown"];
export type Option = Schemas["OptionShown"];
export type ToolPermission = Schemas["ToolPermissionShown"];
export type Answered = Schemas["AnsweredShown"];
export type AnswerGiven = Schemas["AnswerGiven"];
export type ToolUse = Schemas["ToolUseShown"];
export type Usage = Schemas["Usage"];
export type Said = Schemas["SaidShown"];
export type ProblemBody = Schemas["Problem"];

/** One entry of a task's timeline, with its number in the project's order. */
export type Entry = Schemas["EntryShown"];
export type Page = Schemas["PageShown"];
export type TimelineRecord = Entry["record"];
export type RecordOf<Type extends TimelineRecord["type"]> = Extract<TimelineRecord, { type: Type }>;

export type Status = Task["status"];
export type MemberState = RecordOf<"member">["state"];
export type WaitsFor = NonNullable<RecordOf<"member">["waits_for"]>;
export type Effect = ToolPermission["effect"];

/** A member and what it is doing now. */
export type MemberDoing = Pick<
  RecordOf<"member">,
  "member" | "state" | "reason" | "since" | "waits_for" | "until" | "question"
> &
  Pick<Member, "agent" | "mode" | "type">;

/** A record added to a timeline; `seq` is null if it is not stored. */
export interface TimelineNews {
  project: string;
  task: string;
  seq: number | null;
  at: string;
  record: TimelineRecord;
}

/** A piece of a reply in progress, and its position in it. */
export interface TextDelta {
  project: string;
  task: string;
  member: string;
  turn: number;
  start: number;
  text: string;
}

/** An event of the event stream. */
export type StreamEvent =
  | { name: "record"; data: TimelineNews }
  | { name: "delta"; data: TextDelta }
  | { name: "task"; data: Task }
  | { name: "question"; data: Question }
  | { name: "reset"; data: unknown };
