/** Teams as the Team screen reads and edits them: the file that a person writes, and what is known about it. */

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

/** Something that a team file asks for that could do harm. */
export interface Power {
  member: string;
  kind: string;
  what: string;
}

export interface Mistake {
  /** Such as `members[1].agent`; empty for the file as a whole. */
  place: string;
  problem: string;
}

/** A member whose prompt or folder was edited since its folder was made; null: that is the same. */
export interface ChangedMember {
  member: string;
  prompt_was: string | null;
  prompt_now: string;
  folder_was: string | null;
  folder_now: string;
  /** What a new member in its place would be called. */
  new_name: string;
}

export interface TeamSummary {
  name: string;
  default: boolean;
  problem: TeamProblem | null;
}

/** What is wrong with a team's file: in words, and each mistake by its place. */
export type TeamProblem = Partial<ProblemBody> & { errors?: Mistake[] | null };

export interface TeamFile extends TeamSummary {
  path: string | null;
  text: string;
  /** By what it is known which content was looked at. */
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

/** Each thing that is wrong; where only a sentence is known, that. */
export function mistakesIn(problem: TeamProblem | null | undefined): Mistake[] {
  if (!problem) return [];
  return problem.errors?.length ? problem.errors : [{ place: "", problem: problem.detail ?? "It is not right." }];
}

export type Entry = Record<string, unknown>;

export interface TeamEntry extends Entry {
  members: Entry[];
}

/** The file as data; undefined where it is no JSON, and can only be edited as text. */
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

/** What a key holds, by whichever of its names it was written with. */
export function get(entry: Entry, ...names: string[]): string {
  const value = names.map((name) => entry[name]).find((one) => one !== undefined);
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

/** The entry with a key set, under the name that it already has, or without it where nothing is left. */
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

/** Permissions may be a word or an object. */
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

/** A number as the file wants it: tokens may be written `500k`. */
export function number(text: string): unknown {
  const trimmed = text.trim();
  return /^\d+(\.\d+)?$/.test(trimmed) ? Number(trimmed) : trimmed;
}

export const lines = (text: string): string[] => text.split("\n").map((line) => line.trim()).filter(Boolean);

/** The mistakes at a place, or below it. */
export function mistakesAt(mistakes: readonly Mistake[], place: string): Mistake[] {
  return mistakes.filter((one) => one.place === place || one.place.startsWith(`${place}.`) || one.place.startsWith(`${place}[`));
}

/** What is another than when the member's folder was made. */
export function changes(one: ChangedMember): { what: string; was: string; now: string }[] {
  const prompt = { what: "prompt", was: one.prompt_was, now: one.prompt_now };
  const folder = { what: "folder", was: one.folder_was, now: one.folder_now };
  return [prompt, folder].flatMap(({ was, ...rest }) => (was === null ? [] : [{ was, ...rest }]));
}
