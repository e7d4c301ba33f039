/* When threads waited. A row is one wait, which ends at its time, or the sum of several waits shorter than the threshold of the recording, of which
   only the last end is known. A row is a sum if its thread ran within the time that one wait would have taken: a sample of the thread, or the end
   of another of its waits, is there. A thread that neither runs nor is in a wait of its own row is in one that was summed: sums fill the free time
   of their thread before their last ends, those that overlap evenly, so that no thread waits for longer than time passes. */

import { firstNotBelow, grouped } from "./kinds.js";

/* times are whole ticks: what meets may seem to overlap by one at either end */
const SLACK = 2;

/* The time of a thread that some pieces [begin, end], in order of their ends, leave free: at(tick) -> free ticks before, tick(free) -> when they
   are over. */
function freeTime(pieces) {
  const [begins, ends, taken, free] = Array.from({ length: 4 }, () => new Float64Array(pieces.length));
  let last = -Infinity, sum = 0;
  pieces.forEach(([begin, end], i) => {
    begins[i] = Math.max(begin, last);
    free[i] = begins[i] - sum;
    ends[i] = last = Math.max(end, last);
    taken[i] = sum += Math.max(0, end - begins[i]);
  });
  const at = tick => {
    const i = firstNotBelow(ends, tick), before = i ? taken[i - 1] : 0;
    return (i < begins.length ? Math.min(tick, begins[i]) : tick) - before;
  };
  return { at, tick: value => value + (taken[firstNotBelow(free, value) - 1] || 0) };
}

/* The rows of a thread that are sums. ran: when samples of the thread were taken. */
function sumsAmong(rows, { time, weight }, ran, tick) {
  const ends = Float64Array.from(rows, row => time[row]);
  const isAmid = (times, from, to) => times[firstNotBelow(times, from + SLACK)] <= to - SLACK;
  return Array.from(rows).filter(row => {
    const begin = time[row] - weight[row] / tick;
    return isAmid(ran, begin, time[row]) || isAmid(ends, begin, time[row]);
  });
}

/* Lays the sums of a thread into its free time, those that overlap together: begin and end are in ticks, what `sums` has of each is in ticks of the free time. */
function lay(stretches, sums, { time, weight }, free, tick) {
  const groups = [];
  for (const row of sums) {
    const end = free.at(time[row]), length = weight[row] / tick, group = { begin: end - length, end, length, rows: [row] };
    while (groups.length && group.begin < groups.at(-1).end) {
      const last = groups.pop();
      group.begin = Math.min(group.begin, last.begin);
      group.length += last.length;
      group.rows.push(...last.rows);
    }
    groups.push(group);
  }
  let next = Infinity;
  for (const { end: latest, length, rows } of groups.reverse()) {
    const end = Math.min(latest, next), begin = next = end - length;
    for (const row of rows) {
      stretches.begin[row] = free.tick(begin);
      stretches.end[row] = free.tick(end);
      stretches.sums.set(row, { free, begin, length });
    }
  }
}

/* The rows of each thread, in order of time. */
function byThread({ of, kinds, n }) {
  const threads = new Uint32Array(n);
  for (let row = 0; row < n; row++) threads[row] = kinds.thread[of[row]];
  const { order, begins } = grouped(threads);
  return thread => thread + 1 < begins.length ? order.subarray(begins[thread], begins[thread + 1]) : order.subarray(0, 0);
}

function layAll(stretches, samples, on, tick) {
  const { time, weight, kinds } = samples, rowsOf = byThread(samples), ranOf = on && byThread(on);
  for (const thread of new Set(kinds.thread)) {
    const rows = rowsOf(thread), ranRows = ranOf ? ranOf(thread) : [], ran = Float64Array.from(ranRows, row => on.time[row]);
    const sums = sumsAmong(rows, samples, ran, tick);
    if (!sums.length) continue;
    const isSum = new Set(sums), pieces = Array.from(ranRows, row => [on.time[row] - on.weight[row] / tick, on.time[row]]);
    for (const row of rows) if (!isSum.has(row)) pieces.push([time[row] - weight[row] / tick, time[row]]);
    lay(stretches, sums, samples, freeTime(pieces.sort((a, b) => a[1] - b[1])), tick);
  }
}

const KEPT = new WeakMap();

/* Of a table of waits, prepared once: {begin, end: of each row, in ticks; sums: by row that is a sum {free: of its thread, begin, length: in it};
   reached: the latest end up to each row; part(row, from, to): the part of a row within a range of ticks}. */
export function stretchesOf({ events, tick }, samples) {
  const { time, weight, kinds } = samples, found = KEPT.get(time);
  if (found) return found;
  const begin = new Float64Array(time.length), end = Float64Array.from(time), sums = new Map(), stretches = { begin, end, sums };
  for (let row = 0; row < time.length; row++) begin[row] = time[row] - weight[row] / tick;
  const number = Math.max(0, ...events.map(event => event.samples.indexOf(samples)));
  const on = events.find(event => event.seconds && !event.off)?.samples[number];
  if (kinds.thread) layAll(stretches, samples, on && on.time && on.kinds.thread ? on : null, tick);
  let latest = -Infinity;
  stretches.reached = end.map(one => latest = Math.max(latest, one));
  stretches.part = (row, from, to) => {
    const first = Math.max(begin[row], from), last = Math.min(end[row], to), sum = sums.get(row);
    if (last <= first) return 0;
    if (first === begin[row] && last === end[row]) return 1;
    return sum ? Math.max(0, sum.free.at(last) - sum.free.at(first)) / sum.length : (last - first) / (end[row] - begin[row]);
  };
  KEPT.set(time, stretches);
  return stretches;
}
