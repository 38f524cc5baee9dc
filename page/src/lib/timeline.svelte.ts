/** A task's timeline as rows: pages of it, what comes live, and replies that are under way. */

import { api, at, isPassing, problemOf, RETRY, type Problem } from "./api";
import type { Entry, Page, RecordOf, StreamEvent, TextDelta, TimelineNews, TimelineRecord } from "./types";

const PAGE = 100;

/** A reply that is being written. */
export interface Reply {
  type: "reply";
  member: string;
  text: string;
}
export type Shown = Exclude<TimelineRecord, { type: "member" | "delta" }> | Reply;

/** What is shown as one row; the beginning and the end of a tool call are the same one. */
export interface Row {
  key: string;
  seq: number;
  at: string;
  record: Shown;
  /** Whether it begins what a member says and does: then it is headed by the member's name. */
  isFirst: boolean;
}

/** Who a row belongs to; consecutive rows of one member stand under one heading. */
export function memberOf(record: Shown): string {
  const own = record.type === "message" || record.type === "reply" || record.type === "tool_call";
  return own ? record.member : "";
}

function isFirst(record: Shown, before: Row | undefined): boolean {
  const member = memberOf(record);
  if (member === "") return false;
  return before === undefined || before.record.type === "message" || memberOf(before.record) !== member;
}

const ENDED = ["completed", "failed", "canceled"];

function isShown(record: TimelineRecord): record is Exclude<Shown, Reply> {
  if (record.type === "task") return ENDED.includes(record.status);
  // Whose turn it is shows where one speaks, and what was said is a message.
  if (record.type === "interaction") return record.about?.kind !== "human_turn";
  // How a run ended is told by its task.
  return record.type !== "member" && record.type !== "delta" && record.type !== "result";
}

/** By this a later record of a tool call or a question takes the place of the earlier one. */
function sameAs(record: TimelineRecord): string {
  if (record.type === "tool_call") return `call.${record.member}.${record.id}`;
  return record.type === "interaction" ? `question.${record.id}` : "";
}

/** What is known of a tool call or a question, from both of its records. */
function joined(before: Shown, after: Exclude<Shown, Reply>): Shown {
  if (before.type === "tool_call" && after.type === "tool_call") {
    return { ...after, input: Object.keys(after.input).length ? after.input : before.input };
  }
  return after;
}

export class Timeline {
  rows = $state.raw<Row[]>([]);
  replies = $state.raw<ReadonlyMap<string, Text>>(new Map());
  hasEarlier = $state(false);
  problem = $state.raw<Problem | null>(null);
  ready = $state(false);

  private entries = new Map<number, Entry>();
  /** What was told live and is not kept, each after the entry that it came after. */
  private passing: { after: number; row: Row }[] = [];
  private places = new Map<string, number>();
  private first = Infinity;
  private last = 0;
  private waiting: TimelineNews[] = [];
  private reading: Promise<void> | null = null;
  private again = false;

  constructor(
    private project: string,
    private task: string,
  ) {}

  /** The rows, with what is being written as the last of them. */
  all = $derived.by((): Row[] => {
    if (this.replies.size === 0) return this.rows;
    const rows = [...this.rows];
    for (const [member, { text }] of this.replies) {
      const record: Reply = { type: "reply", member, text };
      rows.push({ key: `reply.${member}`, seq: Infinity, at: "", record, isFirst: isFirst(record, rows.at(-1)) });
    }
    return rows;
  });

  /** Read the newest page; what is missing between it and what is known is not guessed at.  Asked for while it is read,
   *  it is read once more: the answer under way may be from before, or come from a server that is gone. */
  load(): Promise<void> {
    this.again = true;
    return (this.reading ??= this.readUntilNew());
  }

  private async readUntilNew(): Promise<void> {
    while (this.again) {
      this.again = false;
      await this.readNewest();
    }
    this.reading = null;
    const waiting = this.waiting.splice(0);
    for (const news of waiting) this.add(news);
  }

  private page(query: { before?: number }): Promise<Page> {
    const path = at("projects", this.project, "tasks", this.task, "timeline");
    return api.get<Page>(path, { ...query, limit: PAGE });
  }

  private async readNewest(): Promise<void> {
    try {
      const { entries, more } = await this.page({});
      if ((entries[0]?.seq ?? 0) > this.last) {
        this.entries.clear();
        this.passing = [];
        this.first = Infinity;
        this.hasEarlier = more;
      }
      for (const entry of entries) this.keep(entry);
      this.build();
      this.problem = null;
      this.ready = true;
    } catch (error) {
      this.problem = problemOf(error);
      if (isPassing(this.problem)) setTimeout(() => void this.load(), RETRY);
    }
  }

  /** Read the page before the first row; what is returned puts it there. */
  async earlier(): Promise<() => void> {
    const { entries, more } = await this.page({ before: this.first });
    return () => {
      for (const entry of entries) this.keep(entry);
      this.hasEarlier = more;
      this.build();
    };
  }

  hear(event: StreamEvent): void {
    if (event.name === "reset") {
      this.replies = new Map();
      void this.load();
    } else if (event.name === "record" || event.name === "delta") {
      const { project, task } = event.data;
      if (project !== this.project || task.split("/")[0] !== this.task) return;
      if (event.name === "delta") this.write(event.data);
      else {
        // Not only when its row is added, which waits for the page that is being read: events are in order, so a
        // message ends the reply that came before it, and never one that comes after it.
        this.finish(event.data.record);
        this.add(event.data);
      }
    }
  }

  private write({ member, turn, start, text }: TextDelta): void {
    const known = this.replies.get(member);
    const before = known?.turn === turn && start > 0 ? known : { text: "", end: 0 };
    if (start < before.end) return; // told already
    // Who came late has not seen the beginning.
    const kept = start > before.end ? `${before.text}… ` : before.text;
    const end = start + Array.from(text).length;
    this.replies = new Map(this.replies).set(member, { turn, end, text: kept + text });
  }

  private add(news: TimelineNews): void {
    if (this.reading || !this.ready) {
      this.waiting.push(news);
      return;
    }
    const { seq, at, record } = news;
    if (seq !== null && (seq <= this.last || this.entries.has(seq))) return;
    if (seq !== null) {
      this.keep({ seq, at, record });
      this.rows = this.place([...this.rows], { seq, at, record });
    } else if (isShown(record)) {
      const row: Row = { key: `live.${this.passing.length}`, seq: this.last, at, record, isFirst: false };
      this.passing.push({ after: this.last, row });
      this.rows = [...this.rows, row];
    }
  }

  /** A reply that is whole is no longer under way: its message takes its place. */
  private finish(record: TimelineRecord): void {
    if (record.type === "result") this.replies = new Map();
    else if (record.type === "message" && this.replies.has(record.member)) {
      const replies = new Map(this.replies);
      replies.delete(record.member);
      this.replies = replies;
    }
  }

  private keep(entry: Entry): void {
    this.entries.set(entry.seq, entry);
    this.first = Math.min(this.first, entry.seq);
    this.last = Math.max(this.last, entry.seq);
  }

  private build(): void {
    this.places.clear();
    const rows: Row[] = [];
    const passing = [...this.passing];
    for (const entry of [...this.entries.values()].sort((a, b) => a.seq - b.seq)) {
      while (passing[0] && passing[0].after < entry.seq) rows.push(...passing.splice(0, 1).map((one) => one.row));
      this.place(rows, entry);
    }
    this.rows = [...rows, ...passing.map((one) => one.row)];
  }

  /** Put an entry in its row; changes `rows`. */
  private place(rows: Row[], { seq, at, record }: Entry): Row[] {
    if (!isShown(record)) return rows;
    const same = sameAs(record);
    const known = same ? this.places.get(same) : undefined;
    const before = known === undefined ? undefined : rows[known];
    if (known !== undefined && before) {
      rows[known] = { ...before, record: joined(before.record, record) };
    } else {
      if (same) this.places.set(same, rows.length);
      // Of a tool call the end may be read before its beginning: it is the same row all the same.
      rows.push({ key: same || String(seq), seq, at, record, isFirst: isFirst(record, rows.at(-1)) });
    }
    return rows;
  }
}

interface Text {
  turn: number;
  text: string;
  /** How much of it the server has told, in its own characters. */
  end: number;
}

export type Message = RecordOf<"message">;
