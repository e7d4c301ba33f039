/* Which samples count, and what of each stack they are. */

/* The choice of an event: a number, or both of the time on the CPU and off it. */
export const JOINED = "joined";

/* Whether time on the CPU and off it were both recorded: [the one event, the other]; else null. */
export function onAndOff(profile) {
  const off = profile.events.findIndex(event => event.off), on = profile.events.findIndex(event => event.seconds && !event.off);
  return profile.recordings === 1 && off >= 0 && on >= 0 ? [on, off] : null;
}

/* The samples of a choice: of each table the column of weights that it is for. */
export function tablesOf(profile, event) {
  if (event === JOINED) return onAndOff(profile).map((number, column) => ({ samples: profile.events[number].samples[0], column }));
  return profile.events[event].samples.map((samples, column) => ({ samples, column }));
}

export const kindOf = (profile, event) => event === JOINED ? "parts" : profile.recordings > 1 ? "changes" : "one";

/* The first row whose value is not less than a limit; values ascend. */
export function firstNotBelow(values, limit) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < limit) low = middle + 1; else high = middle;
  }
  return low;
}

/* By node: whether a name for which `hits` has a value is on its stack. */
export function nodesUnder(tree, hits) {
  const under = new Uint8Array(tree.n);
  for (let i = 1; i < tree.n; i++) under[i] = hits[tree.name[i]] ? 1 : under[tree.parent[i]];
  return under;
}

/* The rows that a choice leaves: a byte for each thread, CPU and node, 0 for those that do not count; null where all do. */
export function masksOf(profile, choice) {
  const { threads, cpus, names, tree } = profile;
  const mask = (wanted, length, keep) => wanted ? Uint8Array.from({ length }, (_, i) => +keep(i)) : null;
  const task = choice.process !== null || choice.thread !== null;
  const under = choice.inside === null || choice.inside === undefined ? null : nodesUnder(tree, { [choice.inside]: 1 });
  const leaf = (i, column, wanted) => wanted === null || wanted === undefined || i > 0 && names[tree.name[i]][column] === wanted;
  const byNode = choice.module !== null || under || (choice.category ?? null) !== null;
  return {
    thread: mask(task, threads.length, i => (choice.process === null || threads[i][0] === choice.process) && (choice.thread === null || i === choice.thread)),
    cpu: mask(choice.cpu !== null, cpus.length, i => i === choice.cpu),
    node: mask(byNode, tree.n, i => leaf(i, 1, choice.module) && leaf(i, 2, choice.category) && (!under || under[i])),
  };
}

/* Calls visit(row) for each sample that the masks leave, from one row up to another. */
export function eachKept(samples, masks, from, to, visit) {
  const { thread, cpu, node } = samples;
  for (let row = from; row < to; row++) {
    if (masks.thread && thread && !masks.thread[thread[row]]) continue;
    if (masks.cpu && cpu && !masks.cpu[cpu[row]]) continue;
    if (masks.node && !masks.node[node[row] + 1]) continue;
    visit(row);
  }
}

/* The part of a wait within a range: a wait ends at its time. */
function weightWithin(samples, row, begin, end, tick) {
  const stop = samples.time[row] * tick, start = stop - samples.weight[row];
  return Math.max(0, Math.min(stop, end) - Math.max(start, begin));
}

/* Calls visit(table, column, row, weight) for each sample of a choice, with the part of its weight within the range. */
export function eachChosen(profile, choice, visit) {
  const masks = masksOf(profile, choice), tick = profile.tick;
  for (const { samples: table, column } of tablesOf(profile, choice.event)) {
    const { time, n } = table;
    if (!choice.range || !time) {
      const all = table.sums || table;
      eachKept(all, masks, 0, all.n, row => visit(all, column, row, all.weight[row]));
      continue;
    }
    const { weight } = table;
    const [from, to] = choice.range, first = firstNotBelow(time, from);
    if (table.off) eachKept(table, masks, first, n, row => {
      const part = weightWithin(table, row, from * tick, to * tick, tick);
      if (part) visit(table, column, row, part);
    });
    else eachKept(table, masks, first, firstNotBelow(time, to), row => visit(table, column, row, weight[row]));
  }
}

/* Adds up the samples of a choice: own weights of the tree's nodes for each column, how many samples, and of how many. */
export function collect(profile, choice) {
  const tables = tablesOf(profile, choice.event);
  const own = Array.from({ length: Math.max(...tables.map(table => table.column)) + 1 }, () => new Float64Array(profile.tree.n));
  let samples = 0, all = 0;
  for (const { samples: table } of tables) all += (table.sums || table).samples;
  eachChosen(profile, choice, (table, column, row, weight) => {
    own[column][table.node[row] + 1] += weight;
    samples += table.count[row];
  });
  return { own, samples, all };
}

/* Adds up the samples of a choice by site in code: weights, null if nothing is filtered or samples have no sites; all: of all its samples. */
export function weightsBySite(profile, choice) {
  const isPart = Object.entries(choice).some(([key, value]) => key !== "event" && value !== null);
  if (!profile.sites || !isPart) return { weights: null, all: 0 };
  const weights = new Float64Array(profile.sites + 1);
  let all = 0;
  eachChosen(profile, choice, (table, column, row, weight) => {
    all += weight;
    if (table.site) weights[table.site[row]] += weight;
  });
  return { weights, all };
}
