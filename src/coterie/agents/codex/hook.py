"""The hook that Codex calls before each command: has the command wait for our word.

    python -I -S hook.py FOLDER

Codex's answers are a yes or a no to a command as it stands, and it cannot be told to run one
command in another sandbox.  But a hook may change the command before anything is asked.  This one
puts a line before it that lets it run only if there is a word in FOLDER, which no command can
write to: `KEY.work`, to run it as it is, or `KEY.look`, a script that is run in its place and
tells what a look of ours at the same command gave.  Without either, it does not run.

It imports nothing of Coterie, which imports it to know the line.
"""

import hashlib
import json
import sys

WORK, LOOK = "work", "look"


def key_of(call_id: str, command: str) -> str:
    """By which the word for a call is found: no two calls share one, whatever ids a model gives."""
    # Both are the model's: nothing of them may get into the line itself.
    given = json.dumps([call_id, command]).encode()
    return hashlib.sha256(given).hexdigest()


def condition(folder: str, key: str) -> str:
    """The line; a shell that knows no more than POSIX understands it."""
    quoted = folder.replace("'", "'\\''")
    word, script = (f"'{quoted}/{key}.{kind}'" for kind in (WORK, LOOK))
    return f"[ -e {word} ] || exec /bin/sh {script} || exit 126\n"


def original(folder: str, call_id: str, command: str) -> str | None:
    """The command that waits behind its line; None where it has no line that is this call's."""
    head, newline, given = command.partition("\n")
    ours = head + newline == condition(folder, key_of(call_id, given))
    return given if ours else None


def main(folder: str) -> None:
    """Answer one call of the hook."""
    told = json.load(sys.stdin)
    command = told["tool_input"]["command"]
    changed = condition(folder, key_of(told["tool_use_id"], command)) + command
    answer = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow",  # of the change alone: the command is asked about after it
        "updatedInput": {"command": changed},
    }
    sys.stdout.write(json.dumps({"hookSpecificOutput": answer}))


if __name__ == "__main__":
    main(sys.argv[1])
