/** Routing. The address is the only state, so every screen can be linked to. */

export type ScreenName =
  | "home"
  | "inbox"
  | "talk"
  | "tickets"
  | "ticket"
  | "pipeline"
  | "changes"
  | "record"
  | "team";

export interface Route {
  screen: ScreenName | "missing";
  project: string;
  task: string;
  /** The ticket's id on a ticket's screen, otherwise empty. */
  ticket: string;
  query: URLSearchParams;
}

const TASK_SCREENS: Record<string, ScreenName> = {
  "": "talk",
  tickets: "tickets",
  pipeline: "pipeline",
  changes: "changes",
};

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Parse an address. */
export function routeOf(path: string, search = ""): Route {
  const parts = path.split("/").filter(Boolean).map(decode);
  const route: Route = {
    screen: "missing",
    project: "",
    task: "",
    ticket: "",
    query: new URLSearchParams(search),
  };
  if (parts.length === 0) return { ...route, screen: "home" };
  if (parts.length === 1 && parts[0] === "inbox") return { ...route, screen: "inbox" };
  if (parts[0] !== "p" || parts.length < 3) return route;
  route.project = parts[1] ?? "";
  if (parts.length === 3 && (parts[2] === "record" || parts[2] === "team")) {
    return { ...route, screen: parts[2] };
  }
  if (parts[2] !== "t" || parts.length < 4) return route;
  route.task = parts[3] ?? "";
  if (parts.length === 6 && parts[4] === "tickets") {
    return { ...route, screen: "ticket", ticket: parts[5] ?? "" };
  }
  const screen = parts.length <= 5 ? TASK_SCREENS[parts[4] ?? ""] : undefined;
  return screen ? { ...route, screen } : route;
}

const part = encodeURIComponent;

/** The addresses of the screens. */
export const to = {
  home: () => "/",
  inbox: (question?: { project: string; id: string }) =>
    question ? `/inbox?q=${part(question.project)}.${part(question.id)}` : "/inbox",
  talk: (project: string, task: string) => `/p/${part(project)}/t/${part(task)}`,
  tickets: (project: string, task: string) => `/p/${part(project)}/t/${part(task)}/tickets`,
  ticket: (project: string, task: string, ticket: string) =>
    `/p/${part(project)}/t/${part(task)}/tickets/${part(ticket)}`,
  pipeline: (project: string, task: string) => `/p/${part(project)}/t/${part(task)}/pipeline`,
  changes: (project: string, task: string) => `/p/${part(project)}/t/${part(task)}/changes`,
  record: (project: string) => `/p/${part(project)}/record`,
  /** The team screen; without a name it shows the project's default team. */
  team: (project: string, team = "") => `/p/${part(project)}/team${team ? `?team=${part(team)}` : ""}`,
};

class Router {
  route = $state.raw(routeOf(location.pathname, location.search));

  constructor() {
    addEventListener("popstate", () => this.read());
    // Ordinary links, so that they can be opened in a new tab, copied and reached by keyboard.
    document.addEventListener("click", (event) => {
      const link = (event.target as Element | null)?.closest?.("a");
      if (!link || !isOurs(event, link)) return;
      event.preventDefault();
      this.go(link.pathname + link.search);
    });
  }

  go(address: string, { replace = false } = {}): void {
    if (address === location.pathname + location.search) return;
    if (replace) history.replaceState(null, "", address);
    else history.pushState(null, "", address);
    this.read();
    if (!replace) scrollTo(0, 0);
  }

  private read(): void {
    this.route = routeOf(location.pathname, location.search);
  }
}

function isOurs(event: MouseEvent, link: HTMLAnchorElement): boolean {
  const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey;
  const here = link.origin === location.origin && !link.pathname.startsWith("/api/");
  return plain && here && !link.target && !link.hasAttribute("download") && !event.defaultPrevented;
}

export const router = new Router();
