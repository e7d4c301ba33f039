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

/* The lanes that samples are in, those with most first: [{lane, recording, on, off, weight}], with shares of each bin's time, or
   of the most that a bin of any lane has. by: "cpu" or "thread"; range: in ticks; count: of bins. */
export function lanesOf(profile, choice, by, range, count) {
  const found = new Map(), masks = masksOf(profile, choice), width = (range[1] - range[0]) / count || 1;
  const changes = profile.recordings > 1;
  let seconds = true;
  for (const { samples, column } of tablesOf(profile, choice.event)) {
    if (!samples.time || (by === "cpu" && samples.off && choice.event === JOINED)) continue;
    seconds = seconds && samples.seconds;
    const lanes = samples[by];
    eachKept(samples, masks, 0, samples.n, row => {
      const key = lanes[row] * 2 + (changes ? column : 0);
      let lane = found.get(key);
      if (!lane) found.set(key, lane = { lane: lanes[row], recording: changes ? column : 0, on: new Float64Array(count), off: new Float64Array(count), weight: 0 });
      const weight = samples.weight[row], stop = (samples.time[row] - range[0]) / width;
      lane.weight += weight;
      spread(samples.off ? lane.off : lane.on, stop, samples.seconds ? weight / profile.tick / width : 0, weight);
    });
  }
  const lanes = [...found.values()].sort((a, b) => a.recording - b.recording || (by === "cpu" ? a.lane - b.lane : b.weight - a.weight));
  const most = seconds ? width * profile.tick : Math.max(1, ...lanes.map(lane => lane.on.reduce((a, b) => Math.max(a, b), 0)));
  for (const lane of lanes) for (const bins of [lane.on, lane.off]) for (let i = 0; i < bins.length; i++) bins[i] = Math.min(1, bins[i] / most);
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
