/** Something read from the API: what it is now, whether it is on its way, what went wrong. */

import { isPassing, Problem, problemOf, RETRY } from "./api";

export class Loader<T> {
  data = $state.raw<T | undefined>(undefined);
  problem = $state.raw<Problem | null>(null);
  loading = $state(false);

  private running: AbortController | null = null;
  private again = false;
  private retry: ReturnType<typeof setTimeout> | undefined;

  constructor(private read: (signal: AbortSignal) => Promise<T>) {}

  /** Read it, anew where it was read before; asked for while it is read, it is read once more. */
  async load(): Promise<void> {
    if (this.running) {
      this.again = true;
      return;
    }
    const running = (this.running = new AbortController());
    this.loading = true;
    do {
      this.again = false;
      clearTimeout(this.retry);
      await this.readOnce(running.signal);
      if (running.signal.aborted) return;
    } while (this.again);
    this.running = null;
    this.loading = false;
  }

  private async readOnce(signal: AbortSignal): Promise<void> {
    try {
      const data = await this.read(signal);
      if (signal.aborted) return;
      this.data = data;
      this.problem = null;
    } catch (error) {
      if (signal.aborted) return;
      this.problem = problemOf(error);
      if (isPassing(this.problem)) this.retry = setTimeout(() => void this.load(), RETRY);
    }
  }

  /** Forget what was read: something else is wanted. */
  clear(): void {
    this.running?.abort();
    clearTimeout(this.retry);
    this.running = null;
    this.loading = false;
    this.data = undefined;
    this.problem = null;
  }
}
