/** A task's timeline as rows: pages of it, what comes live, and replies that are under way. */

import { api, at, problemOf, type Problem } from "./api";
import type { Entry, InteractionRecord, MessageRecord, Record_, StreamEvent, ToolCallRecord } from "./types";

const PAGE = 100;

/** What is shown as one row; the beginning and the end of a tool call are the same one. */
export interface Row {
  key: string;
  seq: number;
  at: string;
  record: Shown;
}
export type Shown = Exclude<Record_, { type: "member" } | { type: "task" }> | Reply;
/** A reply that is being written. */
export interface Reply {
  type: "reply";
  member: string;
  text: string;
}

/** Who a row belongs to; consecutive rows of one member stand under one heading. */
export function memberOf(record: Shown): string {
  return "member" in record && record.type !== "interaction" && record.type !== "error"
    ? (record.member ?? "")
    : "";
}

function isShown(record: Record_): record is Exclude<Record_, { type: "member" } | { type: "task" }> {
  return record.type !== "member" && record.type !== "task";
}

/** By this a later record of a tool call or a question takes the place of the earlier one. */
function sameAs(record: Record_): string {
  if (record.type === "tool_call") return `call.${record.member}.${record.id}`;
  return record.type === "interaction" ? `question.${record.id}` : "";
}

export class Timeline {
  rows = $state.raw<Row[]>([]);
  replies = $state.raw<ReadonlyMap<string, string>>(new Map());
  hasEarlier = $state(false);
  problem = $state.raw<Problem | null>(null);
  ready = $state(false);

  private entries = new Map<number, Entry>();
  private places = new Map<string, number>();
  private first = Infinity;
  private last = 0;
  private waiting: Entry[] = [];
  private reading: Promise<void> | null = null;

  constructor(
    private project: string,
    private task: string,
  ) {}

  /** The rows, with what is being written as the last of them. */
  all = $derived.by((): Row[] => {
    if (this.replies.size === 0) return this.rows;
    const written = [...this.replies].map(([member, text]): Row => {
      return { key: `reply.${member}`, seq: Infinity, at: "", record: { type: "reply", member, text } };
    });
    return [...this.rows, ...written];
  });

  /** Read the newest page; what is missing between it and what is known is not guessed at. */
  load(): Promise<void> {
    return (this.reading ??= this.readNewest().finally(() => (this.reading = null)));
  }

  private page(query: { before?: number; after?: number }): Promise<Entry[]> {
    const path = at("projects", this.project, "tasks", this.task, "timeline");
    return api.get<Entry[]>(path, { ...query, limit: PAGE });
  }

  private async readNewest(): Promise<void> {
    try {
      const page = (await this.page({})).sort((a, b) => a.seq - b.seq);
      const oldest = page[0]?.seq ?? 0;
      if (oldest > this.last) {
        this.entries.clear();
        this.first = Infinity;
        this.hasEarlier = page.length >= PAGE;
      }
      for (const entry of [...page, ...this.waiting]) this.keep(entry);
      this.waiting = [];
      this.replies = new Map();
      this.build();
      this.problem = null;
      this.ready = true;
    } catch (error) {
      this.problem = problemOf(error);
    }
  }

  /** Read the page before the first row. */
  async earlier(): Promise<void> {
    if (!this.hasEarlier) return;
    const page = await this.page({ before: this.first });
    for (const entry of page) this.keep(entry);
    this.hasEarlier = page.length >= PAGE;
    this.build();
  }

  hear(event: StreamEvent): void {
    if (event.name === "reset") return void this.load();
    if (event.name !== "record" && event.name !== "delta") return;
    const { project, task } = event.data;
    if (project !== this.project || task.split("/")[0] !== this.task) return;
    if (event.name === "delta") this.write(event.data.member, event.data.text);
    else this.add({ seq: event.data.seq, at: event.data.at, record: event.data.record });
  }

  private write(member: string, text: string): void {
    const replies = new Map(this.replies);
    replies.set(member, (replies.get(member) ?? "") + text);
    this.replies = replies;
  }

  private add(entry: Entry): void {
    if (entry.record.type === "message" || entry.record.type === "result") this.written(entry.record);
    if (!this.ready || this.reading) {
      this.waiting.push(entry);
      return;
    }
    if (!entry.seq || entry.seq <= this.last || this.entries.has(entry.seq)) return;
    this.keep(entry);
    this.rows = this.place([...this.rows], entry);
  }

  /** A reply is whole: its message takes its place. */
  private written(record: { type: string; member?: string }): void {
    if (this.replies.size === 0) return;
    const replies = new Map(this.replies);
    if (record.type === "result") replies.clear();
    else replies.delete(record.member ?? "");
    this.replies = replies;
  }

  private keep(entry: Entry): void {
    if (!entry.seq) return;
    this.entries.set(entry.seq, entry);
    this.first = Math.min(this.first, entry.seq);
    this.last = Math.max(this.last, entry.seq);
  }

  private build(): void {
    this.places.clear();
    let rows: Row[] = [];
    for (const entry of [...this.entries.values()].sort((a, b) => a.seq - b.seq)) {
      rows = this.place(rows, entry);
    }
    this.rows = rows;
  }

  private place(rows: Row[], entry: Entry): Row[] {
    const { record } = entry;
    if (!isShown(record)) return rows;
    const same = sameAs(record);
    const known = same ? this.places.get(same) : undefined;
    const before = known === undefined ? undefined : rows[known];
    if (known !== undefined && before) {
      rows[known] = { ...before, record: joined(before.record, record) };
    } else {
      if (same) this.places.set(same, rows.length);
      rows.push({ key: String(entry.seq), seq: entry.seq, at: entry.at, record });
    }
    return rows;
  }
}

/** What is known of a tool call or a question, from both of its records. */
function joined(before: Shown, after: ToolCallRecord | InteractionRecord | Shown): Shown {
  if (before.type === "tool_call" && after.type === "tool_call") {
    const input = Object.keys(after.input ?? {}).length ? after.input : before.input;
    return { ...before, ...after, input };
  }
  return { ...before, ...after } as Shown;
}

export type { MessageRecord };
