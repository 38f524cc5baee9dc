/**
 * The event stream, one per browser: a browser opens six connections to one origin, so ten tabs
 * with a stream each would leave none for requests.  A lock elects the tab that reads it; the
 * others get every event through a channel.  When that tab closes, the lock goes to the next one,
 * which reads on from the last event that it has heard of.
 */

import { reportSignedOut } from "./api";
import { readEvents, type ServerEvent } from "./sse";
import type { StreamEvent } from "./types";

export type Connection = "connecting" | "live" | "lost";

type Said =
  | { kind: "events"; events: ServerEvent[] }
  | { kind: "state"; state: Connection; cursor: string }
  | { kind: "hello" }
  | { kind: "visible"; tab: string; visible: boolean };

const NAME = "coterie.events";
const FIRST_PAUSE = 250;
const LONGEST_PAUSE = 4000;

class Stream {
  connection = $state<Connection>("connecting");
  /** Whether this tab reads the stream for all of them. */
  leads = $state(false);

  private cursor = "";
  private seen = new Map<string, number>();
  private hears = new Set<(event: StreamEvent) => void>();
  private channel: BroadcastChannel | null = null;
  private stopped: AbortController | null = null;
  private wake: (() => void) | null = null;
  private tab = crypto.randomUUID();
  private looking = new Set<string>();

  /** Be told of every event; returns how to stop. */
  on(hear: (event: StreamEvent) => void): () => void {
    this.hears.add(hear);
    return () => this.hears.delete(hear);
  }

  /** Whether a tab of this browser is in front of somebody. */
  get isWatched(): boolean {
    return this.looking.size > 0;
  }

  start(): void {
    if (this.stopped) return;
    const stopped = (this.stopped = new AbortController());
    const channel = (this.channel = new BroadcastChannel(NAME));
    channel.onmessage = ({ data }: MessageEvent<Said>) => this.hear(data);
    this.say({ kind: "hello" });
    this.watch(stopped.signal);
    navigator.locks
      .request(NAME, { signal: stopped.signal }, () => this.lead(stopped.signal))
      .catch(() => undefined); // stopped while it waited
  }

  stop(): void {
    this.stopped?.abort();
    this.channel?.close();
    this.stopped = this.channel = null;
    this.leads = false;
    this.connection = "connecting";
  }

  /** Try again now: somebody has come back, or the network has. */
  retry(): void {
    this.wake?.();
  }

  private watch(signal: AbortSignal): void {
    const tell = (visible = !document.hidden) => {
      this.mark(this.tab, visible);
      this.say({ kind: "visible", tab: this.tab, visible });
    };
    tell();
    document.addEventListener("visibilitychange", () => (tell(), this.retry()), { signal });
    addEventListener("pagehide", () => tell(false), { signal });
    addEventListener("online", () => this.retry(), { signal });
  }

  private mark(tab: string, visible: boolean): void {
    if (visible) this.looking.add(tab);
    else this.looking.delete(tab);
  }

  private say(said: Said): void {
    this.channel?.postMessage(said);
  }

  private hear(said: Said): void {
    if (said.kind === "events") said.events.forEach((event) => this.take(event));
    else if (said.kind === "visible") this.mark(said.tab, said.visible);
    else if (said.kind === "state") {
      this.cursor ||= said.cursor;
      this.become(said.state);
    } else {
      if (this.leads) this.say({ kind: "state", state: this.connection, cursor: this.cursor });
      this.say({ kind: "visible", tab: this.tab, visible: !document.hidden });
    }
  }

  private change(state: Connection): void {
    this.say({ kind: "state", state, cursor: this.cursor });
    this.become(state);
  }

  private become(state: Connection): void {
    const wasLost = this.connection === "lost";
    this.connection = state;
    // What was asked for in between was not answered, and what is never kept was not told.
    if (wasLost && state === "live") this.tell({ name: "reset", data: {} });
  }

  private tell(event: StreamEvent): void {
    for (const hear of this.hears) hear(event);
  }

  private async lead(signal: AbortSignal): Promise<void> {
    this.leads = true;
    let pause = FIRST_PAUSE;
    while (!signal.aborted) {
      const status = await readEvents("/api/v1/events", this.cursor, signal, {
        opened: () => {
          pause = FIRST_PAUSE;
          this.change("live");
        },
        heard: (events) => this.pass(events),
      }).catch(() => 0);
      if (signal.aborted) return;
      if (status === 401) return reportSignedOut();
      this.change("lost");
      await this.pause(pause, signal);
      pause = Math.min(pause * 2, LONGEST_PAUSE);
    }
  }

  private pause(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((done) => {
      const timer = setTimeout(done, ms);
      this.wake = () => (clearTimeout(timer), done());
      signal.addEventListener("abort", this.wake, { once: true });
    });
  }

  /** Events that this tab has read: for itself and for the others. */
  private pass(events: ServerEvent[]): void {
    this.say({ kind: "events", events });
    for (const event of events) this.take(event);
  }

  private take(event: ServerEvent): void {
    if (event.name === "reset") this.seen.clear();
    if (event.id) this.cursor = event.id;
    const told = parsed(event);
    if (told && !this.isDouble(told)) this.tell(told);
  }

  /** A tab that takes over may read again what the last one had already passed on. */
  private isDouble(event: StreamEvent): boolean {
    if (event.name !== "record") return false;
    const { project, seq } = event.data;
    if (seq === null) return false;
    if (seq <= (this.seen.get(project) ?? 0)) return true;
    this.seen.set(project, seq);
    return false;
  }
}

function parsed(event: ServerEvent): StreamEvent | null {
  try {
    return { name: event.name, data: event.data ? JSON.parse(event.data) : {} } as StreamEvent;
  } catch {
    return null;
  }
}

export const stream = new Stream();
