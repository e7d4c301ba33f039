/* The stacks of one thread in order of time: for each column of pixels the stack with most weight, and runs of equal frames. */

import { firstNotBelow } from "./kinds.js";
import { JOINED, keptKinds, masksOf, onAndOff, sumsBy, tablesOf } from "./selection.js";
import { stretchesOf } from "./stretches.js";

/* The thread with most weight among the chosen samples; of time on and off the CPU the former, as a thread that waits is not busy. */
export function busiestThread(profile, choice) {
  const event = choice.event === JOINED ? onAndOff(profile)[0] : choice.event, { sums } = sumsBy(profile, { ...choice, event }, "thread", profile.threads.length);
  return sums.reduce((best, sum, thread) => sum > sums[best] ? thread : best, 0);
}

/* {node: of the form (see forms.js) at each column, 0 where the thread had no sample, apart: ns of waits that are not among them, as only their
   sums are known (stretches.js)}. range: in ticks. */
export function columnsOf(profile, choice, of, thread, range, count) {
  const masks = masksOf(profile, { ...choice, thread, process: null, range: null }), width = (range[1] - range[0]) / count || 1;
  const node = new Int32Array(count), most = new Float64Array(count);
  let apart = 0;
  for (const { samples } of tablesOf(profile, choice.event)) {
    if (!samples.time || !samples.kinds.thread) continue;
    const { of: kindOf, kinds, time, weight } = samples, kept = keptKinds(kinds, masks);
    const sums = samples.off ? stretchesOf(profile, samples).sums : null;
    const begin = firstNotBelow(samples.time, range[0]);
    let before = -1;
    const last = samples.seconds || samples.off ? samples.n : firstNotBelow(samples.time, range[1]);
    for (let row = begin; row < last; row++) {
      if (!kept[kindOf[row]]) continue;
      if (sums && sums.has(row)) {
        if (time[row] < range[1]) apart += weight[row];
        continue;
      }
      const stop = (time[row] - range[0]) / width, spent = weight[row] / profile.tick / width;
      const start = samples.seconds || samples.off ? stop - spent : before < 0 ? stop - 1 : before;
      before = stop;
      /* times are whole ticks, so that neighbours meet within rounding */
      const first = Math.floor(start + 1e-6), end = Math.min(count, Math.max(first + 1, Math.ceil(stop - 1e-6)));
      for (let column = Math.max(0, first); column < end; column++) {
        const part = Math.max(1e-9, Math.min(stop, column + 1) - Math.max(start, column));
        if (part >= most[column]) { most[column] = part; node[column] = of[kinds.node[kindOf[row]] + 1]; }
      }
    }
  }
  return { node, apart };
}

/* Runs of equal frames: [{node, from, to, depth}], columns `from` up to `to`, frames of a run have one path from the root. */
export function runsOf(form, columns) {
  const runs = [], open = [];
  const close = (depth, column) => { while (open.length > depth) { const run = open.pop(); run.to = column; runs.push(run); } };
  for (let column = 0; column <= columns.length; column++) {
    const path = [];
    if (column < columns.length) for (let i = columns[column]; i > 0; i = form.parent[i]) path.push(i);
    path.reverse();
    let same = 0;
    while (same < path.length && same < open.length && open[same].node === path[same]) same++;
    close(same, column);
    for (let depth = same; depth < path.length; depth++) open.push({ node: path[depth], from: column, to: column, depth });
  }
  return runs;
}
