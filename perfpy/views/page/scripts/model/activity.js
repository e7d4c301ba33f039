/* Samples -> how much of each category of code ran when: in all, and for each thread or CPU. */

import { CATEGORIES, UNKNOWN, WAITING } from "./categories.js";
import { firstNotBelow } from "./kinds.js";
import { JOINED, keptKinds, masksOf, tablesOf } from "./selection.js";
import { stretchesOf } from "./stretches.js";
import { stepOf, whole } from "./words.js";

/* Adds a weight that was spent evenly from `start` to `stop` to the bins [from, to). edges: of the bins, in the same unit. */
function spread(bins, edges, start, stop, from, to, weight) {
  for (let bin = from; bin < to; bin++) {
    const part = Math.min(stop, edges[bin + 1]) - Math.max(start, edges[bin]);
    if (part > 0) bins[bin] += weight * part / (stop - start);
  }
}

/* The category of the innermost function of each node. */
export function categoryOfNodes(profile) {
  const { names, tree } = profile, found = new Uint8Array(tree.n).fill(UNKNOWN);
  for (let i = 1; i < tree.n; i++) found[i] = Math.min(WAITING, names[tree.name[i]][2]);
  return found;
}

/* Orders what has most time on the CPU first, then what has most in all. */
export const byTime = (a, b) => b.ran - a.ran || b.weight - a.weight;

/* The threads or CPUs with weight, those with most time first: [{lane: its number, recording, weight, ran: the part on the CPU}]. */
export function lanesOf(profile, choice, by) {
  const masks = masksOf(profile, { ...choice, range: null }), changes = profile.recordings > 1, isCpu = by === "cpu" && choice.event === JOINED;
  const tables = tablesOf(profile, choice.event).filter(({ samples }) => samples.time && samples.kinds[by] && !(isCpu && samples.off));
  const found = Array.from({ length: 2 * profile[by === "cpu" ? "cpus" : "threads"].length }, (_, key) => ({ lane: key >> 1, recording: key & 1, weight: 0, ran: 0 }));
  for (const { samples, column } of tables) {
    const { kinds } = samples.sums || samples, lanes = kinds[by], second = changes ? column : 0, kept = keptKinds(kinds, masks);
    for (let kind = 0; kind < kinds.n; kind++) {
      if (!kept[kind]) continue;
      const one = found[lanes[kind] * 2 + second];
      one.weight += kinds.weight[kind];
      if (!samples.off) one.ran += kinds.weight[kind];
    }
  }
  return found.filter(one => one.weight).sort((a, b) => a.recording - b.recording || (by === "cpu" ? a.lane - b.lane : byTime(a, b)));
}

function sum(to, from) { for (let i = 0; i < from.length; i++) to[i] += from[i]; }

class Track {
  constructor(count, lane = 0, recording = 0) {
    Object.assign(this, { lane, recording, count, weight: 0, ran: 0, bins: CATEGORIES.map(() => null), found: null, foundWaits: null });
  }

  of(category) { return this.bins[category] ||= new Float64Array(this.count); }

  /* bins: by category, empty where there is nothing */
  add(bins) { bins.forEach((from, category) => { if (from) sum(this.of(category), from); }); }

  /* The highest sum of what runs (or waits) in a bin. */
  most(waits) {
    const kept = waits ? "mostWaits" : "mostRuns";
    if (this[kept] !== undefined) return this[kept];
    const sums = new Float64Array(this.count);
    this.bins.forEach((bins, category) => { if (bins && (category === WAITING) === waits) for (let i = 0; i < bins.length; i++) sums[i] += bins[i]; });
    return this[kept] = sums.reduce((a, b) => Math.max(a, b), 0);
  }
}

/* The lanes cut into parts that some rows of lanes consist of: {parts: [{rows, recording}], partOf: by twice the lane plus the recording}.
   The first part of each recording is what no row has. */
function partsOf(rows, lanes) {
  const parts = [{ rows: [], recording: 0 }, { rows: [], recording: 1 }], partOf = Int32Array.from({ length: 2 * lanes }, (_, key) => key & 1);
  rows.forEach((row, r) => {
    const split = new Map();
    for (const { lane, recording } of row) {
      const key = 2 * lane + recording, before = partOf[key];
      if (!split.has(before)) split.set(before, parts.push({ rows: [...parts[before].rows, r], recording }) - 1);
      partOf[key] = split.get(before);
    }
  });
  return { parts, partOf };
}

const PLACES = new WeakMap();

/* Where the samples of a range are among bins, kept for the last range of each table: {from, to: rows; bin: of each of these rows, `count` for those that are in
   none or in several; several: the rows that are in several;
   stretches: of waits; edgesOf(free): where bins begin, and the last ends, in ticks or in ticks of a thread's free time (stretches.js)}. */
function placesOf(profile, samples, range, count) {
  const { time, weight, off, seconds, n } = samples, key = [...range, count].join(), last = PLACES.get(time);
  if (last && last.key === key) return last;
  const [begin, end] = range, width = (end - begin) / count || 1, isSpread = off || seconds, scale = isSpread ? 1 / profile.tick / width : 0;
  const stretches = off ? stretchesOf(profile, samples) : null, ends = stretches ? stretches.end : time;
  const from = firstNotBelow(stretches ? stretches.reached : time, begin), to = isSpread ? n : firstNotBelow(time, end), bin = new Uint16Array(to - from), several = [];
  for (let row = from; row < to; row++) {
    const stop = (ends[row] - begin) / width, length = stretches ? stop - (stretches.begin[row] - begin) / width : weight[row] * scale;
    const place = Math.floor(stop), isWhole = place >= 0 && place < count && stop - length >= place;
    bin[row - from] = isWhole ? place : count;
    if (!isWhole && length > 0 && stop > 0 && stop - length < count) several.push(row);
  }
  const edges = new Map(), edgesOf = free => {
    let found = edges.get(free);
    if (found) return found;
    edges.set(free, found = new Float64Array(count + 1));
    for (let i = 0; i <= count; i++) found[i] = free ? free.at(begin + i * width) : begin + i * width;
    return found;
  };
  const places = { key, from, to, bin, several, stretches, edgesOf };
  PLACES.set(time, places);
  return places;
}

/* Adds the samples of a table to bins. cells: by kind, 0 if it does not count; the bins of the first cell come first, and so on. */
function fill(profile, samples, cells, bins, range, count) {
  const { of, time, weight } = samples, { from, to, bin, several, stretches, edgesOf } = placesOf(profile, samples, range, count);
  const width = (range[1] - range[0]) / count || 1, each = count + 1;
  for (let row = from; row < to; row++) {
    const cell = cells[of[row]];
    if (cell) bins[cell * each + bin[row - from]] += weight[row];
  }
  for (const row of several) {
    const begin = cells[of[row]] * each;
    if (!begin) continue;
    const stop = stretches ? stretches.end[row] : time[row], start = stretches ? stretches.begin[row] : stop - weight[row] / profile.tick;
    const first = Math.max(0, Math.floor((start - range[0]) / width)), last = Math.min(count, Math.floor((stop - range[0]) / width) + 1);
    const own = bins.subarray(begin, begin + count), sum = stretches ? stretches.sums.get(row) : null;
    if (sum) spread(own, edgesOf(sum.free), sum.begin, sum.begin + sum.length, first, last, weight[row]);
    else spread(own, edgesOf(null), start, stop, first, last, weight[row]);
  }
}

/* The bins of the samples of a choice, by cell: the part of the task, times the width, plus the column of the node. columnOf: by node, -1 for
   nodes that do not count; waits: the column of waits, whatever their nodes' is. */
function filled(profile, choice, { by, range, count, parts, partOf }, width, columnOf, waits) {
  const masks = masksOf(profile, { ...choice, range: null }), changes = profile.recordings > 1, isCpu = by === "cpu" && choice.event === JOINED;
  const tables = timedTables(profile, choice, by), most = parts.length * width, Numbers = most < 2 ** 16 ? Uint16Array : Uint32Array;
  const numberOf = new Numbers(most), each = count + 1; /* the last is of no bin */
  let used = 1;
  const cells = tables.map(({ samples: { kinds, off }, column }) => {
    const { n, node, [by]: lane } = kinds, kept = keptKinds(kinds, masks), found = new Numbers(n), second = changes ? column : 0;
    const isTogether = isCpu && off;
    for (let kind = 0; kind < n; kind++) {
      const ofNode = columnOf[node[kind] + 1], place = off ? waits : ofNode;
      if (kept[kind] && ofNode >= 0) found[kind] = numberOf[(isTogether ? second : partOf[2 * lane[kind] + second]) * width + place] ||= used++;
    }
    return found;
  });
  const bins = new Float64Array(used * each);
  if (used > 1) tables.forEach(({ samples }, i) => fill(profile, samples, cells[i], bins, range, count));
  return Array.from(numberOf, cell => {
    const found = cell && bins.subarray(cell * each, cell * each + count);
    return found && found.some(weight => weight) ? found : null;
  });
}

const timedTables = (profile, choice, by) => tablesOf(profile, choice.event).filter(({ samples }) => samples.time && samples.kinds[by]);

/* {tracks: of each row, all: a track of everything, seconds: whether weights are times, unit: the weight of a bin that is used wholly}.
   by: "thread" or "cpu"; range: in ticks; count: of bins; categoryOf: by node; hits: by node, 1 where a search finds the stack, or null;
   rows: of lanes (lanesOf), each lane alone if not given. */
export function activityOf(profile, choice, by, range, count, categoryOf, hits = null, rows = lanesOf(profile, choice, by).map(lane => [lane])) {
  const tables = timedTables(profile, choice, by), categories = CATEGORIES.length, width = (range[1] - range[0]) / count || 1;
  const layout = { by, range, count, ...partsOf(rows, profile[by === "cpu" ? "cpus" : "threads"].length) };
  const bins = filled(profile, choice, layout, categories, categoryOf, WAITING);
  const tracks = rows.map(row => new Track(count, row[0].lane, row[0].recording)), all = [0, 1].map(recording => new Track(count, recording, recording));
  rows.forEach((row, r) => { for (const one of row) { tracks[r].weight += one.weight; tracks[r].ran += one.ran; } });
  layout.parts.forEach((part, number) => {
    for (const track of [all[part.recording], ...part.rows.map(r => tracks[r])]) track.add(bins.slice(number * categories, (number + 1) * categories));
  });
  const isTime = tables.length > 0 && tables.every(({ samples }) => samples.seconds || samples.off);
  const highest = () => tracks.reduce((most, track) => Math.max(most, track.most(false), track.most(true)), 1);
  const activity = { tracks, all: profile.recordings > 1 ? all : all.slice(0, 1), seconds: isTime, unit: isTime ? width * profile.tick : highest(), layout };
  find(profile, choice, activity, hits);
  return activity;
}

/* Mark in the tracks of an activity what a search finds, of what runs and of waits. hits: by node, or null. */
export function find(profile, choice, { tracks, all, layout }, hits) {
  for (const track of [...tracks, ...all]) track.found = track.foundWaits = null;
  if (!hits) return;
  const columnOf = new Int8Array(hits.length);
  for (let i = 0; i < hits.length; i++) columnOf[i] = hits[i] ? 0 : -1;
  const bins = filled(profile, choice, layout, 2, columnOf, 1);
  layout.parts.forEach((part, number) => {
    for (const track of [all[part.recording] || all[0], ...part.rows.map(r => tracks[r])]) {
      if (bins[2 * number]) sum(track.found ||= new Float64Array(layout.count), bins[2 * number]);
      if (bins[2 * number + 1]) sum(track.foundWaits ||= new Float64Array(layout.count), bins[2 * number + 1]);
    }
  });
}

/* how much of the highest bar, and of a CPU, may be above the axis, as sums of samples waver */
const OVER = 0.06, OVER_CPUS = 0.1;

/* The weight of a whole bar, which is rounded up to a step of the axis, and its steps: [text, part of the bar]. CPUs where weights are times, or
   threads that wait at a time: each of few, the half and all of many. */
export function axisOf({ seconds, unit }, most, areWaits = false) {
  const value = (seconds ? most / unit : most) * (1 - OVER), cpus = Math.max(1, Math.ceil(value - OVER_CPUS)), isWhole = seconds && value > 0.5;
  const step = !isWhole ? stepOf(value, 2) : cpus < 4 ? 1 : Math.ceil(cpus / 2), top = Math.max(1, Math.ceil((isWhole ? cpus : value) / step)) * step;
  const noun = level => areWaits ? "waiting" : level === 1 ? "CPU" : "CPUs";
  const text = level => seconds ? `${+level.toFixed(2)} ${noun(level)}` : level >= 1e6 ? `${+(level / 1e6).toPrecision(3)} M` : whole(level);
  const steps = Array.from({ length: Math.round(top / step) + 1 }, (_, i) => [i ? text(i * step) : "0", i * step / top]);
  return { unit: seconds ? top * unit : top, steps };
}

/* Those of some rows that have at least a share of the time on the CPU, or of all time if nothing ran. */
export function busyOf(rows, least) {
  const sum = of => rows.reduce((total, row) => total + row[of], 0), of = sum("ran") ? "ran" : "weight", limit = least * sum(of);
  return rows.filter(row => row[of] >= limit);
}
