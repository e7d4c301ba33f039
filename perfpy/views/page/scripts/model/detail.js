/* Levels of detail: all samples of a short range, in place of those of the overview that stand for them. */

import { indexed } from "./kinds.js";
import { columnsOf } from "./unpack.js";

/* More chunks are not shown at once: the overview is fine enough for so long a range. */
const MOST_CHUNKS = 8, KEPT = 16;

/* The chunks [first, end) of a table that a range of ticks has a part of; null if it has none, or has too many. */
export function chunksWithin(chunks, [from, to]) {
  const first = chunks.findIndex(chunk => chunk[3] >= from);
  if (first < 0) return null;
  let end = first;
  while (end < chunks.length && chunks[end][2] < to) end++;
  return end > first && end - first <= MOST_CHUNKS ? [first, end] : null;
}

const COLUMNS = ["node", "thread", "cpu", "site", "weight", "count", "time"];

/* A table of samples: rows of the overview up to `from`, all samples of some chunks, and the overview from `to` on. */
export function composed(overview, parts, from, to) {
  const table = { ...overview }, middle = parts.reduce((sum, part) => sum + part.node.length, 0);
  table.n = from + middle + overview.n - to;
  for (const name of COLUMNS) {
    if (!parts[0][name]) continue;
    const pieces = [overview[name].subarray(0, from), ...parts.map(part => part[name]), overview[name].subarray(to)];
    const column = new (pieces.some(piece => piece instanceof Float64Array) ? Float64Array : Uint32Array)(table.n);
    let at = 0;
    for (const piece of pieces) { column.set(piece, at); at += piece.length; }
    table[name] = column;
  }
  return indexed(table);
}

/* Shows all samples of a range in the tables of a profile. read(number) -> the packed columns of a chunk. */
export class Detail {
  constructor(profile, read) {
    Object.assign(this, { profile, read, kept: new Map(), asked: 0 });
    this.overviews = profile.events.map(event => [...event.samples]);
    this.now = profile.events.map(event => event.samples.map(() => "null"));
    profile.reads = 0; /* how often other samples were put in place */
  }

  async chunk(number) {
    if (!this.kept.has(number)) {
      if (this.kept.size >= KEPT) this.kept.delete(this.kept.keys().next().value);
      this.kept.set(number, await columnsOf(await this.read(number), "node"));
    }
    return this.kept.get(number);
  }

  /* Put the tables for a range (null: the whole recording) in place; whether any of them is another one than before. */
  async show(range) {
    const asked = ++this.asked, found = [];
    for (const [e, tables] of this.overviews.entries()) for (const [r, overview] of tables.entries()) {
      if (!overview.chunks) continue;
      const within = range && chunksWithin(overview.chunks, range), key = JSON.stringify(within);
      if (key === this.now[e][r]) continue;
      const parts = [];
      for (let i = within ? within[0] : 0; within && i < within[1]; i++) parts.push(await this.chunk(overview.firstChunk + i));
      found.push([e, r, key, within ? composed(overview, parts, overview.chunks[within[0]][0], overview.chunks[within[1] - 1][1]) : overview]);
    }
    if (asked !== this.asked) return false;
    for (const [e, r, key, table] of found) {
      this.profile.events[e].samples[r] = table;
      this.now[e][r] = key;
    }
    if (found.length) this.profile.reads++;
    return found.length > 0;
  }
}
