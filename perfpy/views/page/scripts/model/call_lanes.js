/* The calls of threads over time: the rows of each lane, and which of them are in a range or at a moment. */

import { INTERPRETER, KERNEL, LIBRARY, OWN, RUNTIME, UNKNOWN, WAITING } from "./categories.js";
import { unpacked } from "./unpack.js";

/* those of states of threads are states (stateBar()) */
const COLOURS = { runs: "runs", ready: "ready", waits: "waits", interpreter: INTERPRETER, kernel: KERNEL, library: LIBRARY, own: OWN, runtime: RUNTIME, waiting: WAITING };

async function columnsOf(columns) {
  const names = Object.keys(columns), values = await Promise.all(names.map(name => unpacked(columns[name])));
  return Object.fromEntries(names.map((name, i) => [name, values[i]]));
}

/* The first row of each lane, and the end of the last; the rows are in order of their lanes. */
export function startsOf(lane, count) {
  const starts = new Uint32Array(count + 1);
  for (const one of lane) starts[one + 1]++;
  for (let i = 0; i < count; i++) starts[i + 1] += starts[i];
  return starts;
}

export async function traceOf(data) {
  const [calls, merged] = await Promise.all([columnsOf(data.calls), columnsOf(data.merged)]);
  for (const one of [calls, merged]) one.starts = startsOf(one.lane, data.lanes.length);
  return { ...data, calls, merged, colours: [...data.groups.map(([, category]) => COLOURS[category]), UNKNOWN] };
}

/* The rows of a lane that overlap a range: [first, end). Calls of a thread follow each other. */
export function rowsIn(columns, lane, [from, to]) {
  const { begin, took, starts } = columns;
  let low = starts[lane], high = starts[lane + 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (begin[middle] + took[middle] < from) low = middle + 1; else high = middle;
  }
  let end = low;
  high = starts[lane + 1];
  while (end < high) {
    const middle = (end + high) >> 1;
    if (begin[middle] <= to) end = middle + 1; else high = middle;
  }
  return [low, end];
}

/* The row at a moment, or the longest one within some time of it; -1 for none. */
export function rowAt(columns, lane, moment, slack) {
  const [first, end] = rowsIn(columns, lane, [moment - slack, moment + slack]);
  let best = -1;
  for (let row = first; row < end; row++) {
    if (columns.begin[row] <= moment && moment <= columns.begin[row] + columns.took[row]) return row;
    if (best < 0 || columns.took[row] > columns.took[best]) best = row;
  }
  return best;
}

/* A range of time around a moment, longer or shorter by a factor, within the whole. */
export function zoomed([from, to], moment, factor, whole) {
  const length = Math.max(10, Math.min((to - from) * factor, whole[1] - whole[0])), part = (moment - from) / (to - from || 1);
  const start = Math.max(whole[0], Math.min(moment - part * length, whole[1] - length));
  return [start, start + length];
}

/* The name of a call with its arguments and result, as far as the page has them. */
export function callText(trace, row) {
  const text = trace.calls.text[row];
  return text ? trace.texts[text - 1] : `${trace.names[trace.calls.name[row]][0]}${trace.thing === "call" ? "()" : ""}`;
}

/* Whether each name matches a pattern, and which calls match: by name, or by text. */
export function matches(trace, pattern, only) {
  if (!pattern && only === null) return null;
  const texts = pattern ? trace.texts.map(text => pattern.test(text)) : [], names = trace.names.map(([name]) => !pattern || pattern.test(name));
  return row => {
    const name = trace.calls.name[row], text = trace.calls.text[row];
    return (only === null || only === name) && (names[name] || (text > 0 && texts[text - 1]));
  };
}
