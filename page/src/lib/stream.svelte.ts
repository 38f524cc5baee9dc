/**
 * The event stream, one per browser: a browser opens at most six connections to an origin, so ten
 * tabs with a stream each would leave none for requests.  A lock elects the tab that reads the
 * stream; the others get every event through a channel.  When that tab closes, the next one gets
 * the lock and continues after the last event it received.
 */

import { reportSignedOut } from "./api";
import { readEvents, type ServerEvent } from "./sse";
import type { StreamEvent } from "./types";

export type Connection = "connecting" | "live" | "lost";

type ChannelMessage =
  | { kind: "events"; events: ServerEvent[] }
  | { kind: "state"; state: Connection; cursor: string }
  | { kind: "hello" }
  | { kind: "visible"; tab: string; visible: boolean };

const NAME = "coterie.events";
const FIRST_PAUSE = 250;
const LONGEST_PAUSE = 4000;

class Stream {
  connection = $state<Connection>("connecting");
  /** Whether this tab reads the stream for all tabs. */
  leads = $state(false);

  private cursor = "";
  private seen = new Map<string, number>();
  private listeners = new Set<(event: StreamEvent) => void>();
  private channel: BroadcastChannel | null = null;
  private stopped: AbortController | null = null;
  private wake: (() => void) | null = null;
  private tab = crypto.randomUUID();
  private visibleTabs = new Set<string>();

  /** Call `listener` for every event; returns a function that unsubscribes. */
  on(listener: (event: StreamEvent) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Whether any tab of the page is visible. */
  get isWatched(): boolean {
    return this.visibleTabs.size > 0;
  }

  start(): void {
    if (this.stopped) return;
    const stopped = (this.stopped = new AbortController());
    const channel = (this.channel = new BroadcastChannel(NAME));
    channel.onmessage = ({ data }: MessageEvent<ChannelMessage>) => this.handle(data);
    this.say({ kind: "hello" });
    this.watch(stopped.signal);
    navigator.locks
      .request(NAME, { signal: stopped.signal }, () => this.lead(stopped.signal))
      .catch(() => undefined); // stopped while waiting for the lock
  }

  stop(): void {
    this.stopped?.abort();
    this.channel?.close();
    this.stopped = this.channel = null;
    this.leads = false;
    this.connection = "connecting";
  }

  /** Reconnect now instead of after the pause: the tab is visible again, or the network is back. */
  retry(): void {
    this.wake?.();
  }

  private watch(signal: AbortSignal): void {
    const announce = (visible = !document.hidden) => {
      this.mark(this.tab, visible);
      this.say({ kind: "visible", tab: this.tab, visible });
    };
    announce();
    document.addEventListener("visibilitychange", () => (announce(), this.retry()), { signal });
    addEventListener("pagehide", () => announce(false), { signal });
    addEventListener("online", () => this.retry(), { signal });
  }

  private mark(tab: string, visible: boolean): void {
    if (visible) this.visibleTabs.add(tab);
    else this.visibleTabs.delete(tab);
  }

  private say(message: ChannelMessage): void {
    this.channel?.postMessage(message);
  }

  private handle(message: ChannelMessage): void {
    if (message.kind === "events") message.events.forEach((event) => this.take(event));
    else if (message.kind === "visible") this.mark(message.tab, message.visible);
    else if (message.kind === "state") {
      this.cursor ||= message.cursor;
      this.become(message.state);
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
    // Requests made meanwhile have failed, and events that are not stored were missed: load everything again.
    if (wasLost && state === "live") this.dispatch({ name: "reset", data: {} });
  }

  private dispatch(event: StreamEvent): void {
    for (const listener of this.listeners) listener(event);
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
        onEvents: (events) => this.pass(events),
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

  /** Handle events that this tab has read, and pass them to the other tabs. */
  private pass(events: ServerEvent[]): void {
    this.say({ kind: "events", events });
    for (const event of events) this.take(event);
  }

  private take(event: ServerEvent): void {
    if (event.name === "reset") this.seen.clear();
    if (event.id) this.cursor = event.id;
    const decoded = parsed(event);
    if (decoded && !this.isDouble(decoded)) this.dispatch(decoded);
  }

  /** Whether the record was already handled: a tab that takes over may read it a second time. */
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
