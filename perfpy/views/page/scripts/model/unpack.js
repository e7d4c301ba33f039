/* The packed columns of packing.py -> typed arrays; the data of the page -> the profile that the other scripts use. */

import { asKinds, grouped, indexed } from "./kinds.js";
import { shape } from "./trees.js";

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

async function inflated(text) {
  const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/* A column as numbers: Uint32Array, or Float64Array for what is larger. of: a table that the numbers are places in. */
export async function unpacked(column) {
  const n = column.n;
  if ("all" in column) return (column.all < 2 ** 32 ? new Uint32Array(n) : new Float64Array(n)).fill(column.all);
  if (column.bytes === 8) return new Float64Array((await inflated(column.z)).buffer);
  const values = new Uint32Array(n), planes = await Promise.all([column.z].flat().map(inflated));
  planes.forEach((bytes, plane) => { for (let i = 0; i < n; i++) values[i] |= bytes[i] << 8 * plane; });
  if (column.delta) for (let i = 1; i < n; i++) values[i] += values[i - 1];
  if (!column.of) return values;
  const table = await unpacked(column.of);
  for (let i = 0; i < n; i++) values[i] = table[values[i]];
  return values;
}

/* Columns by name. groups: the one by which some of them are grouped. */
export async function columnsOf(packed, groups) {
  const names = Object.keys(packed), unordered = await Promise.all(names.map(name => unpacked(packed[name])));
  const columns = Object.fromEntries(names.map((name, i) => [name, unordered[i]])), moved = names.filter(name => packed[name].grouped);
  if (!moved.length) return columns;
  const { order } = grouped(columns[groups]), n = order.length;
  for (const name of moved) {
    const values = columns[name], ordered = columns[name] = new Uint32Array(n);
    for (let i = 0; i < n; i++) ordered[order[i]] = values[i];
  }
  return columns;
}

/* A table of samples with its index (kinds.js). With levels of detail also sums, a table of kinds without times, and where the chunks are. */
async function samplesOf({ sums, chunks, firstChunk, ...packed }, event) {
  const columns = await columnsOf(packed, "node"), table = { ...columns, n: columns.node.length, off: !!event.off, seconds: !!event.seconds };
  table.samples = columns.count.reduce((sum, count) => sum + count, 0);
  if (!chunks) return indexed(table);
  const all = sums && await columnsOf(sums, "node");
  return { ...indexed(table, true), chunks, firstChunk, sums: all && asKinds({ ...all, n: all.node.length, samples: table.samples }) };
}

async function marksOf(packed) {
  if (!packed || !packed.kinds.length) return null;
  const columns = await columnsOf(packed.rows);
  return { ...packed, ...columns, n: columns.time.length };
}

async function lanesOf(packed) {
  return Promise.all((packed || []).map(async ({ rows, ...lane }) => {
    const columns = await columnsOf(rows);
    return { ...lane, ...columns, n: columns.begin.length };
  }));
}

/* Where the turns of each thread begin: one number more than threads. */
function firstTurns({ n, thread, threads }) {
  const first = new Int32Array(threads.length + 1);
  for (let row = 0; row < n; row++) first[thread[row] + 1]++;
  for (let i = 0; i < threads.length; i++) first[i + 1] += first[i];
  return first;
}

async function waitsOf(packed) {
  if (!packed) return null;
  const { rows, ...rest } = packed, columns = await columnsOf(rows), waits = { ...rest, ...columns, n: columns.begin.length };
  return waits.n ? { ...waits, first: firstTurns(waits) } : null;
}

/* names, tree, threads, cpus, tick, last (of all times), events with their samples, one for each recording, marks. */
export async function profileOf(data) {
  const [{ name, depth }, marks, lanes, waits] = await Promise.all([columnsOf(data.tree, "depth"), marksOf(data.marks), lanesOf(data.lanes), waitsOf(data.waits)]);
  const events = await Promise.all(data.events.map(async event => (
    { ...event, samples: await Promise.all(event.samples.map(one => samplesOf(one, event))) })));
  let last = 0;
  for (const event of events) for (const one of event.samples) if (one.time && one.n) last = Math.max(last, one.time[one.n - 1]);
  if (marks && marks.n) last = Math.max(last, marks.time[marks.n - 1]);
  const recordings = events.length ? events[0].samples.length : 1;
  return { ...data, tree: shape(name, depth), events, marks, lanes, waits, last, recordings, code: data.code || [], files: data.files || [] };
}
