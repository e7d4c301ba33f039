/* Sums of a tree by function: itself, with what it calls, and its hottest caller. */

import { COMMAND, KERNEL, WAITING } from "./categories.js";
import { callerPairs, chargedOf, chargedWeights, shapeOf } from "./trees.js";

const CALL = /^__\w+?_sys_\w/;

/* The node where the thread of a stack waited: of the innermost function outside of the kernel, which perf counts the wait for; of stacks without one
   of the system call, or else of what called the scheduler. */
export function waitedAt({ name, parent }, names, i) {
  const category = k => names[name[k]][2];
  let k = i, call = 0;
  while (k > 0 && category(k) === WAITING) k = parent[k];
  const inner = k;
  for (; k > 0 && category(k) === KERNEL; k = parent[k]) if (CALL.test(names[name[k]][0])) call = k;
  return [k, call, inner].find(one => one > 0 && category(one) !== COMMAND) || i;
}

const PLACES = new WeakMap();

/* By node: the one that its own samples count for. The state of a thread, as "[S (sleeping)]", is no function: where it waited. */
function countedAt(tree, names) {
  if (!PLACES.has(tree.name)) {
    PLACES.set(tree.name, tree.name.map((f, i) => i && names[f][2] === WAITING ? waitedAt(tree, names, i) : i));
  }
  return PLACES.get(tree.name);
}

const SUMS = new WeakMap();

/* Self and total of every function, each sample once however often it is on its stack: arrays by name, for each column. */
export function byFunction(tree, names) {
  if (SUMS.has(tree)) return SUMS.get(tree);
  const { isOuter } = shapeOf(tree, names.length), { n, name } = tree, at = countedAt(tree, names), self = [], total = [];
  tree.own.forEach((own, k) => {
    const sum = tree.sum[k], selfs = self[k] = new Float64Array(names.length), totals = total[k] = new Float64Array(names.length);
    for (let i = 1; i < n; i++) {
      if (!sum[i]) continue;
      selfs[name[at[i]]] += own[i];
      if (isOuter[i]) totals[name[i]] += sum[i];
    }
  });
  SUMS.set(tree, { self, total });
  return { self, total };
}

/* Whether a frame has only a part of what its function has in the tree. */
export function isPart(tree, names, i) {
  const f = tree.name[i];
  return i > 0 && f >= 0 && byFunction(tree, names).total.some((total, k) => total[f] > tree.sum[k][i]);
}

const STANDING = new WeakMap();

/* By function, for each column: its own weight with that of the code that is inlined into it, as Code counts; without what a function that is inlined
   itself has. inlined: their numbers. */
export function withInlined(tree, names, inlined) {
  if (!inlined.length) return byFunction(tree, names).self;
  if (!STANDING.has(tree.name)) {
    const isInlined = new Uint8Array(names.length), at = Int32Array.from(countedAt(tree, names));
    for (const f of inlined) isInlined[f] = 1;
    for (let i = 1; i < tree.n; i++) while (isInlined[tree.name[at[i]]] && tree.parent[at[i]] > 0) at[i] = tree.parent[at[i]];
    STANDING.set(tree.name, at);
  }
  const at = STANDING.get(tree.name);
  return tree.own.map(own => {
    const sums = new Float64Array(names.length);
    for (let i = 1; i < tree.n; i++) if (own[i]) sums[tree.name[at[i]]] += own[i];
    return sums;
  });
}

/* The function that the headline names for its share, as {f, shown, share}; null if the page has none of its name. Of several, the one with most samples. */
export function namedHottest({ headline = [], names }, total) {
  for (const [shown, name, share] of headline.flatMap(one => one.hottest || [])) {
    const same = names.flatMap(([one, , category], f) => one === name && category !== COMMAND ? [f] : []);
    if (same.length) return { f: same.reduce((a, b) => total[b] > total[a] ? b : a), shown, share };
  }
  return null;
}

/* By function: the function that calls it in most of its samples, -1 for none, and the share of these samples. */
export function hottestCallers(tree, names, charges) {
  const { pairOf, pairs, callee, caller } = callerPairs(tree, names.length, charges), at = countedAt(tree, names), sums = new Float64Array(pairs);
  const best = new Int32Array(names.length).fill(-1), most = new Float64Array(names.length), whole = new Float64Array(names.length);
  for (const own of tree.own) {
    for (let i = 1; i < tree.n; i++) {
      if (!own[i]) continue;
      whole[tree.name[at[i]]] += own[i];
      sums[pairOf[at[i]]] += own[i];
    }
  }
  for (let pair = 1; pair < pairs; pair++) {
    const f = callee[pair];
    if (sums[pair] > most[f]) { most[f] = sums[pair]; best[f] = caller[pair]; }
  }
  return { best, share: most.map((sum, f) => whole[f] ? sum / whole[f] : 0) };
}

/* The function with most charged weight, of time on and off the CPU the former, or the waits if the headline tells of them (ofWaits), else with most
   of its own; -1 for none. */
export function hottest(tree, names, charged, ofWaits = false) {
  const isBoth = tree.kind === "parts", from = isBoth && ofWaits && tree.totals[1] ? 1 : 0, used = isBoth && !from && tree.totals[0] ? 1 : tree.totals.length;
  const most = columns => columns[0].reduce((best, _, f) => {
    const sum = columns.slice(from, used).reduce((total, column) => total + column[f], 0);
    return sum > best[1] ? [f, sum] : best;
  }, [-1, 0])[0];
  const f = most(charged);
  return f < 0 ? most(byFunction(tree, names).self) : f;
}

const COMPARED = new WeakMap();

/* What two ranges are compared by: arrays by name, for each column: of own code the charged weight, of stacks without own code that of the innermost
   function, or of where the thread waited. own: as in chargedWeights(), whose weights are kept: the sentence and the panel have the same. */
export function comparedWeights(profile, own) {
  const { tree, names } = profile, charged = chargedOf(profile), at = countedAt(tree, names);
  if (!COMPARED.has(own)) {
    COMPARED.set(own, own.map(column => {
      const sums = new Float64Array(names.length);
      for (let i = 1; i < column.length; i++) if (column[i]) sums[charged[i] >= 0 ? charged[i] : tree.name[at[i]]] += column[i];
      return sums;
    }));
  }
  return COMPARED.get(own);
}

/* What the sentence of two ranges compares, of each event. counted: collectBoth(). */
export function comparedParts(profile, { parts, base }) {
  return parts.map(({ event, own, counts }) => {
    const { off, time } = profile.events[event], title = off ? "Waits with libraries" : time ? "CPU time with libraries" : "With libraries";
    return { title, weights: comparedWeights(profile, own), compared: { samples: counts, grain: off ? [0, 0] : base.grain, of: base.of } };
  });
}

/* What tables of functions show, of all frames as on the terminal, whatever the form of the graph: tree, names, charged weights, kinds of charges. */
export const ofFunctions = (profile, own, tree) => [tree, profile.names, chargedWeights(profile, own), profile.charges];
