/** What a screen reads of a project or a task, read anew as something happens to it. */

import { untrack } from "svelte";
import { Loader } from "../lib/loader.svelte";
import { stream } from "../lib/stream.svelte";
import type { StreamEvent } from "../lib/types";

/** However much happens, a screen is read anew this often at most. */
const PAUSE = 400;

interface Concern {
  project: string;
  /** Left out or empty: whatever happens in the project. */
  task?: string;
  /** What else it depends on, such as a filter. */
  about?: unknown;
}

/** A loader that begins at once and follows the event stream, for as long as its component is shown.
 *  It begins anew where `concern` gives something else, such as another filter. */
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
      loader.clear(); // else what fails would be asked for on and on by a screen that is gone
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
