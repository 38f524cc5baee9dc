"""An agent that leaves startup files in its home, or runs what reads them: `plant X`, `fire X`.

`python start_files_agent.py` takes the prompt on stdin and prints one JSON line; `$M` is the mark.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping

_MONITOR = "printf '[core]\\n\\tfsmonitor = \"touch %s; false\"\\n' $M >"
_STATUS = "git -C $R status"

LEFT: Mapping[str, tuple[str, str]] = {
    "bashrc": ("echo touch $M > ~/.bashrc", "bash -ic true"),
    "bash-profile": ("echo touch $M > ~/.bash_profile", "bash -lc true"),
    "bash-login": ("echo touch $M > ~/.bash_login", "bash -lc true"),
    "bash-logout": ("echo touch $M > ~/.bash_logout", "bash -lc exit"),
    "profile": ("echo touch $M > ~/.profile", "sh -lc true"),
    "linked-profile": ("echo touch $M > ~/mine; ln -s mine ~/.profile", "sh -lc true"),
    "gitconfig": (f"{_MONITOR} ~/.gitconfig", _STATUS),
    "alias": ('git config --global alias.st "!touch $M"', "git -C $R st"),
    "xdg": (f"mkdir -p ~/.config/git; {_MONITOR} ~/.config/git/config", _STATUS),
    "included": (
        f"{_MONITOR} ~/more; git config --global include.path ~/more",
        _STATUS,
    ),
    "template": (
        "mkdir -p ~/t/hooks; printf '#!/bin/sh\\ntouch %s\\n' $M > ~/t/hooks/post-checkout; "
        "chmod +x ~/t/hooks/post-checkout; git config --global init.templateDir ~/t",
        "git clone -q $R ~/clone-$RANDOM",
    ),
    "linked-config": (
        f"mkdir -p $O/git; {_MONITOR} $O/git/config; ln -s $O ~/.config",
        _STATUS,
    ),
}
"""By name: how it is planted, and what runs it.  `$R` is a repository, `$O` a folder outside."""


def main() -> None:
    said = sys.stdin.read().rpartition("[MESSAGE]\n")[2]
    for deed, name in re.findall(r"(plant|fire) ([a-z-]+)", said):
        script = LEFT[name][deed == "fire"]
        subprocess.run(["bash", "-c", script], env=os.environ, capture_output=True, check=False)
    print(json.dumps({"type": "result", "text": "done"}), flush=True)


if __name__ == "__main__":
    main()
