/** Who may come in: the token in the address's fragment becomes a cookie, and leaves the address. */

import { api, isPassing, onSignedOut, problemOf, RETRY, type Problem } from "./api";

export type SessionState = "checking" | "in" | "out";

/** The token in a printed address, or a token by itself. */
export function tokenIn(text: string): string {
  const found = /(?:#|^)token=([^&\s]+)/.exec(text.trim());
  return found?.[1] ?? text.trim();
}

/** Where a token is until the server has answered it: whoever reloads before that, or goes to another
 *  screen, breaks the request off, and the address does not have the token any more. */
const PENDING = "coterie.token";

class Session {
  state = $state<SessionState>("checking");
  problem = $state.raw<Problem | null>(null);

  /** Who signs in does so for every tab of the browser. */
  private others = new BroadcastChannel("coterie.session");
  /** Whether another tab did since this one began: an answer that was under way is from before. */
  private wasLetIn = false;

  constructor() {
    onSignedOut(() => (this.state = "out"));
    this.others.onmessage = () => {
      this.wasLetIn = true;
      if (this.state === "out") this.state = "in";
    };
  }

  /** With what the address holds, else with the cookie that the browser may have. */
  async start(): Promise<void> {
    const fragment = location.hash;
    if (/#token=/.test(fragment)) {
      // Not left in the address, where it could be copied or looked over.
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
      // A server that is not there is no reason to ask for a token: the stream waits for it.
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

  /** A server that did not answer the token may well do so now; unless another one was given meanwhile. */
  private again(token: string): void {
    if (this.state === "out" && sessionStorage.getItem(PENDING) === token) void this.enter(token);
  }
}

export const session = new Session();
