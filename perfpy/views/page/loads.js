/* Samples -> how much each CPU or thread had to do when; and how many samples there were within each second. */

import { JOINED, eachKept, masksOf, tablesOf } from "./selection.js";

/* Adds a weight to the bins that it was spent in: it ends at `stop`, all in units of bins. */
function spread(bins, stop, length, weight) {
  const start = stop - length, first = Math.max(0, Math.floor(start)), last = Math.min(bins.length - 1, Math.floor(stop));
  if (length <= 0 || first >= last) {
    if (first === last && stop >= 0) bins[first] += length > 0 ? weight * (Math.min(stop, first + 1) - Math.max(start, first)) / length : weight;
    return;
  }
  for (let bin = first; bin <= last; bin++) bins[bin] += weight * (Math.min(stop, bin + 1) - Math.max(start, bin)) / length;
}

/* More lanes than somebody looks at are left out: those with least. */
export const MOST_LANES = 300;

/* What each lane has: [[key, weight]], those with most; a key is the lane's number, and whether it is of the second recording. */
function weights(tables, masks, by, changes) {
  const found = new Map();
  for (const { samples, column } of tables) {
    const lanes = samples[by], second = changes ? column : 0;
    eachKept(samples, masks, 0, samples.n, row => {
      const key = lanes[row] * 2 + second;
      found.set(key, (found.get(key) || 0) + samples.weight[row]);
    });
  }
  return [...found].sort((a, b) => b[1] - a[1]).slice(0, MOST_LANES);
}

/* The lanes that samples are in, CPUs by number, threads with most first: [{lane, recording, on, off, weight, seconds}], with shares of
   each bin's time, or of the most that a bin of any lane has. by: "cpu" or "thread"; range: in ticks; count: of bins. */
export function lanesOf(profile, choice, by, range, count) {
  const masks = masksOf(profile, choice), width = (range[1] - range[0]) / count || 1, changes = profile.recordings > 1;
  const tables = tablesOf(profile, choice.event).filter(({ samples }) =>
    samples.time && !(by === "cpu" && samples.off && choice.event === JOINED));
  const found = new Map(weights(tables, masks, by, changes).map(([key, weight]) => (
    [key, { lane: key >> 1, recording: key & 1, on: new Float64Array(count), off: new Float64Array(count), weight }])));
  for (const { samples, column } of tables) {
    const lanes = samples[by], second = changes ? column : 0;
    eachKept(samples, masks, 0, samples.n, row => {
      const lane = found.get(lanes[row] * 2 + second);
      if (!lane) return;
      const weight = samples.weight[row], stop = (samples.time[row] - range[0]) / width;
      spread(samples.off ? lane.off : lane.on, stop, samples.seconds ? weight / profile.tick / width : 0, weight);
    });
  }
  const seconds = tables.every(({ samples }) => samples.seconds);
  const lanes = [...found.values()].sort((a, b) => a.recording - b.recording || (by === "cpu" ? a.lane - b.lane : b.weight - a.weight));
  const most = seconds ? width * profile.tick : Math.max(1, ...lanes.map(lane => lane.on.reduce((a, b) => Math.max(a, b), 0)));
  for (const lane of lanes) {
    lane.seconds = seconds;
    for (const bins of [lane.on, lane.off]) for (let i = 0; i < bins.length; i++) bins[i] = Math.min(1, bins[i] / most);
  }
  return lanes;
}

/* How long a column of the heat map may be, in s: those that make a picture of so long a recording. */
export function columnsFor(seconds) {
  const fits = [0.1, 1, 10, 60].filter(length => seconds / length >= 3 && seconds / length <= 2000);
  return fits.length ? fits : [seconds < 1 ? 0.1 : 60];
}

/* The heat map: cells[column * rows + row] samples, row by row later within the column; of time on and off the CPU the former. */
export function heatOf(profile, choice, length, rows) {
  const ticks = length * 1e9 / profile.tick, columns = Math.max(1, Math.floor(profile.last / ticks) + 1);
  const cells = new Float64Array(columns * rows), masks = masksOf(profile, choice);
  for (const { samples } of tablesOf(profile, choice.event)) {
    if (!samples.time || (samples.off && choice.event === JOINED)) continue;
    eachKept(samples, masks, 0, samples.n, row => {
      const when = samples.time[row] / ticks, column = Math.floor(when);
      cells[column * rows + Math.min(rows - 1, Math.floor((when - column) * rows))] += samples.count[row];
    });
  }
  return { cells, columns, rows, ticks, most: cells.reduce((a, b) => Math.max(a, b), 0) };
}
