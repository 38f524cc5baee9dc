/** Server-sent events over fetch: unlike EventSource this can start at a cursor, and reports the HTTP status. */

export interface ServerEvent {
  name: string;
  id: string;
  data: string;
}

/** Splits the stream into events; incomplete ones are kept until the rest arrives. */
export class EventParser {
  private rest = "";
  private name = "";
  private data: string[] = [];
  private id = "";

  push(piece: string): ServerEvent[] {
    const lines = (this.rest + piece).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? "";
    const events: ServerEvent[] = [];
    for (const line of lines) {
      const event = this.line(line);
      if (event) events.push(event);
    }
    return events;
  }

  private line(line: string): ServerEvent | null {
    if (line === "") return this.end();
    const [, field, value] = /^([^:]*)(?::\s?(.*))?$/s.exec(line) ?? [];
    if (field === "event") this.name = value ?? "";
    else if (field === "data") this.data.push(value ?? "");
    else if (field === "id") this.id = value ?? "";
    return null;
  }

  private end(): ServerEvent | null {
    const event = { name: this.name || "message", id: this.id, data: this.data.join("\n") };
    const isEvent = this.data.length > 0 || this.name !== "";
    this.name = this.id = "";
    this.data = [];
    return isEvent ? event : null;
  }
}

/** A connection is given up after this many milliseconds of silence: the server sends something every 15 seconds. */
const SILENT = 45_000;

/** Read events until the stream ends or fails, and return the HTTP status; calls `opened` once the server accepts. */
export async function readEvents(
  address: string,
  cursor: string,
  signal: AbortSignal,
  { opened, onEvents }: { opened: () => void; onEvents: (events: ServerEvent[]) => void },
): Promise<number> {
  const headers: Record<string, string> = { Accept: "text/event-stream" };
  if (cursor) headers["Last-Event-ID"] = cursor;
  const silent = new AbortController();
  let timer = setTimeout(() => silent.abort(), SILENT);
  const either = AbortSignal.any([signal, silent.signal]);
  const response = await fetch(address, { headers, signal: either, cache: "no-store" });
  if (!response.ok || !response.body) {
    await response.body?.cancel();
    return response.status;
  }
  opened();
  const parser = new EventParser();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    clearTimeout(timer);
    if (done) return response.status;
    timer = setTimeout(() => silent.abort(), SILENT);
    const events = parser.push(value);
    if (events.length) onEvents(events);
  }
}
