"""The hook that Codex calls before each command: makes the command wait for our permit.

    python -I -S hook.py FOLDER

Codex only takes a yes or a no to a command as it stands, and cannot be told to run one command in
another sandbox.  But a hook may change the command before anything is asked.  This one prepends a
line that lets it run only if there is a permit in FOLDER, which no command can write to:
`KEY.work`, to run it as it is, or `KEY.look`, a script that runs in its place and prints what our
own read-only run of the same command gave.  Without either, it does not run.

It imports nothing of Coterie; Coterie imports it to know the line.
"""

import hashlib
import json
import sys

WORK, LOOK = "work", "look"


def key_of(call_id: str, command: str) -> str:
    """Return the key of a call's permit: no two calls share one, whatever ids a model gives."""
    # Hashed: both come from the model, and nothing of them may get into the line itself.
    given = json.dumps([call_id, command]).encode()
    return hashlib.sha256(given).hexdigest()


def condition(folder: str, key: str) -> str:
    """Return the line to prepend, which any POSIX shell understands."""
    quoted = folder.replace("'", "'\\''")
    word, script = (f"'{quoted}/{key}.{kind}'" for kind in (WORK, LOOK))
    return f"[ -e {word} ] || exec /bin/sh {script} || exit 126\n"


def original(folder: str, call_id: str, command: str) -> str | None:
    """Return the command after this call's line; None if there is no such line."""
    head, newline, given = command.partition("\n")
    is_ours = head + newline == condition(folder, key_of(call_id, given))
    return given if is_ours else None


def main(folder: str) -> None:
    """Answer one call of the hook."""
    request = json.load(sys.stdin)
    command = request["tool_input"]["command"]
    changed = condition(folder, key_of(request["tool_use_id"], command)) + command
    answer = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow",  # only the change: the command is asked about afterwards
        "updatedInput": {"command": changed},
    }
    sys.stdout.write(json.dumps({"hookSpecificOutput": answer}))


if __name__ == "__main__":
    main(sys.argv[1])
