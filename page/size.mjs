// Says how much JavaScript the first screen loads, and fails where that is over its budget.
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const BUDGET = 150 * 1024;
const made = process.argv[2];
const listed = join(made, "manifest.json");
const manifest = JSON.parse(readFileSync(listed, "utf8"));
rmSync(listed); // only needed here

/** A chunk with all that it imports at once, not what it may load later. */
function files(name, found = new Set()) {
  const chunk = manifest[name];
  if (chunk === undefined || found.has(chunk.file)) return found;
  found.add(chunk.file);
  for (const one of chunk.imports ?? []) files(one, found);
  return found;
}

const first = new Set([...files("index.html"), ...files("src/screens/Home.svelte")]);
const size = [...first]
  .filter((file) => file.endsWith(".js"))
  .reduce((sum, file) => sum + gzipSync(readFileSync(join(made, file))).length, 0);
const shown = (size / 1024).toFixed(1);
console.log(`coterie: built ${made}; the first screen loads ${shown} KB of JavaScript (gzip)`);
if (size > BUDGET) {
  console.error(`coterie: that is over its budget of ${BUDGET / 1024} KB`);
  process.exit(1);
}
