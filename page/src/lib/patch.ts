/** Builds a patch from the input of a tool call, for the input formats of all known agents. */

type Fields = Record<string, unknown>;

const PAIRS = [
  ["old_string", "new_string"],
  ["oldString", "newString"],
  ["oldStr", "newStr"],
] as const;
const WHOLE = ["diff", "patch", "unified_diff"];
const LISTS = ["edits", "changes"];

/** The fields that the patch already shows. */
export const PATCH_FIELDS: readonly string[] = [...PAIRS.flat(), ...WHOLE, ...LISTS];

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function lines(text: string, mark: string): string[] {
  return text === "" ? [] : text.split("\n").map((line) => mark + line);
}

function pairIn(fields: Fields): string {
  for (const [before, after] of PAIRS) {
    const [old, added] = [fields[before], fields[after]];
    if (typeof old === "string" && typeof added === "string") {
      return [...lines(old, "-"), ...lines(added, "+")].join("\n");
    }
  }
  return "";
}

/** The single edits of a call that makes several, given as a list or by file. */
function partsIn(fields: Fields): [name: string, part: unknown][] {
  return LISTS.flatMap((name): [string, unknown][] => {
    const value = fields[name];
    if (Array.isArray(value)) return value.map((part) => [placeIn(part), part]);
    return isFields(value) ? Object.entries(value) : [];
  });
}

function placeIn(part: unknown): string {
  const path = isFields(part) ? (part.path ?? part.file_path) : "";
  return typeof path === "string" ? path : "";
}

/** The patch; empty if the input describes no edit. */
export function patchOf(input: Fields | null): string {
  if (!input) return "";
  const whole = WHOLE.map((name) => input[name]).find((value) => typeof value === "string" && value !== "");
  if (typeof whole === "string") return whole;
  const parts = partsIn(input).flatMap(([name, part]) => {
    const patch = isFields(part) ? patchOf(part) : "";
    return patch === "" ? [] : [name ? `--- ${name}\n${patch}` : patch];
  });
  return parts.length ? parts.join("\n") : pairIn(input);
}
