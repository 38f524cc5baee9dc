/** Loads a screen's data, and reloads it when events concern its project or task. */

import { untrack } from "svelte";
import { Loader } from "../lib/loader.svelte";
import { stream } from "../lib/stream.svelte";
import type { StreamEvent } from "../lib/types";

/** The shortest interval between two reloads, in milliseconds. */
const PAUSE = 400;

interface Concern {
  project: string;
  /** If omitted or empty, every event of the project counts. */
  task?: string;
  /** Anything else the data depends on, such as a filter. */
  about?: unknown;
}

/** A loader that starts at once and follows the event stream while its component is mounted.  It starts
 *  again when `concern` changes. */
export function live<T>(concern: () => Concern, read: (signal: AbortSignal) => Promise<T>): Loader<T> {
  const loader = new Loader(read);
  $effect(() => {
    const concerned = concern();
    untrack(() => void loader.load());
    let last = 0;
    let due: ReturnType<typeof setTimeout> | undefined;
    const read = (): void => {
      [due, last] = [undefined, Date.now()];
      void loader.load();
    };
    const stop = stream.on((event) => {
      if (due === undefined && concerns(event, concerned)) due = setTimeout(read, Math.max(0, last + PAUSE - Date.now()));
    });
    return () => {
      stop();
      clearTimeout(due);
      loader.clear(); // otherwise a failed load would be retried forever after the screen is gone
    };
  });
  return loader;
}

function concerns(event: StreamEvent, { project, task }: Concern): boolean {
  if (event.name === "reset") return true;
  if (event.name === "delta" || event.data.project !== project) return false;
  const about = event.name === "task" ? event.data.id : event.data.task;
  return !task || about === task || about.startsWith(`${task}/`);
}
