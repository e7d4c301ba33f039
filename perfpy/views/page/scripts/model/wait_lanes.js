/* Lanes of waits: how many threads wait at once. */

/* The average number of waits in each of some bins of a range, in ticks. */
export function waitsAtOnce(lane, range, count) {
  const bins = new Float64Array(count), width = (range[1] - range[0]) / count || 1;
  for (let row = 0; row < lane.n; row++) {
    if (lane.begin[row] >= range[1]) break;
    const from = Math.max(0, (lane.begin[row] - range[0]) / width), to = Math.min(count, (lane.begin[row] + Math.max(1, lane.length[row]) - range[0]) / width);
    for (let bin = Math.floor(from); bin < to; bin++) bins[bin] += Math.min(bin + 1, to) - Math.max(bin, from);
  }
  return bins;
}

export function mostOf(bins) {
  return bins.reduce((a, b) => Math.max(a, b), 0);
}
