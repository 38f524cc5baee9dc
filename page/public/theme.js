// Before the first paint, so that the page never shows the other theme for a moment.
try {
  const chosen = localStorage.getItem("coterie.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage that is switched off: the system's own theme.
}
