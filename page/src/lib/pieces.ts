/** Loads parts of the page when they are first shown: screens, graphs, charts, diffs. */

import { Problem, RETRY } from "./api";

/** Session storage key: how often the page was reloaded since a part last loaded. */
const RELOADS = "coterie.reloads";
const LONGEST_PAUSE = 60_000;

/**
 * Load a part.  If that fails because the server is away, the page is reloaded once it is back:
 * a browser does not retry a module or style that it failed to load.
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

/** Load a part and pass it to `use`. */
export function usePiece<T>(load: () => Promise<T>, use: (piece: T) => void): void {
  loadPiece(load).then(use, () => undefined);
}

/** Reload once the server answers, unless the user has gone to another screen.  The pause doubles with
 *  every reload, in case the part is missing for good. */
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
