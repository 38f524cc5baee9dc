/** A task's timeline as rows: stored pages, live records, and replies in progress. */

import { api, at, isPassing, problemOf, RETRY, type Problem } from "./api";
import type { Entry, Page, RecordOf, StreamEvent, TextDelta, TimelineNews, TimelineRecord } from "./types";

const PAGE = 100;

/** A reply in progress. */
export interface Reply {
  type: "reply";
  member: string;
  text: string;
}
export type Shown = Exclude<TimelineRecord, { type: "member" | "delta" }> | Reply;

/** One row of the timeline; the start and the end of a tool call share a row. */
export interface Row {
  key: string;
  seq: number;
  at: string;
  record: Shown;
  /** Whether it is the first of consecutive rows of a member: then the member's name is shown above it. */
  isFirst: boolean;
}

/** The member a row belongs to, or an empty text; consecutive rows of a member share a heading. */
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
  // The box below the conversation shows whose turn it is, and what was said is a message.
  if (record.type === "interaction") return record.about?.kind !== "human_turn";
  // A task record already shows how the run ended.
  return record.type !== "member" && record.type !== "delta" && record.type !== "result";
}

/** The key under which a later record of the same tool call or question replaces the earlier one. */
function sameAs(record: TimelineRecord): string {
  if (record.type === "tool_call") return `call.${record.member}.${record.id}`;
  return record.type === "interaction" ? `question.${record.id}` : "";
}

/** Merge the two records of a tool call or question: the end of a call may omit its input. */
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
  /** Live records that are not stored, each with the entry that it follows. */
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

  /** The rows, followed by the replies in progress. */
  all = $derived.by((): Row[] => {
    if (this.replies.size === 0) return this.rows;
    const rows = [...this.rows];
    for (const [member, { text }] of this.replies) {
      const record: Reply = { type: "reply", member, text };
      rows.push({ key: `reply.${member}`, seq: Infinity, at: "", record, isFirst: isFirst(record, rows.at(-1)) });
    }
    return rows;
  });

  /** Load the newest page.  If it does not connect to the known entries, those are dropped.  A call during a
   *  load makes it load once more, as the pending answer may be outdated or never arrive. */
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

  /** Load the page before the first row; returns a function that inserts it. */
  async earlier(): Promise<() => void> {
    const { entries, more } = await this.page({ before: this.first });
    return () => {
      for (const entry of entries) this.keep(entry);
      this.hasEarlier = more;
      this.build();
    };
  }

  handle(event: StreamEvent): void {
    if (event.name === "reset") {
      this.replies = new Map();
      void this.load();
    } else if (event.name === "record" || event.name === "delta") {
      const { project, task } = event.data;
      if (project !== this.project || task.split("/")[0] !== this.task) return;
      if (event.name === "delta") this.write(event.data);
      else {
        // Not left to `add`, which waits for a pending page: events arrive in order, so a message ends the reply
        // before it and never one after it.
        this.finish(event.data.record);
        this.add(event.data);
      }
    }
  }

  private write({ member, turn, start, text }: TextDelta): void {
    const known = this.replies.get(member);
    const before = known?.turn === turn && start > 0 ? known : { text: "", end: 0 };
    if (start < before.end) return; // received already
    // Text is missing before this piece, because the page was opened later.
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

  /** Remove a reply in progress once its message or the end of the run arrives. */
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

  /** Put an entry into its row; modifies and returns `rows`. */
  private place(rows: Row[], { seq, at, record }: Entry): Row[] {
    if (!isShown(record)) return rows;
    const same = sameAs(record);
    const known = same ? this.places.get(same) : undefined;
    const before = known === undefined ? undefined : rows[known];
    if (known !== undefined && before) {
      rows[known] = { ...before, record: joined(before.record, record) };
    } else {
      if (same) this.places.set(same, rows.length);
      // The end of a tool call may be loaded before its start, so both use the same key.
      rows.push({ key: same || String(seq), seq, at, record, isFirst: isFirst(record, rows.at(-1)) });
    }
    return rows;
  }
}

interface Text {
  turn: number;
  text: string;
  /** How much of the reply was received, counted in code points as the server does. */
  end: number;
}

export type Message = RecordOf<"message">;
