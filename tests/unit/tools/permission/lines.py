"""Command lines that nobody would write: allowed and forbidden pieces, mutated at random.

The rules allow `okay`, `half one`, `exact` and `pre-a`; a line that runs `evil`, finds a program
in `fake` or writes `x` has bypassed them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hypothesis import strategies as st

ALLOWED = (
    "okay",
    "okay one two",
    "okay 'one; evil' \"two | evil\"",
    "half one",
    "half one two",
    "exact",
    "pre-a",
    "okay src/*.py",
    "okay > out/new",
    "okay 2>&1 >/dev/null",
    "okay >> out/old 2> out/err",
    "okay < a.txt",
    "okay &> out/both",
    "okay <<'EOF'\nevil $(evil)\nEOF",
    "okay <<EOF\nplain\nEOF",
    "okay <<-EOF\n\tplain\n\tEOF\nexact",
    "okay <<< evil",
    "(okay; exact)",
    "{ okay; exact; }",
    "okay && exact || half one",
    "okay | exact |& half one & okay",
    "okay # evil",
    "okay \\\n  one",
    "cd src && okay",
    "cd src; cd .. ; exact",
    "timeout 5 okay",
    "nice okay",
    "time okay",
    "bash -c 'okay one; exact'",
    "bash -lc 'half one'",
    "ls -la src | sort | uniq -c | head -n 3",
    "cat a.txt b.txt | tr a b",
    "grep -rn okay src",
    "grep evil a.txt || echo none",
    "find . -name '*.py' -type f",
    "printf '%s %d\\n' 3 4",
    "echo okay evil",
    "sed -n '1,2p' a.txt",
    "sort a.txt",
    "uniq a.txt",
    "wc -l *.txt",
    "git status; git --no-pager log",
    "[ -f a.txt ] && okay",
    "test -d src && exact",
    "diff a.txt b.txt",
    "command -v okay",
    "jq -n '1'",
    "date +%s; pwd; id; uname -a; env",
)

CHARACTERS = tuple("abx'\"\\$`;&|<>(){}[]*?~!#=,:.-/% \t\n\r\0\x01\x7f\u00a0\u2028\ufeffé")

BITS = (
    *("evil", " evil ", "; evil", "&& evil", "| evil", "|| evil", "& evil", "\nevil", "\\\nevil"),
    *("$(evil)", "`evil`", "<(evil)", ">(evil)", '"$(evil)"', "${x:-$(evil)}", "$((1))", ";;evil"),
    *("$x", "$IFS", "${IFS}evil", "$'evil'", "$'\\x65vil'", '$"evil"', "$@", "$PATH", "$", "=evil"),
    *("{evil,x}", "{a..b}", "{ ", " ;}", "~", "~/x", "{PATH}>", "{x}>out/x", "1>", "2>&1", " two "),
    *("> x", ">x", ">> x", ">| x", "<> x", "&> x", "&>> x", ">& x", "2> x", "> out/x", "> link/x"),
    *("> ../x", "> out/../x", "> out/up/x", "> .git/x", "> src/x", ">\\\n x", "> 'x y'", ">!x"),
    *("< link/secret", "< .env", "< ../outside/secret", "< out/up/outside/secret", "<x", "0<"),
    *("<<EOF", "<<'EOF'", "<<-EOF", '<<E"O"F', "\nEOF\n", "\nEOF", "\n\tEOF\n", "<<<", "<<\\EOF"),
    *(
        "-o",
        " -o x ",
        " # x\nevil",
        " -exec evil ; ",
        " -fprint x ",
        "-c",
        " -- ",
        "\\;",
        "''",
        '""',
        " x ",
        " #",
    ),
    *(
        " -v PATH fake",
        " -i ",
        " w x ",
        " --output=x",
        " --pre evil ",
        " ../outside/secret",
        " .env",
    ),
)

HARM = (
    *("evil", "rm x", "half", "half two", "exact x", "./okay", "fake/okay", "../bin/evil"),
    *("./exact", "/bin/sh -c evil", "src/../okay", "exec evil", "command evil", "builtin cd fake"),
    *("PATH=fake", "PATH=fake okay", "PATH=. ", "x=1", "x[0]=1", "x=(a)", "export PATH=fake"),
    *("declare PATH=fake", "printf -v PATH fake", "printf 'fake%n' PATH", "read PATH <<< fake"),
    *("if okay; then evil; fi", "while evil; do okay; done", "for x in evil; do $x; done"),
    *("okay() { evil; }", "function okay { evil; }", "case x in x) evil;; esac", "coproc evil"),
    *("eval evil", "source fake/okay", ". ./okay", "alias okay=evil", "hash -p ./okay okay"),
    *("set -- evil", "trap evil EXIT", "cd fake; ./okay", "cd link", "cd ..", "cd out/up", "cd -"),
    *(
        "cd",
        "cd fake | okay",
        "pushd fake",
        "cd fake && ./okay",
        "! evil",
        "[[ -f x ]]",
        "[ -v x ]",
    ),
    *("sort -o x a.txt", "sort --outp=x a.txt", "sort -uox a.txt", "uniq a.txt x", "sort -T. x"),
    *("find . -exec evil ;", "find . -fprint x", "find src -ok evil", "find . -execdir evil \\;"),
    *(
        "xargs evil",
        "env evil",
        "env -i evil",
        "nice evil",
        "timeout 5 evil",
        "timeout -k 1 5 evil",
    ),
    *(
        "time evil",
        "time -p evil",
        "nohup evil",
        "nohup okay",
        "nice -n 5 evil",
        "timeout 5 env evil",
    ),
    *("sed -n 'w x' a.txt", "sed -i s/o/x/ a.txt", "sed -n '1e evil' a.txt", "sed -n '1w x' a.txt"),
    *(
        "bash -c evil",
        "bash -c 'okay; evil'",
        "sh -c 'evil'",
        "bash evil",
        "bash <<<evil",
        "x | bash",
    ),
    *("git -c alias.x=!evil x", "git stash", "git init x", "git log --output=x", "git tag x"),
    *("rg --pre evil okay", "grep -r . .", "rg -uu .", "cat link/secret", "cat .env", "cat .e*"),
    *(
        "cd link; cat secret",
        "cd ..; cat outside/secret",
        "cd src && cat ../.env",
        "cd out/up; cat log",
    ),
    *("cat ../outside/secret", "head */secret", "cat out/up/outside/secret", "cat ~/secret"),
    *("tree -o x", "date -s x", "file -C -m a.txt", "jq -n 'import \"x\" as $x; 1'", "tee x"),
    *("test -v 'x[$(evil)]'", "printf %d 'x[$(evil)]'", "[ -v 'x[$(evil)]' ]", "echo $(evil)"),
    *("diff a.txt .env", "grep -f .env a.txt", "wc -c < .env", "git diff --no-index a.txt .env"),
)

_BOUNDARY = re.compile(r"(?<=[\s;&|<>(){}'\"])|(?=[\s;&|<>(){}'\"])|^|$")


@st.composite
def bent_lines(draw: st.DrawFn) -> str:
    """An allowed line with bits inserted or overwritten, mostly between words."""
    line = draw(st.sampled_from(ALLOWED))
    for bit in draw(st.lists(st.sampled_from(BITS) | st.sampled_from(CHARACTERS), max_size=2)):
        between = [found.start() for found in _BOUNDARY.finditer(line)]
        start = draw(st.sampled_from(between) | st.integers(0, len(line)))
        end = start + draw(st.sampled_from([0, 0, 0, 1, 2, 5]))
        line = line[:start] + bit + line[end:]
    return line


JOINTS = ("; ", ";", " && ", " | ", "\n", " & ", " || ", " |& ", "&&", "|")


@st.composite
def joined_lines(draw: st.DrawFn) -> str:
    """Allowed and harmful lines, joined in any order."""
    parts = st.sampled_from(ALLOWED) | st.sampled_from(HARM)
    line = draw(parts)
    for joint in draw(st.lists(st.sampled_from(JOINTS), max_size=2)):
        line += joint + draw(parts)
    return line


WRAPS = (
    *("bash -c '%s'", 'bash -lc "%s"', "(%s)", "{ %s; }", "okay %s", "okay '%s'", 'okay "%s"'),
    *(
        "timeout 5 %s",
        "time %s",
        "cd src && %s",
        "cd fake; %s",
        "echo %s",
        "%s &",
        "\\%s",
        "%s # x",
    ),
    *("okay <<'EOF'\n%s\nEOF", "okay <<EOF\n%s\nEOF", "bash -c 'bash -c \"%s\"'", "%s\\", " %s"),
)


@st.composite
def wrapped_lines(draw: st.DrawFn) -> str:
    """A joined line, harmful or not, inside a wrapper."""
    return draw(st.sampled_from(WRAPS)).replace("%s", draw(joined_lines()))


LINES = st.one_of(bent_lines(), bent_lines(), joined_lines(), wrapped_lines())


_CONTINUED = (
    *("okay && evil b", "okay|| evil", "okay;evil", "okay & evil", "okay |& evil", "(evil)"),
    *("{ evil; }", "! evil", "if evil; then okay; fi", "case x in x) evil;; esac", "coproc evil"),
    *("time evil", "okay $(evil)", 'okay "$(evil)"', "okay `evil`", "okay <(evil)", "$'ev\\x69l'"),
    *("cat <<EOF\n$(evil)\nEOF", "cat <<-EOF\n\tx\n\tEOF\nevil", "cat <<'EOF'\nx\nEOF\nevil"),
    *("okay # x\nevil", "cat <<A <<B\n1\nA\n2\nB\nevil", "okay >> out/x; evil", "okay 2>&1; evil"),
    *(
        "X=1 evil",
        "xargs evil",
        "bash -c 'okay && evil'",
        "cat .env",
        "cat < .env",
        "okay <<< x;evil",
    ),
    *("cd src && cat ../.env", "cd . && grep -r kept .", "rg --hidden kept", "f() { evil; }; f"),
)
_CONTINUED_DOCUMENTS = (
    "cat <<EOF\nEO\\\nF\nevil\nEOF",
    "cat <<-EOF\n\tEO\\\nF\nevil\nEOF",
    "cat <<EOF\nx\\\nEOF\nevil\nEOF\n",
    "cat <<EOF\nx\\\\\nEOF\nevil",
    "cat <<EOF\n\\\nEOF\nevil\nEOF",
    "cat <<'EOF'\nEO\\\nF\nevil\nEOF",
    "cat <<E\\\nOF\nx\nEOF\nevil\nEOF",
    "cat <<EOF \\\n x\ny\nEOF\nevil",
    "okay $(cat <<EOF\nEO\\\nF\nevil\nEOF\n)",
)


def continued_lines() -> Iterator[str]:
    """Harmful lines that continue on another at every place."""
    for line in _CONTINUED:
        for at in range(len(line) + 1):
            yield from (f"{line[:at]}\\\n{blank}{line[at:]}" for blank in ("", " ", "\\\n"))
    yield from _CONTINUED_DOCUMENTS


def each_piece() -> Iterator[str]:
    """Every bit where it might have an effect, and every harmful line alone and combined."""
    for bit in (*BITS, *CHARACTERS):
        yield from (f"okay{bit}", f"okay {bit}", f"{bit}okay", f"{bit} okay", f"ok{bit}ay")
        yield from (f"half {bit} one", f"half one{bit}two; exact", f"exact{bit}", f"cat {bit}")
        yield from (f"okay '{bit}'", f'okay "{bit}"', f"okay <<EOF\n{bit}\nEOF", f"sort a.txt{bit}")
        yield from (
            f"okay > out/x{bit}",
            f"printf {bit}; okay",
            f"find . {bit}",
            f"uniq a.txt {bit}",
        )
    for number, harm in enumerate(HARM):
        yield from (harm, f"{harm}; okay", f"{harm}\nokay", f"okay && {harm}", f"okay | {harm}")
        # Each in a third of the wrappers, to keep it cheap.
        yield from (wrap.replace("%s", harm) for wrap in WRAPS[number % 3 :: 3])
