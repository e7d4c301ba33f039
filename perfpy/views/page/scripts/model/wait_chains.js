/* Who waited for whom: turns of threads, sorted by thread and time, and the thread that ended each wait. */

/* states of perfpy.scheduling.segments */
export const RUNS = 0;
export const READY = 1;
export const BLOCKED = 2;
/* threads in a row, as perfpy.tools.why.causes follows them */
const DEEPEST = 12, MOST_STEPS = 50_000;

/* The first turn of a thread that ends after a time, or the number behind its last one. */
function turnAfter(waits, thread, tick) {
  let low = waits.first[thread], high = waits.first[thread + 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (waits.begin[middle] + waits.length[middle] <= tick) low = middle + 1; else high = middle;
  }
  return low;
}

/* The turn of a thread at a time, -1 where none is known. */
export function turnAt(waits, thread, tick) {
  const row = turnAfter(waits, thread, tick);
  return row < waits.first[thread + 1] && waits.begin[row] <= tick ? row : -1;
}

/* The turns at a time: of a thread, of the thread that ends its wait, and so on to the one that is no wait, or whose end nobody caused. */
export function chainAt(waits, thread, tick) {
  const chain = [], seen = new Set();
  while (chain.length < DEEPEST && !seen.has(thread)) {
    seen.add(thread);
    const row = turnAt(waits, thread, tick);
    if (row < 0) break;
    chain.push(row);
    if (waits.state[row] !== BLOCKED || !waits.waker[row]) break;
    thread = waits.waker[row] - 1;
  }
  return chain;
}

/* The critical path of a thread: what the last thread of its chain did, one after the other: [{row, from, to, depth}]. */
export function criticalPath(waits, thread, [from, to]) {
  const pieces = [];
  for (let steps = 0, at = from; at < to && steps < MOST_STEPS; steps++) {
    const chain = chainAt(waits, thread, at), depth = chain.length - 1, row = chain[depth];
    if (depth < 0) {
      const next = turnAfter(waits, thread, at);
      if (next >= waits.first[thread + 1]) break;
      at = Math.max(at + 1, waits.begin[next]);
      continue;
    }
    let end = to;
    for (const one of chain) end = Math.min(end, waits.begin[one] + waits.length[one]);
    /* where the waker's turn is not known, it may become known before the end of the wait */
    if (waits.state[row] === BLOCKED && waits.waker[row]) {
      const next = turnAfter(waits, waits.waker[row] - 1, at);
      if (next < waits.first[waits.waker[row]] && waits.begin[next] > at) end = Math.min(end, waits.begin[next]);
    }
    const last = pieces[pieces.length - 1];
    if (last && last.row === row && last.to === at) last.to = end; else pieces.push({ row, from: at, to: end, depth });
    at = end;
  }
  return pieces;
}

/* The pieces of a path by thread and text, the longest sum first: [{thread, text, time, longest: a piece}]. */
export function pathSums(waits, pieces) {
  const sums = new Map();
  for (const piece of pieces) {
    const thread = waits.thread[piece.row], text = waits.text[piece.row], key = `${thread} ${text}`, length = piece.to - piece.from;
    const sum = sums.get(key) || { thread, text, time: 0, longest: piece };
    sum.time += length;
    if (length > sum.longest.to - sum.longest.from) sum.longest = piece;
    sums.set(key, sum);
  }
  return [...sums.values()].sort((a, b) => b.time - a.time);
}

/* The longest waits that end within a range, and whose end a thread caused. */
export function wakeups(waits, [from, to], most) {
  const rows = [];
  for (let row = 0; row < waits.n; row++) {
    const end = waits.begin[row] + waits.length[row];
    if (waits.state[row] === BLOCKED && waits.waker[row] && end >= from && end <= to) rows.push(row);
  }
  return rows.sort((a, b) => waits.length[b] - waits.length[a]).slice(0, most);
}

/* Frames of Python have their lines in stacks. */
const isFrameOf = (frame, name) => frame === name || frame.startsWith(`${name}:`) && /^\d+$/.test(frame.slice(name.length + 1));

/* The waits of a function, those on whose stacks it is, by thread, by what is waited for, and by who ended that: [{thread, text, waker: -1 for none, time,
   count, longest: a row}], the longest first. */
export function waitsOf(waits, name) {
  const isOn = waits.stacks.map(stack => stack.some(frame => isFrameOf(frame, name))), sums = new Map();
  for (let row = 0; row < waits.n; row++) {
    if (waits.state[row] === RUNS || !waits.stack[row] || !isOn[waits.stack[row] - 1]) continue;
    const thread = waits.thread[row], text = waits.text[row], waker = waits.waker[row] - 1, key = `${thread} ${text} ${waker}`;
    const sum = sums.get(key) || { thread, text, waker, time: 0, count: 0, longest: row };
    sum.time += waits.length[row];
    sum.count++;
    if (waits.length[row] > waits.length[sum.longest]) sum.longest = row;
    sums.set(key, sum);
  }
  return [...sums.values()].sort((a, b) => b.time - a.time);
}
