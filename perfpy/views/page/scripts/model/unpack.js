/* The packed columns of packing.py -> typed arrays; the data of the page -> the profile that the other scripts use. */

import { asKinds, grouped, indexed, sumsByNode } from "./kinds.js";
import { shape, totalOf } from "./trees.js";

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

/* Columns by name. groups: the one by which some of them are grouped; known: those that are unpacked already. */
export async function columnsOf(packed, groups, known = {}) {
  const names = Object.keys(packed).filter(name => !known[name]), unordered = await Promise.all(names.map(name => unpacked(packed[name])));
  const columns = { ...known, ...Object.fromEntries(names.map((name, i) => [name, unordered[i]])) }, moved = names.filter(name => packed[name].grouped);
  if (!moved.length) return columns;
  const { order } = grouped(columns[groups]), n = order.length;
  for (const name of moved) {
    const values = columns[name], ordered = columns[name] = new Uint32Array(n);
    for (let i = 0; i < n; i++) ordered[order[i]] = values[i];
  }
  return columns;
}

/* A table of samples with its sums by stack, and rest() -> what else the table has: its index (kinds.js), and with levels of detail also sums, a
   table of kinds without times, and where the chunks are. nodes: of the tree. */
async function samplesOf({ sums, chunks, firstChunk, ...packed }, event, nodes) {
  const { node, weight, count } = sums || packed, known = await columnsOf({ node, weight, count }, "node"), { n } = packed.node;
  const stacks = sumsByNode(known, nodes), samples = totalOf(stacks.count);
  const rest = async () => {
    const table = { ...await columnsOf(packed, "node", sums ? {} : known), n, samples };
    if (!chunks) return indexed(table);
    const all = sums && await columnsOf(sums, "node", known);
    return { ...indexed(table, true), chunks, firstChunk, sums: all && asKinds({ ...all, n: all.node.length, samples }) };
  };
  return { table: { n, samples, stacks, off: !!event.off, seconds: !!event.seconds }, rest };
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

/* The profile but for the index of its samples, which are only added up by stack: names, tree, threads, cpus, tick, last (of all times), events
   with their samples, one for each recording, marks. rest() -> what the tables of samples have, too, by event and recording. */
export async function beginningOf(data) {
  const [{ name, depth }, marks, lanes, waits] = await Promise.all([columnsOf(data.tree, "depth"), marksOf(data.marks), lanesOf(data.lanes), waitsOf(data.waits)]);
  const tables = await Promise.all(data.events.map(event => Promise.all(event.samples.map(one => samplesOf(one, event, name.length)))));
  const events = data.events.map((event, e) => ({ ...event, samples: tables[e].map(({ table }) => table) }));
  const recordings = events.length ? events[0].samples.length : 1;
  return { profile: { ...data, tree: shape(name, depth), events, marks, lanes, waits, recordings, code: data.code || [], files: data.files || [] },
    rest: () => Promise.all(tables.map(parts => Promise.all(parts.map(({ rest }) => rest())))) };
}

/* Adds the rest to the tables of samples. */
export function complete(profile, rest) {
  profile.events.forEach((event, e) => event.samples.forEach((table, r) => Object.assign(table, rest[e][r])));
  return profile;
}

/* The whole profile. */
export async function profileOf(data) {
  const { profile, rest } = await beginningOf(data);
  return complete(profile, await rest());
}
