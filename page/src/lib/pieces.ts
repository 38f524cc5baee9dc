/** Pieces of the page that are loaded when they are first shown: screens, graphs, charts, diffs. */

import { Problem, RETRY } from "./api";

/** How often the page was loaded anew since a piece was there. */
const RELOADS = "coterie.reloads";
const LONGEST_PAUSE = 60_000;

/**
 * Load one.  Where that fails, as the server went away, the page is loaded anew once it is back:
 * a browser does not ask again for a module or a style that it could not get.
 */
export async function loadPiece<T>(load: () => Promise<T>): Promise<T> {
  try {
    const piece = await load();
    sessionStorage.removeItem(RELOADS);
    return piece;
  } catch {
    void reloadWhenBack();
    throw new Problem({ detail: "This could not be loaded. Retrying when the server answers." }, 0);
  }
}

/** Load one and use it; until then its place says that it is loading. */
export function usePiece<T>(load: () => Promise<T>, use: (piece: T) => void): void {
  loadPiece(load).then(use, () => undefined);
}

/** Ever less often, for what is missing for good; and not under the hands of who went elsewhere. */
async function reloadWhenBack(): Promise<void> {
  const reloads = Number(sessionStorage.getItem(RELOADS) ?? 0);
  const pause = Math.min(RETRY * 2 ** reloads, LONGEST_PAUSE);
  const address = location.href;
  do await new Promise((done) => setTimeout(done, pause));
  while (!(await isThere()));
  if (location.href !== address) return;
  sessionStorage.setItem(RELOADS, String(reloads + 1));
  location.reload();
}

function isThere(): Promise<boolean> {
  return fetch("/icon.svg", { cache: "no-store" }).then(
    (response) => response.ok,
    () => false,
  );
}
