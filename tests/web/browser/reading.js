// Run in the page: everything that a reader of the screen can find, in the order of the screen.
(() => {
  const parts = [];
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node.nodeType === Node.TEXT_NODE) parts.push(node.data);
    else {
      // Where a link leads is shown by every browser; a title, by pointing at it.
      // An option is shown by its text, and what it stands for is not.
      for (const name of node.matches("option") ? ["title"] : ["href", "title", "value"]) {
        const value = node.getAttribute(name);
        if (value) parts.push(` ${value} `);
      }
    }
  }
  return parts.join("");
})();
