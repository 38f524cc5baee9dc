// Run in the page: which things a person can act on, and which of them the focus came by.
(() => {
  const ACTS =
    "a[href], button, input, select, textarea, summary, [contenteditable], [tabindex], " +
    "[role=button], [role=link], [role=tab], [role=checkbox], [role=switch], [role=option], [role=menuitem]";
  const GROUPS = "[role=tablist], [role=listbox], [role=menu], [role=grid], [role=toolbar], [role=radiogroup]";
  const walked = new Set();
  const unmarked = new Set();

  // Within a group arrows move the focus, and Tab stops at one of its members.
  const groupOf = (one) => (one.type === "radio" ? one.name : one.closest(GROUPS));

  function stops() {
    const top = [...document.querySelectorAll("dialog:modal")].at(-1);
    return [...document.querySelectorAll(ACTS)].filter((one) => {
      if (one.disabled || one.closest("[inert]")) return false;
      if (!one.checkVisibility({ visibilityProperty: true })) return false;
      if (top && !top.contains(one)) return false;
      // Headings and regions that are given the focus by the page, and do nothing.
      return !one.matches('[tabindex="-1"]:not(button, a, input, select, textarea, [role])');
    });
  }

  function named(one) {
    const words = one.getAttribute("aria-label") || one.innerText || one.value || one.name || one.className;
    return `${one.tagName.toLowerCase()} ${String(words).trim().slice(0, 60)}`;
  }

  document.addEventListener("focusin", ({ target }) => {
    walked.add(target);
    // Where the mark is drawn by something around it, `:focus-within` is what shows it.
    const marked = [target, target.parentElement].some((one) => {
      const style = one && getComputedStyle(one);
      return style && ((style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none");
    });
    if (!marked) unmarked.add(target);
  });

  window.keys = {
    count: () => stops().length,
    left: () => {
      const groups = new Set([...walked].map(groupOf).filter(Boolean));
      return stops().filter((one) => !walked.has(one) && !groups.has(groupOf(one))).map(named);
    },
    unmarked: () => [...unmarked].filter((one) => one.isConnected).map(named),
  };
})();
