/** Shows untrusted text with every character visible, and formats figures. */

// Control characters, invisible characters, and those that change the text direction (as in model/visible.py).
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\ufffc\u{e0000}-\u{e0fff}]/gu;

function code(character: string): string {
  const point = character.codePointAt(0) ?? 0;
  return `<U+${point.toString(16).toUpperCase().padStart(4, "0")}>`;
}

// A zero-width joiner between two pictographs combines them into one emoji, so it is kept.
const JOINED = /(?<=\p{Extended_Pictographic}[\ufe0f\u{1f3fb}-\u{1f3ff}]?)\u200d(?=\p{Extended_Pictographic})/gu;

/** Replace every invisible character by its code, such as `<U+200B>`, as on the terminal. */
export function visible(text: string): string {
  const plain = text.replace(/\r\n/g, "\n");
  if (!plain.includes("\u200d")) return plain.replace(HIDDEN, code);
  const joints = new Set(Array.from(plain.matchAll(JOINED), (found) => found.index));
  return plain.replace(HIDDEN, (found: string, at: number) => (joints.has(at) ? found : code(found)));
}

/** The same on one line. */
export function oneLine(text: string): string {
  return visible(text).replace(/\s+/g, " ").trim();
}

/** `41s`, `3m 10s`, `2h 5m`, `3d`. */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (ms < 950) return `${(Math.max(0, ms) / 1000).toFixed(1)}s`;
  if (seconds < 60) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return seconds % 60 && minutes < 10 ? `${minutes}m ${seconds % 60}s` : `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours}h ${minutes % 60}m` : `${hours}h`;
  return `${Math.floor(hours / 24)}d`;
}

/** `840`, `8.2k`, `1.4M`. */
export function amount(count: number): string {
  if (count < 1000) return String(Math.round(count));
  if (count < 999_500) return `${(count / 1000).toFixed(count < 100_000 ? 1 : 0)}k`;
  return `${(count / 1_000_000).toFixed(1)}M`;
}

export function money(usd: number): string {
  return usd > 0 && usd < 0.01 ? "under $0.01" : `$${usd.toFixed(2)}`;
}

/** `1 file`, `3 files`. */
export function counted(count: number, word: string, plural = `${word}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? word : plural}`;
}

export function tokens(usage: { input_tokens: number | null; output_tokens: number | null } | null): number {
  return (usage?.input_tokens ?? 0) + (usage?.output_tokens ?? 0);
}

// Created once: creating one costs more than rendering a row.
const CLOCK = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat([], { day: "numeric", month: "short", year: "numeric" });
const MOMENT = new Intl.DateTimeFormat([], { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });

/** `14:05`, as on the terminal. */
export function timeOfDay(instant: Date): string {
  return CLOCK.format(instant);
}

export function dayOf(instant: Date): string {
  return DAY.format(instant);
}

export function momentOf(instant: Date): string {
  return MOMENT.format(instant);
}
