/* Samples -> how much of each category of code ran when: in all, and for each thread or CPU. */

import { CATEGORIES, UNKNOWN, WAITING } from "./categories.js";
import { JOINED, eachKept, firstNotBelow, masksOf, tablesOf } from "./selection.js";

/* Adds a weight to the bins in which it was spent: it ends at `stop`, all in units of bins. */
function spread(bins, first, count, stop, length, weight) {
  if (length <= 0) {
    const bin = Math.floor(stop);
    if (bin >= 0 && bin < count) bins[first + bin] += weight;
    return;
  }
  const start = stop - length, only = Math.floor(stop);
  if (only < count && start >= only && start >= 0) { bins[first + only] += weight; return; }
  const from = Math.max(0, Math.floor(start)), to = Math.min(count - 1, Math.floor(stop));
  for (let bin = from; bin <= to; bin++) {
    const part = Math.min(stop, bin + 1) - Math.max(start, bin);
    if (part > 0) bins[first + bin] += weight * part / length;
  }
}

/* More tracks are left out: those with least. */
export const MOST_TRACKS = 300;

/* The category of the innermost function of each node. */
export function categoryOfNodes(profile) {
  const { names, tree } = profile, found = new Uint8Array(tree.n).fill(UNKNOWN);
  for (let i = 1; i < tree.n; i++) found[i] = Math.min(WAITING, names[tree.name[i]][2]);
  return found;
}

/* Orders what has most time on the CPU first, then what has most in all. */
const byTime = (a, b) => b.ran - a.ran || b.weight - a.weight;

/* The tracks with most time: [key, {weight, ran: the part of it on the CPU}]. A key is twice the number of the thread or CPU, plus one in a second recording. */
function weightiest(tables, masks, by, changes) {
  const keys = 2 * tables.reduce((most, { samples }) => samples[by].reduce((a, b) => b > a ? b : a, most), -1) + 2;
  const weights = new Float64Array(keys), ran = new Float64Array(keys);
  for (const { samples, column } of tables) {
    const lanes = samples[by], { weight } = samples, second = changes ? column : 0, onCpu = samples.off ? 0 : 1;
    eachKept(samples, masks, 0, samples.n, row => {
      const key = lanes[row] * 2 + second;
      weights[key] += weight[row];
      ran[key] += onCpu * weight[row];
    });
  }
  const found = [];
  weights.forEach((weight, key) => { if (weight) found.push([key, { weight, ran: ran[key] }]); });
  return found.sort((a, b) => byTime(a[1], b[1])).slice(0, MOST_TRACKS);
}

class Track {
  constructor(key, count, { weight, ran }) {
    Object.assign(this, { lane: key >> 1, recording: key & 1, weight, ran, count, bins: CATEGORIES.map(() => null), found: null });
  }

  of(category) { return this.bins[category] ||= new Float64Array(this.count); }

  /* The highest sum of what runs (or waits) in a bin. */
  most(waits) {
    let most = 0;
    for (let i = 0; i < this.count; i++) most = Math.max(most, this.sumAt(i, waits));
    return most;
  }

  sumAt(i, waits) {
    return this.bins.reduce((sum, bins, category) => sum + (bins && (category === WAITING) === waits ? bins[i] : 0), 0);
  }
}

/* {tracks, all: a track of everything, seconds: whether weights are times, unit: the weight of a bin that is used wholly}.
   by: "thread" or "cpu"; range: in ticks; count: of bins; categoryOf: by node; hits: by node, 1 where a search finds the stack, or null. */
export function activityOf(profile, choice, by, range, count, categoryOf, hits = null) {
  const masks = masksOf(profile, { ...choice, range: null }), width = (range[1] - range[0]) / count || 1, changes = profile.recordings > 1;
  const tables = tablesOf(profile, choice.event).filter(({ samples }) => samples.time && samples[by]);
  const perCpu = by === "cpu" && choice.event === JOINED;
  const tracks = [];  // by key, many of them empty
  weightiest(tables.filter(({ samples }) => !(perCpu && samples.off)), masks, by, changes)
    .forEach(([key, sums]) => { tracks[key] = new Track(key, count, sums); });
  const all = [0, 1].map(recording => new Track(recording, count, { weight: 0, ran: 0 }));
  for (const { samples, column } of tables) {
    const { off, seconds, time, weight, node } = samples, lanes = samples[by], second = changes ? column : 0;
    const from = firstNotBelow(time, range[0]), to = off || seconds ? samples.n : firstNotBelow(time, range[1]);
    eachKept(samples, masks, from, to, row => {
      const stop = (time[row] - range[0]) / width, length = seconds || off ? weight[row] / profile.tick / width : 0;
      if (stop - length >= count) return;
      const category = off ? WAITING : categoryOf[node[row] + 1], track = perCpu && off ? undefined : tracks[lanes[row] * 2 + second];
      spread(all[second].of(category), 0, count, stop, length, weight[row]);
      if (track) spread(track.of(category), 0, count, stop, length, weight[row]);
      if (hits && hits[node[row] + 1]) {
        spread(all[second].found ||= new Float64Array(count), 0, count, stop, length, weight[row]);
        if (track) spread(track.found ||= new Float64Array(count), 0, count, stop, length, weight[row]);
      }
    });
  }
  const isTime = tables.length > 0 && tables.every(({ samples }) => samples.seconds || samples.off);
  const list = tracks.filter(Boolean).sort((a, b) => a.recording - b.recording || (by === "cpu" ? a.lane - b.lane : byTime(a, b)));
  const highest = Math.max(1, ...list.map(track => track.most(false)), ...list.map(track => track.most(true)));
  return { tracks: list, all: changes ? all : all.slice(0, 1), seconds: isTime, unit: isTime ? width * profile.tick : highest };
}

/* Those of some tracks or processes that have at least a share of the time on the CPU, or of all time if nothing ran. */
export function busyOf(rows, least) {
  const sum = of => rows.reduce((total, row) => total + row[of], 0), of = sum("ran") ? "ran" : "weight", limit = least * sum(of);
  return rows.filter(row => row[of] >= limit);
}

/* Threads by process, those with most time first: [{pid, weight, ran, tracks}]; processes below a share of the time are idle. */
export function processesOf(tracks, threads, least) {
  const found = new Map();
  for (const track of tracks) {
    const pid = threads[track.lane][0], key = pid * 2 + track.recording;
    if (!found.has(key)) found.set(key, { pid, recording: track.recording, weight: 0, ran: 0, tracks: [] });
    const process = found.get(key);
    process.weight += track.weight;
    process.ran += track.ran;
    process.tracks.push(track);
  }
  const processes = [...found.values()].sort((a, b) => a.recording - b.recording || byTime(a, b)), busy = new Set(busyOf(processes, least));
  for (const process of processes) process.isIdle = !busy.has(process);
  return processes;
}

/* One track with the sums of several. */
export function joined(tracks, count) {
  const total = of => tracks.reduce((sum, track) => sum + track[of], 0);
  const sum = new Track(tracks[0].lane * 2 + tracks[0].recording, count, { weight: total("weight"), ran: total("ran") });
  for (const track of tracks) {
    track.bins.forEach((bins, category) => { if (bins) { const to = sum.of(category); for (let i = 0; i < count; i++) to[i] += bins[i]; } });
    if (track.found) { sum.found ||= new Float64Array(count); for (let i = 0; i < count; i++) sum.found[i] += track.found[i]; }
  }
  return sum;
}
