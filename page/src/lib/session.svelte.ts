/** Signing in: the token in the address's fragment is exchanged for a cookie and removed from the address. */

import { api, isPassing, onSignedOut, problemOf, RETRY, type Problem } from "./api";

export type SessionState = "checking" | "in" | "out";

/** The token in a printed address, or a token by itself. */
export function tokenIn(text: string): string {
  const found = /(?:#|^)token=([^&\s]+)/.exec(text.trim());
  return found?.[1] ?? text.trim();
}

/** Session storage key of a token that the server has not answered yet: a reload aborts the request,
 *  and the token is no longer in the address by then. */
const PENDING = "coterie.token";

class Session {
  state = $state<SessionState>("checking");
  problem = $state.raw<Problem | null>(null);

  /** Signing in applies to every tab of the browser. */
  private others = new BroadcastChannel("coterie.session");
  /** Whether another tab has signed in since this one started: a pending 401 is then outdated. */
  private wasLetIn = false;

  constructor() {
    onSignedOut(() => (this.state = "out"));
    this.others.onmessage = () => {
      this.wasLetIn = true;
      if (this.state === "out") this.state = "in";
    };
  }

  /** Sign in with the token in the address, otherwise with the cookie if there is one. */
  async start(): Promise<void> {
    const fragment = location.hash;
    if (/#token=/.test(fragment)) {
      // Removed from the address, where it could be copied by mistake or seen by others.
      sessionStorage.setItem(PENDING, tokenIn(fragment));
      history.replaceState(null, "", location.pathname + location.search);
    }
    const pending = sessionStorage.getItem(PENDING);
    if (pending) return this.enter(pending);
    try {
      await api.get("/projects");
      this.state = "in";
    } catch (error) {
      const problem = problemOf(error);
      // If the server is away, do not ask for a token: the stream reconnects by itself.
      this.state = problem.status === 401 && !this.wasLetIn ? "out" : "in";
    }
  }

  async enter(token: string): Promise<void> {
    sessionStorage.setItem(PENDING, token);
    this.problem = null;
    try {
      await api.post("/session", { token });
      sessionStorage.removeItem(PENDING);
      this.others.postMessage("in");
      this.state = "in";
    } catch (error) {
      this.problem = problemOf(error);
      this.state = "out";
      if (isPassing(this.problem)) setTimeout(() => this.again(token), RETRY);
      else sessionStorage.removeItem(PENDING);
    }
  }

  /** Retry a token that the server did not answer, unless another one was entered meanwhile. */
  private again(token: string): void {
    if (this.state === "out" && sessionStorage.getItem(PENDING) === token) void this.enter(token);
  }
}

export const session = new Session();
