/** Light or dark: the system's setting until the user chooses; `public/theme.js` applies it before the page loads. */

const KEY = "coterie.theme";
type Theme = "light" | "dark";

class ThemeSwitch {
  private system = matchMedia("(prefers-color-scheme: dark)");
  private chosen = $state<Theme | null>(null);
  private systemIsDark = $state(this.system.matches);

  constructor() {
    const set = document.documentElement.dataset.theme;
    this.chosen = set === "light" || set === "dark" ? set : null;
    this.system.addEventListener("change", (event) => (this.systemIsDark = event.matches));
    addEventListener("storage", (event) => {
      if (event.key === KEY) this.apply(event.newValue as Theme | null);
    });
  }

  get current(): Theme {
    return this.chosen ?? (this.systemIsDark ? "dark" : "light");
  }

  toggle(): void {
    const next = this.current === "dark" ? "light" : "dark";
    this.apply(next);
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // Storage may be blocked; the choice then lasts until the next reload.
    }
  }

  private apply(theme: Theme | null): void {
    this.chosen = theme;
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  }
}

export const theme = new ThemeSwitch();
