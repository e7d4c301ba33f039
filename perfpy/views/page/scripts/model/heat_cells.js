/* Samples -> how many there were at each offset within each second. */

import { JOINED, keptKinds, masksOf, tablesOf } from "./selection.js";

/* How long a column of the heat map may be, in s: those that make a picture of so long a recording. */
export function columnsFor(seconds) {
  const fits = [0.1, 1, 10, 60].filter(length => seconds / length >= 3 && seconds / length <= 2000);
  return fits.length ? fits : [seconds < 1 ? 0.1 : 60];
}

/* The length that makes most of a picture, with about MANY columns at most. */
const MANY = 200;
export const usualColumn = (lengths, { last, tick }) => lengths.find(length => last * tick / 1e9 / length <= MANY) || lengths.at(-1);

/* The heat map: cells[column * rows + row] samples, row by row later within the column; of time on and off the CPU the former. */
export function heatOf(profile, choice, length, rows) {
  const ticks = length * 1e9 / profile.tick, columns = Math.max(1, Math.floor(profile.last / ticks) + 1);
  const cells = new Float64Array(columns * rows), masks = masksOf(profile, choice);
  for (const { samples } of tablesOf(profile, choice.event)) {
    if (!samples.time || (samples.off && choice.event === JOINED)) continue;
    const { n, of, time, count } = samples, kept = keptKinds(samples.kinds, masks);
    for (let row = 0; row < n; row++) {
      if (!kept[of[row]]) continue;
      const when = time[row] / ticks, column = Math.floor(when);
      cells[column * rows + Math.min(rows - 1, Math.floor((when - column) * rows))] += count ? count[row] : 1;
    }
  }
  return { cells, columns, rows, ticks, most: cells.reduce((a, b) => Math.max(a, b), 0) };
}
