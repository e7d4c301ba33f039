/* Which samples count, and what of each stack they are. */

import { sumsWithin } from "./kinds.js";
import { stretchesOf } from "./stretches.js";
import { totalOf } from "./trees.js";

/* The choice of an event: a number, or both of the time on the CPU and off it. */
export const JOINED = "joined";

/* Whether time on the CPU and off it were both recorded: [the one event, the other]; else null. */
export function onAndOff(profile) {
  const off = profile.events.findIndex(event => event.off), on = profile.events.findIndex(event => event.seconds && !event.off);
  return profile.recordings === 1 && off >= 0 && on >= 0 ? [on, off] : null;
}

/* Whether the headline tells of waits first. */
export const isOfWaits = profile => ((profile.headline || []).find(one => one.subject) || {}).subject === "waits";

/* The choice that a page opens with: the time that its headline tells first, so that threads which only sleep do not hide the code that runs. Of waits
   that is both times; the other choices are the first event. */
export function opensWith(profile) {
  const both = onAndOff(profile);
  if (!both) return profile.events.length ? "0" : null;
  return isOfWaits(profile) ? JOINED : String(both[0]);
}

/* The choice of the first event of time on the CPU, or of waits beside it; of both, if that is what is chosen. */
export function eventWith(profile, waits, now) {
  if (now === JOINED) return now;
  const number = profile.events.findIndex(event => !event.off);
  return waits && onAndOff(profile) ? JOINED : String(Math.max(0, number));
}

/* The samples of a choice: of each table the column of weights that it is for. */
export function tablesOf(profile, event) {
  if (event === JOINED) return onAndOff(profile).map((number, column) => ({ samples: profile.events[number].samples[0], column }));
  return profile.events[event].samples.map((samples, column) => ({ samples, column }));
}

/* What the weights of an event are, as the title of a picture has it. */
export function measureOf({ events }, event) {
  const { time, bytes, off, seconds } = event === JOINED ? { time: 1, seconds: 1 } : events[event];
  return bytes ? "Memory" : !time ? "Events" : off ? "Waits" : seconds ? "CPU time" : "Wall-clock time";
}

export const kindOf = (profile, event) => event === JOINED ? "parts" : profile.recordings > 1 ? "changes" : "one";

/* the parts of a state that leave only some of the samples */
export const NARROWED = ["commands", "process", "group", "thread", "cpu", "module", "category", "inside", "range", "shown", "against"];

/* Whether a state of the page needs the index of samples (kinds.js), and not only their sums by stack. */
export function needsIndex(state) {
  return state.form === "own" || ["chart", "heat"].includes(state.tab) || NARROWED.some(key => state[key] !== null);
}

/* By node: whether a name for which `hits` has a value is on its stack. */
export function nodesUnder(tree, hits) {
  const under = new Uint8Array(tree.n);
  for (let i = 1; i < tree.n; i++) under[i] = hits[tree.name[i]] ? 1 : under[tree.parent[i]];
  return under;
}

/* The command of each process: [pid, name of its main thread, or of another one]. */
export function commandsOf(threads) {
  const found = new Map();
  for (const [pid, tid, command] of threads) if (!found.has(pid) || pid === tid) found.set(pid, command);
  return [...found].sort((a, b) => a[0] - b[0]);
}

/* A name with its numbers as *: worker-12 and worker-7 are both worker-*. */
export const namePattern = name => name.replace(/\d+/g, "*");

/* The rows that a choice leaves: a byte for each thread, CPU and node, 0 for those that do not count; null where all do. */
export function masksOf(profile, choice) {
  const { threads, cpus, names, tree } = profile;
  const mask = (wanted, length, keep) => {
    const kept = wanted ? new Uint8Array(length) : null;
    for (let i = 0; kept && i < length; i++) kept[i] = keep(i) ? 1 : 0;
    return kept;
  };
  const { process = null, thread = null, group = null, commands = null } = choice, task = [process, thread, group, commands].some(one => one !== null);
  const commandOf = commands === null ? null : new Map(commandsOf(threads));
  const isOfTask = ([pid, , name], i) => (process === null || pid === process) && (thread === null || i === thread)
    && (group === null || namePattern(name || "?") === group) && (commands === null || namePattern(commandOf.get(pid) || "?") === commands);
  const under = (choice.inside ?? null) === null ? null : nodesUnder(tree, { [choice.inside]: 1 });
  const isLeaf = (name, column, wanted) => (wanted ?? null) === null || name[column] === wanted;
  const leaf = Uint8Array.from(names, name => +(isLeaf(name, 1, choice.module) && isLeaf(name, 2, choice.category)));
  const byNode = under || [choice.module, choice.category].some(one => (one ?? null) !== null), { name } = tree;
  return {
    thread: mask(task, threads.length, i => isOfTask(threads[i], i)),
    cpu: mask(choice.cpu !== null, cpus.length, i => i === choice.cpu),
    node: mask(byNode, tree.n, i => leaf[name[i]] && (!under || under[i])),
  };
}

/* By kind or stack: 1 where the masks leave its samples. */
export function keptKinds(units, masks) {
  const { n, node, thread, cpu } = units, kept = new Uint8Array(n).fill(1);
  const apply = (mask, values, shift) => { if (mask && values) for (let one = 0; one < n; one++) if (!mask[values[one] + shift]) kept[one] = 0; };
  apply(masks.thread, thread, 0);
  apply(masks.cpu, cpu, 0);
  apply(masks.node, node, 1);
  return kept;
}

/* Calls visit(units, column, kept, weight, count) for each table of a choice, with its sums within the range. units: kinds, or stacks where that
   is enough; kept: by unit. */
function eachTable(profile, choice, needsKinds, visit) {
  const masks = masksOf(profile, choice), byStack = !needsKinds && !masks.thread && !masks.cpu;
  for (const { samples: table, column } of tablesOf(profile, choice.event)) {
    const { units, weight, count } = sumsWithin(table, choice.range, () => stretchesOf(profile, table), byStack);
    visit(units, column, keptKinds(units, masks), weight, count);
  }
}

/* The sums of the samples of a choice by the values of a column, such as thread. */
export function sumsBy(profile, choice, name, length) {
  const sums = new Float64Array(length);
  let all = 0;
  eachTable(profile, choice, true, ({ n, [name]: values }, _, kept, weight) => {
    for (let kind = 0; kind < n; kind++) {
      if (!kept[kind]) continue;
      all += weight[kind];
      if (values) sums[values[kind]] += weight[kind];
    }
  });
  return { sums, all };
}

/* Adds up the samples of a choice: own weights of the tree's nodes for each column, how many samples, also by column, and of how many. */
export function collect(profile, choice) {
  const tables = tablesOf(profile, choice.event);
  const own = Array.from({ length: Math.max(...tables.map(table => table.column)) + 1 }, () => new Float64Array(profile.tree.n));
  const counts = own.map(() => 0);
  let all = 0;
  for (const { samples: table } of tables) all += table.samples;
  eachTable(profile, choice, false, ({ n, node }, column, kept, weight, count) => {
    const to = own[column];
    let samples = 0;
    for (let one = 0; one < n; one++) {
      if (!kept[one] || !count[one] && !weight[one]) continue;
      to[node[one] + 1] += weight[one];
      samples += count[one];
    }
    counts[column] += samples;
  });
  return { own, counts, samples: counts.reduce((a, b) => a + b, 0), all };
}

const added = columns => columns.length > 1 ? columns[0].map((weight, i) => weight + columns[1][i]) : columns[0];

/* The same of two ranges as columns; time on and off the CPU is added up, and parts has {own, counts} of each.
   base: how they are compared, {sides: their names}, and of time {lengths: of the ranges in ns; grain: the part of each that a sample stands for, 0 of waits, which are measured}:
   the shares that functions have of all time may grow where their own time does not. Other weights are compared by their shares. */
export function collectBoth(profile, choice, against) {
  const ranges = [against, choice.range], sides = ranges.map(range => collect(profile, { ...choice, range })), [a, b] = sides;
  const events = choice.event === JOINED ? onAndOff(profile) : [choice.event], total = column => column.reduce((sum, one) => sum + one, 0);
  const parts = events.map((event, k) => ({ event, own: [a.own[k], b.own[k]], counts: [a.counts[k], b.counts[k]] }));
  const lengths = ranges.map(([from, to]) => (to - from) * profile.tick), { own, counts, event } = parts[0], sampled = counts[0] + counts[1];
  const each = profile.events[event].off || !sampled ? 0 : (total(own[0]) + total(own[1])) / sampled;
  const base = { sides: ["A", "B"], ...(profile.events[event].time ? { lengths, grain: lengths.map(length => each / length) } : {}) };
  return { own: sides.map(side => added(side.own)), counts: sides.map(side => side.samples), samples: a.samples + b.samples, all: a.all, parts, base };
}

/* The same of the recordings before and after. Both are compared by what all of the recording before has of the event, as the headline does: then a function
   whose time fell has a smaller part, whatever became of the others. of: what the parts are of. */
export function collectSides(profile, choice) {
  const sums = collect(profile, choice), event = Number(choice.event), { off, samples: sides } = profile.events[event];
  const totals = sides.map(side => totalOf(side.stacks.weight)), whole = totals[0] || totals[1] || 1;
  const counts = sides.map(side => totalOf(side.stacks.count)), grain = totals.map((total, k) => off || !counts[k] ? 0 : total / counts[k] / whole);
  const base = { sides: ["before", "after"], lengths: [whole, whole], grain, of: totals[0] ? "the total before" : "the total after" };
  return { ...sums, parts: [{ event, own: sums.own, counts: sums.counts }], base };
}

/* What a page shows of a choice. against: the range that it is compared with, if there is one. */
export function collectShown(profile, choice, against) {
  return against ? collectBoth(profile, choice, against) : (profile.recordings > 1 ? collectSides : collect)(profile, choice);
}

/* Adds up the samples of a choice by site in code: weights, null if nothing is filtered or samples have no sites; all: of all its samples. */
export function weightsBySite(profile, choice) {
  const isPart = Object.entries(choice).some(([key, value]) => key !== "event" && value !== null);
  if (!profile.sites || !isPart) return { weights: null, all: 0 };
  const { sums, all } = sumsBy(profile, choice, "site", profile.sites + 1);
  return { weights: sums, all };
}
