/* The index of samples: their kinds, and sums by kind over time.

A kind is a stack, a thread, a CPU and a site in code. Most samples share theirs with many others, so that what filters and searches
decide is decided by kind. There are fewer stacks than kinds: without a filter of tasks, stacks are added up, and prefix sums over time leave
only two short pieces of a range to add. */

const MOST_SUMS = 2_000_000, MOST_BLOCKS = 256, LEAST_BLOCKS = 8, LEAST_BLOCK = 2048; /* samples */

function highest(values) {
  let most = 0;
  for (let i = 0; i < values.length; i++) if (values[i] > most) most = values[i];
  return most;
}

const GROUPED = new WeakMap();

/* Rows by group, kept for each column: {order: rows, ascending within each; begins: where those of each begin, and the end}. group: the number of each row's group. */
export function grouped(group) {
  if (GROUPED.has(group)) return GROUPED.get(group);
  const n = group.length, begins = new Uint32Array(highest(group) + 2), order = new Uint32Array(n);
  for (let row = 0; row < n; row++) begins[group[row] + 1]++;
  for (let i = 1; i < begins.length; i++) begins[i] += begins[i - 1];
  const next = begins.slice();
  for (let row = 0; row < n; row++) order[next[group[row]]++] = row;
  const found = { order, begins };
  GROUPED.set(group, found);
  return found;
}

/* What tells the kinds of a node apart, as one number for each row, and its columns again: thread, CPU and site. */
function taskKeys({ n, thread, cpu, site }) {
  const columns = Object.entries({ thread, cpu, site }).filter(([, values]) => values);
  const parts = columns.map(([name, values]) => ({ name, values, size: highest(values) + 1 }));
  const keys = parts.reduce((all, { size }) => all * size, 1) < 2 ** 32 ? new Uint32Array(n) : new Float64Array(n);
  for (const { values, size } of parts) for (let row = 0; row < n; row++) keys[row] = keys[row] * size + values[row];
  return { keys, parts };
}

/* of: the kind of each row, ordered by node; kinds: {n, node, thread, cpu, site: of each, weight, count: sums}. Columns may be missing. */
function numbered({ order, begins }, table) {
  const { n, weight, count } = table, { keys, parts } = taskKeys(table), of = new Uint32Array(n), node = new Uint32Array(n), key = keys.slice();
  let most = 1, kinds = 0;
  for (let i = 1; i < begins.length; i++) most = Math.max(most, begins[i] - begins[i - 1]);
  const slots = new Int32Array(2 << 32 - Math.clz32(most)).fill(-1);
  for (let i = 0; i + 1 < begins.length; i++) {
    const first = kinds, end = begins[i + 1], mask = (2 << 32 - Math.clz32(end - begins[i])) - 1; /* kinds below `first` are of other nodes */
    for (let at = begins[i]; at < end; at++) {
      const row = order[at], one = keys[row], h = Math.imul(one, 0x9e3779b1);
      let slot = (h ^ h >>> 15) & mask, kind = slots[slot];
      while (kind >= first && key[kind] !== one) kind = slots[slot = slot + 1 & mask];
      if (kind < first) {
        kind = slots[slot] = kinds++;
        node[kind] = i;
        key[kind] = one;
      }
      of[row] = kind;
    }
  }
  const columns = {};
  for (const { name, size } of parts.reverse()) {
    const values = columns[name] = new Uint32Array(kinds);
    for (let kind = 0; kind < kinds; kind++) {
      values[kind] = key[kind] % size;
      key[kind] = Math.floor(key[kind] / size);
    }
  }
  const sums = zeros(kinds);
  addRows(sums, { of, weight, count }, 0, n);
  return { of, kinds: { n: kinds, node: node.slice(0, kinds), ...columns, ...sums } };
}

/* The sums by stack of rows, as stacksOf() has them. nodes: of the tree. */
export function sumsByNode({ node, weight, count }, nodes) {
  const rows = node.length, weights = new Float64Array(nodes), counts = new Float64Array(nodes), ends = new Uint32Array(nodes);
  for (let row = 0; row < rows; row++) { weights[node[row]] += weight[row]; counts[node[row]] += count[row]; }
  let n = 0;
  for (let one = 0; one < nodes; one++) if (counts[one]) { weights[n] = weights[one]; counts[n] = counts[one]; ends[n++] = one; }
  return { n, node: ends.slice(0, n), weight: weights.slice(0, n), count: counts.slice(0, n) };
}

/* The distinct stacks of kinds, in the same form, and the stack of each kind. nodes: of the tree. */
function stacksOf(kinds) {
  const { n, node, weight, count } = kinds, numberOf = new Int32Array(node.reduce((a, b) => Math.max(a, b), 0) + 1).fill(-1), of = new Uint32Array(n);
  let stacks = 0;
  for (let kind = 0; kind < n; kind++) {
    if (numberOf[node[kind]] < 0) numberOf[node[kind]] = stacks++;
    of[kind] = numberOf[node[kind]];
  }
  const found = { n: stacks, node: new Uint32Array(stacks), weight: new Float64Array(stacks), count: new Float64Array(stacks) };
  for (let kind = 0; kind < n; kind++) {
    const stack = of[kind];
    found.node[stack] = node[kind];
    found.weight[stack] += weight[kind];
    found.count[stack] += count[kind];
  }
  return { stacks: found, stackOf: of };
}

const zeros = n => ({ weight: new Float64Array(n), count: new Float64Array(n) });

/* Adds the rows [from, to) of a table to sums by kind, or by what each kind is part of. */
function addRows(sums, { of, weight, count }, from, to, partOf = null) {
  const weights = sums.weight, counts = sums.count;
  if (!partOf && !count) for (let row = from; row < to; row++) { weights[of[row]] += weight[row]; counts[of[row]]++; }
  else for (let row = from; row < to; row++) {
    const one = partOf ? partOf[of[row]] : of[row];
    weights[one] += weight[row];
    counts[one] += count ? count[row] : 1;
  }
}

/* The sums by stack of all rows before each block. */
function prefixOf(table) {
  const { n, stackOf } = table, stacks = table.stacks.n, blocks = Math.min(MOST_BLOCKS, Math.floor(MOST_SUMS / Math.max(1, stacks)), Math.floor(n / LEAST_BLOCK));
  if (blocks < LEAST_BLOCKS) return null;
  const size = Math.ceil(n / blocks), prefix = { size, blocks, ...zeros(blocks * stacks) }, sums = zeros(stacks);
  for (let block = 0; block < blocks; block++) {
    prefix.weight.set(sums.weight, block * stacks);
    prefix.count.set(sums.count, block * stacks);
    addRows(sums, table, Math.min(n, block * size), Math.min(n, (block + 1) * size), stackOf);
  }
  return prefix;
}

/* A table of samples with its index in place of the columns that it replaces. keeps: whether these are needed, too. */
export function indexed(columns, keeps = false) {
  const { node, thread, cpu, site, count, ...table } = columns, isSingle = !count || count.every(one => one === 1);
  Object.assign(table, numbered(grouped(node), { ...columns, count: isSingle ? null : count }), { count: isSingle ? null : count, last: null });
  Object.assign(table, stacksOf(table.kinds));
  table.prefix = table.time ? prefixOf(table) : null;
  return keeps ? { ...columns, ...table } : table;
}

/* A table whose rows are kinds. */
export function asKinds({ node, thread, cpu, site, weight, count, ...table }) {
  const kinds = { n: table.n, node, thread, cpu, site, weight: Float64Array.from(weight), count: Float64Array.from(count) };
  return { ...table, kinds, ...stacksOf(kinds) };
}

/* The first row whose value is not less than a limit; values ascend. */
export function firstNotBelow(values, limit) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < limit) low = middle + 1; else high = middle;
  }
  return low;
}

/* Adds of waits the parts within the range. stretches: as stretchesOf() has them. */
function addParts(sums, { of, weight, count, n }, [from, to], { reached, part }, partOf) {
  for (let row = firstNotBelow(reached, from); row < n; row++) {
    const share = part(row, from, to);
    if (!share) continue;
    const one = partOf ? partOf[of[row]] : of[row];
    sums.weight[one] += weight[row] * share;
    sums.count[one] += count ? count[row] : 1;
  }
}

/* Adds the rows [from, to) to sums by stack: whole blocks by their prefix sums. */
function addStacks(sums, table, from, to) {
  const { prefix, stackOf, stacks: { n } } = table, first = prefix ? Math.ceil(from / prefix.size) : 0;
  const last = prefix ? Math.min(prefix.blocks - 1, Math.floor(to / prefix.size)) : 0;
  if (last <= first) { addRows(sums, table, from, to, stackOf); return; }
  for (let stack = 0, a = first * n, b = last * n; stack < n; stack++, a++, b++) {
    sums.count[stack] = prefix.count[b] - prefix.count[a];
    sums.weight[stack] = prefix.weight[b] - prefix.weight[a];
  }
  addRows(sums, table, from, first * prefix.size, stackOf);
  addRows(sums, table, last * prefix.size, to, stackOf);
}

/* The sums of a table by kind, or by stack, in a range of ticks or in all: {units: the kinds or stacks, weight, count}. The last range is kept.
   stretches(): of waits (stretches.js). */
export function sumsWithin(table, range, stretches, byStack) {
  const of = byStack ? "stacks" : "kinds", all = (table.sums || table)[of];
  if (!range || !table.time) return { units: all, weight: all.weight, count: all.count };
  const last = table.last && table.last[of], [from, to] = range;
  if (last && last.from === from && last.to === to) return last;
  const units = table[of], sums = zeros(units.n), rows = () => [firstNotBelow(table.time, from), firstNotBelow(table.time, to)];
  if (table.off) addParts(sums, table, range, stretches(), byStack ? table.stackOf : null);
  else if (byStack) addStacks(sums, table, ...rows());
  else addRows(sums, table, ...rows());
  table.last = { ...table.last, [of]: { units, ...sums, from, to } };
  return table.last[of];
}
