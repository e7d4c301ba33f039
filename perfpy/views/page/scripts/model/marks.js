/* Marks: moments of threads (switches, faults, signals, forks, tracepoints), in order of time. */

import { firstNotBelow } from "./kinds.js";

/* The rows of marks within a range, of the chosen process or thread, with a text that a pattern finds (null: all), of kinds that are not hidden. */
export function chosenMarks(marks, profile, choice, pattern, hidden) {
  const { time, thread, kind, text, n } = marks, rows = [];
  const [from, to] = choice.range ? choice.range.map(tick => firstNotBelow(time, tick)) : [0, n];
  const texts = pattern ? marks.texts.map(one => pattern.test(one)) : null, kinds = pattern ? marks.kinds.map(one => pattern.test(one)) : null;
  for (let row = from; row < to; row++) {
    const task = profile.threads[thread[row]];
    if (hidden && hidden.has(kind[row])) continue;
    if (choice.process !== null && (!task || task[0] !== choice.process)) continue;
    if (choice.thread !== null && thread[row] !== choice.thread) continue;
    if (pattern && !texts[text[row]] && !kinds[kind[row]] && !(task && pattern.test(task[2]))) continue;
    rows.push(row);
  }
  return rows;
}

/* How many marks of each kind there are among rows: a number for each kind. */
export function countedKinds(marks, rows) {
  const counts = new Array(marks.kinds.length).fill(0);
  for (const row of rows) counts[marks.kind[row]]++;
  return counts;
}

/* The first mark of each bin of a time line: a Map from bin to row, so that a million marks are drawn as quickly as a thousand. */
export function binnedMarks(marks, rows, range, count) {
  const found = new Map(), width = (range[1] - range[0]) / count || 1;
  for (const row of rows) {
    const bin = Math.floor((marks.time[row] - range[0]) / width);
    if (bin < 0 || bin >= count) continue;
    const known = found.get(bin);
    if (known) known.n++; else found.set(bin, { row, n: 1 });
  }
  return found;
}
