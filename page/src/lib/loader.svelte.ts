/** Data from the API with its state: loaded, loading or failed. */

import { isPassing, Problem, problemOf, RETRY } from "./api";

export class Loader<T> {
  data = $state.raw<T | undefined>(undefined);
  problem = $state.raw<Problem | null>(null);
  loading = $state(false);

  private running: AbortController | null = null;
  private again = false;
  private retry: ReturnType<typeof setTimeout> | undefined;

  constructor(private read: (signal: AbortSignal) => Promise<T>) {}

  /** Load or reload the data. A call during a load makes it load once more, as the answer may be outdated. */
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

  /** Abort, and discard the data: something else is wanted. */
  clear(): void {
    this.running?.abort();
    clearTimeout(this.retry);
    this.running = null;
    this.loading = false;
    this.data = undefined;
    this.problem = null;
  }
}
