/** Team files as the Team screen loads and edits them, with what the server reports about them. */

import type { ProblemBody } from "../../lib/types";

export interface AgentHealth {
  name: string;
  version: string | null;
  state: string;
  ready: boolean;
  hint: string;
}

export interface HealthCheck {
  name: string;
  ok: boolean;
  detail: string;
  hint: string;
}

export interface Doctor {
  agents: AgentHealth[];
  checks: HealthCheck[];
}

/** Something a team file asks for that could do harm. */
export interface Power {
  member: string;
  kind: string;
  what: string;
}

export interface Mistake {
  /** Such as `members[1].agent`; empty for the whole file. */
  place: string;
  problem: string;
}

/** A member whose prompt or folder was edited since its folder was created; null: unchanged. */
export interface ChangedMember {
  member: string;
  prompt_was: string | null;
  prompt_now: string;
  folder_was: string | null;
  folder_now: string;
  /** The id of the new member if it is replaced. */
  new_name: string;
}

export interface TeamSummary {
  name: string;
  default: boolean;
  problem: TeamProblem | null;
}

/** What is wrong with a team file: a text, and each mistake with its location. */
export type TeamProblem = Partial<ProblemBody> & { errors?: Mistake[] | null };

export interface TeamFile extends TeamSummary {
  path: string | null;
  text: string;
  /** Identifies the content that the user has seen. */
  digest: string;
  refused: TeamProblem | null;
  powers: Power[];
  changed: ChangedMember[];
  notices: string[];
}

export interface Checked {
  valid: boolean;
  problem: TeamProblem | null;
  powers: Power[];
}

export interface Trust {
  material: string[];
}

/** The single mistakes, or the problem as a whole if it lists none. */
export function mistakesIn(problem: TeamProblem | null | undefined): Mistake[] {
  if (!problem) return [];
  return problem.errors?.length ? problem.errors : [{ place: "", problem: problem.detail ?? "The file is not valid." }];
}

export type Entry = Record<string, unknown>;

export interface TeamEntry extends Entry {
  members: Entry[];
}

/** Parse the file; undefined if it is not JSON, so that it can be edited only as text. */
export function parsed(text: string): TeamEntry | undefined {
  try {
    const found = JSON.parse(text) as TeamEntry;
    return Array.isArray(found?.members) && found.members.every(isEntry) ? found : undefined;
  } catch {
    return undefined;
  }
}

const isEntry = (value: unknown): value is Entry => typeof value === "object" && value !== null && !Array.isArray(value);

export const written = (team: TeamEntry): string => `${JSON.stringify(team, null, 2)}\n`;

/** The value of a key, under whichever of its names the file uses. */
export function get(entry: Entry, ...names: string[]): string {
  const value = names.map((name) => entry[name]).find((one) => one !== undefined);
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

/** The entry with a key set, under the name the file uses; an empty value removes the key. */
export function set(entry: Entry, value: unknown, ...names: string[]): Entry {
  const name = names.find((one) => one in entry) ?? names[0] ?? "";
  const { [name]: _, ...rest } = entry;
  if (value === "" || value === undefined || (Array.isArray(value) && !value.length)) return rest;
  if (isEntry(value) && !Object.keys(value).length) return rest;
  return { ...entry, [name]: value };
}

export interface Permissions {
  mode: string;
  allow: string[];
  deny: string[];
}

/** Permissions may be written as a mode or as an object. */
export function permissionsOf(entry: Entry): Permissions {
  const given = entry.permissions;
  if (typeof given === "string") return { mode: given, allow: [], deny: [] };
  const { mode, allow, deny } = isEntry(given) ? given : ({} as Entry);
  const words = (list: unknown): string[] => (Array.isArray(list) ? list.map(String) : []);
  return { mode: typeof mode === "string" ? mode : "", allow: words(allow), deny: words(deny) };
}

export function withPermissions(entry: Entry, { mode, allow, deny }: Permissions): Entry {
  if (!allow.length && !deny.length) return set(entry, mode, "permissions");
  const made = { ...(mode && { mode }), ...(allow.length && { allow }), ...(deny.length && { deny }) };
  return set(entry, made, "permissions");
}

export const budgetOf = (entry: Entry): Entry => (isEntry(entry.budget) ? entry.budget : {});

/** A number for the file; tokens may be written as `500k`, which stays text. */
export function number(text: string): unknown {
  const trimmed = text.trim();
  return /^\d+(\.\d+)?$/.test(trimmed) ? Number(trimmed) : trimmed;
}

export const lines = (text: string): string[] => text.split("\n").map((line) => line.trim()).filter(Boolean);

/** The mistakes at a location or below it. */
export function mistakesAt(mistakes: readonly Mistake[], place: string): Mistake[] {
  return mistakes.filter((one) => one.place === place || one.place.startsWith(`${place}.`) || one.place.startsWith(`${place}[`));
}

/** What has changed since the member's folder was created. */
export function changes(one: ChangedMember): { what: string; was: string; now: string }[] {
  const prompt = { what: "prompt", was: one.prompt_was, now: one.prompt_now };
  const folder = { what: "folder", was: one.folder_was, now: one.folder_now };
  return [prompt, folder].flatMap(({ was, ...rest }) => (was === null ? [] : [{ was, ...rest }]));
}
