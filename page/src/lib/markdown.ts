/**
 * Renders Markdown from agents safely: their HTML is escaped, images become links, only web and mail
 * links work, and whatever is not rendered stays readable as text.
 */

import DOMPurify from "dompurify";
import { Marked, type Tokens } from "marked";
import { visible } from "./text";

const WEB = /^(?:https?|mailto):/i;

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`);
}

/** A link, followed by its host unless its text already is the address. */
function linkTo(href: string, html: string, text: string, title?: string | null): string {
  const titled = title ? ` “${escaped(title)}”` : "";
  if (!WEB.test(href)) return text === href ? html : `${html} (<code>${escaped(href)}</code>${titled})`;
  const says = text.trim().replace(/\/$/, "") === href.replace(/\/$/, "");
  const place = says ? "" : ` <span class="leads">(${escaped(hostOf(href))})</span>`;
  return `<a href="${escaped(href)}" rel="noopener noreferrer nofollow" target="_blank">${html}</a>${place}${titled}`;
}

function hostOf(href: string): string {
  try {
    return new URL(href).host || href;
  } catch {
    return href;
  }
}

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ text }: Tokens.HTML | Tokens.Tag) => escaped(text),
    image: ({ href, text, title }: Tokens.Image) => linkTo(href, escaped(text || href), text || href, title),
    link({ href, tokens, text, title }: Tokens.Link) {
      return linkTo(href, this.parser.parseInline(tokens), text, title);
    },
    code({ text, lang }: Tokens.Code) {
      // A language name only selects highlighting; any other text there is shown.
      const label = lang && !/^[\w+#.-]{1,24}$/.test(lang) ? `${escaped(lang)}\n` : "";
      return `<pre><code>${label}${escaped(text)}\n</code></pre>`;
    },
    checkbox: ({ checked }: Tokens.Checkbox) => (checked ? "☑ " : "☐ "),
  },
});

const ALLOWED = {
  ALLOWED_TAGS:
    "a b blockquote br code del em h1 h2 h3 h4 h5 h6 hr i li ol p pre s span strong table tbody td th thead tr ul".split(
      " ",
    ),
  ALLOWED_ATTR: ["href", "rel", "target", "class", "start"],
  ALLOWED_URI_REGEXP: WEB,
  // Not addresses: without this they would be checked as such and removed.
  ADD_URI_SAFE_ATTR: ["rel", "target", "start"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true as const,
};

/** Render Markdown into elements. */
export function rendered(text: string): DocumentFragment {
  const fragment = DOMPurify.sanitize(marked.parse(visible(text), { async: false }), ALLOWED);
  // A heading in a message must not appear in the outline of the page.
  for (const heading of fragment.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    const plain = document.createElement("p");
    plain.className = "heading";
    plain.append(...heading.childNodes);
    heading.replaceWith(plain);
  }
  for (const code of fragment.querySelectorAll("pre > code.language-json")) fold(code);
  return fragment;
}

const LONG = 8;

/** Fold long JSON, which is mostly data that members pass to each other. */
function fold(code: Element): void {
  const lines = (code.textContent ?? "").trimEnd().split("\n").length;
  const block = code.parentElement;
  if (lines < LONG || !block) return;
  const folded = document.createElement("details");
  const summary = document.createElement("summary");
  summary.textContent = `JSON, ${lines} lines`;
  block.replaceWith(folded);
  folded.append(summary, block);
}
