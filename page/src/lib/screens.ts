/** The eight screens in the order of their keys, and how each is loaded. */

import type { Component } from "svelte";
import type { IconName } from "../parts/Icon.svelte";
import Home from "../screens/Home.svelte";
import { to, type Route, type ScreenName } from "./router.svelte";

/** The project and task that links to screens refer to: those shown last, otherwise the newest. */
export interface Place {
  project: string;
  task: string;
}

export interface ScreenEntry {
  name: ScreenName;
  label: string;
  icon: IconName;
  /** What it shows: everything, one task, or one project. */
  of: "all" | "task" | "project";
  address: (place: Place) => string;
}

export const SCREENS: readonly ScreenEntry[] = [
  { name: "home", label: "Home", icon: "home", of: "all", address: () => to.home() },
  { name: "inbox", label: "Inbox", icon: "inbox", of: "all", address: () => to.inbox() },
  { name: "talk", label: "Talk", icon: "talk", of: "task", address: (at) => to.talk(at.project, at.task) },
  { name: "tickets", label: "Tickets", icon: "tickets", of: "task", address: (at) => to.tickets(at.project, at.task) },
  { name: "pipeline", label: "Pipeline", icon: "pipeline", of: "task", address: (at) => to.pipeline(at.project, at.task) },
  { name: "changes", label: "Changes", icon: "changes", of: "task", address: (at) => to.changes(at.project, at.task) },
  { name: "record", label: "Record", icon: "record", of: "project", address: (at) => to.record(at.project) },
  { name: "team", label: "Team", icon: "team", of: "project", address: (at) => to.team(at.project) },
];

/** A screen gets its route, and is created again when the project, task or ticket changes. */
export type Screen = Component<{ route: Route }>;

/** Home is part of the page; every other screen is loaded when it is first shown. */
export const LOADERS: Record<ScreenName, () => Promise<{ default: Screen }>> = {
  home: () => Promise.resolve({ default: Home as Screen }),
  inbox: () => import("../screens/Inbox.svelte"),
  talk: () => import("../screens/Talk.svelte"),
  tickets: () => import("../screens/Tickets.svelte"),
  ticket: () => import("../screens/Ticket.svelte"),
  pipeline: () => import("../screens/Pipeline.svelte"),
  changes: () => import("../screens/Changes.svelte"),
  record: () => import("../screens/Record.svelte"),
  team: () => import("../screens/Team.svelte"),
};
