/* A patch as rows for a side-by-side view: diff2html parses it and pairs the lines; the page renders them itself, as text
   only and in its own colours. Loaded only when a diff is shown. */
import { parse } from "diff2html/lib-esm/diff-parser.js";
import { newDistanceFn, newMatcherFn } from "diff2html/lib-esm/rematch.js";
import { visible } from "../lib/text";
import type { DiffBlock, DiffFile, DiffLine } from "diff2html/lib-esm/types.js";

/** Beyond this many pairs, or with longer lines, lines are not matched: that would take seconds. */
const MOST_PAIRS = 1600;
const LONGEST = 400;

export interface Span {
  text: string;
  changed: boolean;
}

export interface Side {
  number: number;
  kind: "old" | "new" | "same";
  spans: Span[];
}

/** One line per side; a side is missing where the other one was added or removed. */
export interface Row {
  left?: Side;
  right?: Side;
}

export interface Block {
  header: string;
  rows: Row[];
}

export type Change = "added" | "deleted" | "renamed" | "changed" | "binary";

export interface FileDiff {
  name: string;
  before?: string;
  change: Change;
  added: number;
  removed: number;
  lines: number;
  blocks: Block[];
}

export function readPatch(patch: string): FileDiff[] {
  // The parser treats a carriage return as the end of a line and drops the rest of the line.
  return parse(patch.replace(/\r(?!\n)/g, visible), {}).map(fileOf);
}

function fileOf(file: DiffFile): FileDiff {
  const name = file.isDeleted ? file.oldName : file.newName;
  const moved = file.isRename || file.isCopy;
  return {
    name,
    before: moved ? file.oldName : undefined,
    change: file.isBinary ? "binary" : file.isNew ? "added" : file.isDeleted ? "deleted" : moved ? "renamed" : "changed",
    added: file.addedLines,
    removed: file.deletedLines,
    lines: file.blocks.reduce((sum, block) => sum + block.lines.length, 0),
    blocks: file.blocks.map(blockOf),
  };
}

function blockOf(block: DiffBlock): Block {
  const rows: Row[] = [];
  let old: DiffLine[] = [];
  let fresh: DiffLine[] = [];
  const flush = (): void => {
    rows.push(...paired(old, fresh));
    old = [];
    fresh = [];
  };
  for (const line of block.lines) {
    if (line.type === "delete") {
      if (fresh.length) flush();
      old.push(line);
    } else if (line.type === "insert") {
      fresh.push(line);
    } else {
      flush();
      const spans = plain(line);
      rows.push({
        left: { number: line.oldNumber ?? 0, kind: "same", spans },
        right: { number: line.newNumber ?? 0, kind: "same", spans },
      });
    }
  }
  flush();
  return { header: block.header, rows };
}

const text = (line: DiffLine): string => line.content.slice(1);
const plain = (line: DiffLine): Span[] => [{ text: text(line), changed: false }];
const match = newMatcherFn<DiffLine>(newDistanceFn(text));

function paired(old: DiffLine[], fresh: DiffLine[]): Row[] {
  const small = old.length * fresh.length <= MOST_PAIRS && [...old, ...fresh].every((line) => line.content.length <= LONGEST);
  const groups = old.length && fresh.length && small ? match(old, fresh) : [[old, fresh]];
  return groups.flatMap(([left = [], right = []]) => {
    const length = Math.max(left.length, right.length);
    return Array.from({ length }, (_, place) => row(left[place], right[place]));
  });
}

function row(old: DiffLine | undefined, fresh: DiffLine | undefined): Row {
  const [before, after] = old && fresh ? marked(text(old), text(fresh)) : [old && plain(old), fresh && plain(fresh)];
  return {
    left: old && { number: old.oldNumber ?? 0, kind: "old", spans: before ?? [] },
    right: fresh && { number: fresh.newNumber ?? 0, kind: "new", spans: after ?? [] },
  };
}

/** Mark what differs between the common start and end of two lines; nothing if they have little in common. */
function marked(old: string, fresh: string): [Span[], Span[]] {
  const shorter = Math.min(old.length, fresh.length);
  let head = 0;
  while (head < shorter && old[head] === fresh[head]) head++;
  let tail = 0;
  while (tail < shorter - head && old[old.length - 1 - tail] === fresh[fresh.length - 1 - tail]) tail++;
  const common = old.slice(0, head).trim().length + old.slice(old.length - tail).trim().length;
  if (common * 4 < shorter) return [[{ text: old, changed: false }], [{ text: fresh, changed: false }]];
  return [spans(old, head, tail), spans(fresh, head, tail)];
}

function spans(line: string, head: number, tail: number): Span[] {
  const end = line.length - tail;
  const parts = [
    { text: line.slice(0, head), changed: false },
    { text: line.slice(head, end), changed: true },
    { text: line.slice(end), changed: false },
  ];
  return parts.filter((part) => part.text);
}
