/** Requests to the API, and its problems (RFC 9457) as errors that say what to do. */

import type { ProblemBody } from "./types";

const BASE = "/api/v1";

/** An error of the API, or of the connection to it. */
export class Problem extends Error {
  readonly type: string;
  readonly status: number;
  readonly title: string;
  readonly hint: string | null;
  readonly where: string | null;

  constructor(body: Partial<ProblemBody>, status: number) {
    super(body.detail || body.title || `The server answered ${status}.`);
    this.type = body.type ?? "about:blank";
    this.status = status;
    this.title = body.title ?? "";
    this.hint = body.hint ?? null;
    this.where = body.where ?? null;
  }
}

/** How long to wait before a request that failed temporarily is retried, in milliseconds. */
export const RETRY = 1000;

/** Whether the failure is temporary, so that the same request may succeed in a moment. */
export function isPassing(problem: Problem): boolean {
  return problem.status === 0 || problem.status === 429 || problem.status >= 500;
}

/** Convert any error into a problem with a text for people. */
export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof TypeError) {
    return new Problem(
      {
        type: "unreachable",
        title: "The server cannot be reached",
        detail: "The server does not answer.",
        hint: "coterie serve",
      },
      0,
    );
  }
  return new Problem({ detail: error instanceof Error ? error.message : String(error) }, 0);
}

const signedOut = new Set<() => void>();

/** Call `listener` when the server no longer accepts this browser's cookie; returns how to stop. */
export function onSignedOut(listener: () => void): () => void {
  signedOut.add(listener);
  return () => signedOut.delete(listener);
}

export function reportSignedOut(): void {
  for (const listener of signedOut) listener();
}

export type Query = Record<string, string | number | boolean | null | undefined>;

/** A path of the API. Each part is escaped, so that no name can point to another resource. */
export function at(...parts: (string | number)[]): string {
  return parts.map((part) => "/" + encodeURIComponent(part)).join("");
}

function address(path: string, query: Query): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return BASE + path + (given.length ? `?${search}` : "");
}

async function request<T>(
  method: string,
  path: string,
  { query = {}, body, signal }: { query?: Query; body?: unknown; signal?: AbortSignal } = {},
): Promise<T> {
  const init: RequestInit = { method, headers: { Accept: "application/json" }, cache: "no-store" };
  if (signal) init.signal = signal;
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { ...init.headers, "Content-Type": "application/json" };
  }
  const response = await fetch(address(path, query), init);
  if (!response.ok) throw await problemIn(response, path);
  if (response.status === 204) return undefined as T;
  return (await response.json()) as T;
}

async function problemIn(response: Response, path: string): Promise<Problem> {
  if (response.status === 401 && path !== "/session") reportSignedOut();
  try {
    return new Problem((await response.json()) as ProblemBody, response.status);
  } catch {
    return new Problem({}, response.status);
  }
}

export const api = {
  get: <T>(path: string, query?: Query, signal?: AbortSignal) =>
    request<T>("GET", path, { query, signal }),
  post: <T>(path: string, body: unknown = {}, query?: Query) =>
    request<T>("POST", path, { body, query }),
  put: <T>(path: string, body: unknown) => request<T>("PUT", path, { body }),
  patch: <T>(path: string, body: unknown) => request<T>("PATCH", path, { body }),
  delete: <T>(path: string) => request<T>("DELETE", path),
  /** The address of a download. */
  address: (path: string, query: Query = {}) => address(path, query),
};
