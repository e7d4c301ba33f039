/* Trees of stacks as columns in depth-first order; node 0 is the root, of which all stacks grow. */

/* The columns that do not depend on weights. name, depth: of all nodes but the root. */
export function shape(name, depth) {
  const n = name.length + 1;
  const tree = { n, name: new Int32Array(n).fill(-1), depth: new Int32Array(n), parent: new Int32Array(n).fill(-1), end: new Int32Array(n), deepest: 0 };
  const open = [0];
  for (let i = 1; i < n; i++) {
    const level = depth[i - 1] + 1;
    tree.name[i] = name[i - 1];
    tree.depth[i] = level;
    if (level > tree.deepest) tree.deepest = level;
    while (open.length > level) tree.end[open.pop()] = i;
    tree.parent[i] = open[level - 1];
    open[level] = i;
  }
  while (open.length) tree.end[open.pop()] = n;
  return tree;
}

/* A tree that grows by (parent, name). Its nodes are found by open addressing, and numbered as they come. */
export class Forest {
  constructor(expected = 1024) {
    this.n = 1;
    let size = 1024;
    while (size < expected * 2) size *= 2;
    this.name = new Int32Array(size / 2).fill(-1);
    this.parent = new Int32Array(size / 2).fill(-1);
    this.slots = new Int32Array(size);
  }

  node(parent, name) {
    const mask = this.slots.length - 1;
    let slot = (Math.imul(parent + 1, 0x9e3779b1) ^ Math.imul(name + 1, 0x85ebca6b)) >>> 7 & mask;
    for (let found = this.slots[slot]; found; found = this.slots[slot = slot + 1 & mask]) {
      if (this.parent[found] === parent && this.name[found] === name) return found;
    }
    if (this.n >= this.name.length) { this.enlarge(); return this.node(parent, name); }
    this.slots[slot] = this.n;
    this.name[this.n] = name;
    this.parent[this.n] = parent;
    return this.n++;
  }

  /* A new node, which is not among those that node() finds. */
  append(parent, name) {
    if (this.n >= this.name.length) this.enlarge();
    this.name[this.n] = name;
    this.parent[this.n] = parent;
    return this.n++;
  }

  enlarge() {
    const { name, parent, n } = this, larger = new Forest(name.length * 2);
    for (let i = 1; i < n; i++) larger.node(parent[i], name[i]);
    Object.assign(this, { name: larger.name, parent: larger.parent, slots: larger.slots });
  }

  /* The tree, with `of`: the position of each node in it. Children are in the order in which they came. */
  finished() {
    const { n, parent } = this, first = new Int32Array(n).fill(-1), next = new Int32Array(n).fill(-1);
    for (let i = n - 1; i > 0; i--) { next[i] = first[parent[i]]; first[parent[i]] = i; }
    const of = new Int32Array(n), name = new Int32Array(n - 1), depth = new Int32Array(n - 1);
    let node = first[0], level = 0, place = 0;
    while (node > 0) {
      name[place] = this.name[node];
      depth[place] = level;
      of[node] = ++place;
      if (first[node] > 0) { node = first[node]; level++; continue; }
      while (node > 0 && next[node] < 0) { node = parent[node]; level--; }
      node = node > 0 ? next[node] : -1;
    }
    return { ...shape(name, depth), of };
  }
}

/* Move weights of nodes to the nodes of another tree. */
export function regrouped(own, of, n) {
  return own.map(column => {
    const moved = new Float64Array(n);
    for (let i = 0; i < column.length; i++) if (column[i]) moved[of[i]] += column[i];
    return moved;
  });
}

export function totalOf(column) {
  let total = 0;
  for (let i = 0; i < column.length; i++) total += column[i];
  return total;
}

/* own: for each column the weight of the stacks that end at each node. kind: "one"; "parts", columns are parts of one whole;
   "changes", columns are before and after. A node is as wide as its share of the whole, or the mean of its two shares.
   compared: of changes {sides: names of the columns, samples: numbers of each, side: the column that widths are of, -1 for the mean}, and of time in two
   ranges {lengths, grain} (selection.js): then the totals, which shares are of, are the lengths of the ranges. */
export function weighed(form, own, kind, compared = null) {
  const { n, parent } = form, sums = own.map(totalOf), totals = compared && compared.lengths || sums, scale = scalesOf(sums, totals, kind, compared);
  const width = new Float64Array(n);
  const sum = own.map((column, k) => {
    const sums = column.slice(), one = scale[k];
    for (let i = n - 1; i > 0; i--) if (sums[i]) { sums[parent[i]] += sums[i]; width[i] += sums[i] * one; }
    width[0] += sums[0] * one;
    return sums;
  });
  let left = null;
  return Object.defineProperty({ ...form, own, sum, totals, kind, width, scale, compared }, "left", { get: () => left ||= leftOf(form, width) });
}

/* How wide a weight of each column is, so that all are 1 wide. sums: of the columns; totals: what shares are of. */
function scalesOf(sums, totals, kind, compared) {
  const whole = sums.reduce((a, b) => a + b, 0), { side = -1 } = compared || {};
  if (kind !== "changes") return sums.map(() => whole ? 1 / whole : 0);
  const isWide = k => sums[k] > 0 && (side < 0 || !sums[side] || side === k), all = sums.reduce((sum, one, k) => sum + (isWide(k) ? one / totals[k] : 0), 0);
  return totals.map((total, k) => isWide(k) ? 1 / total / all : 0);
}

let room = new Float64Array(0);

/* Where each node begins, beside the nodes before it: for graphs. */
function leftOf({ n, parent }, width) {
  const left = new Float64Array(n), next = room.length >= n ? room.fill(0, 0, n) : room = new Float64Array(n);
  for (let i = 1; i < n; i++) {
    if (!width[i]) continue;
    const p = parent[i];
    left[i] = left[p] + next[p];
    next[p] += width[i];
  }
  return left;
}

/* The share of a column that a node has; of the whole, of all columns that are its parts. */
export const share = (tree, i, k) => tree.totals[k] ? tree.sum[k][i] / tree.totals[k] : 0;

export function shareOfAll(tree, i) {
  const whole = tree.totals.reduce((a, b) => a + b, 0);
  return whole ? tree.sum.reduce((total, column) => total + column[i], 0) / whole : 0;
}

/* 99 of 100 differences by chance are smaller */
const SURE = 2.58;

/* How large a difference of two shares may be by chance alone, from the numbers of samples. */
export function chance([before, after], samples) {
  return SURE * Math.sqrt(before * (1 - before) / Math.max(1, samples[0]) + after * (1 - after) / Math.max(1, samples[1]));
}

/* The same of what is compared: of time, which samples come at any moment of (Poisson), from the parts of the ranges that a sample stands for. */
export function chanceOf(shares, { grain, samples }) {
  return grain ? SURE * Math.sqrt(shares[0] * grain[0] + shares[1] * grain[1]) : chance(shares, samples);
}

/* The change of a node: {shares, change, isNoise: whether it may be by chance}. */
export function changeOf(tree, i) {
  const shares = [share(tree, i, 0), share(tree, i, 1)], change = shares[1] - shares[0];
  return { shares, change, isNoise: !!tree.compared && Math.abs(change) <= chanceOf(shares, tree.compared) };
}

/* The label of a node: changes have signs, too, which are there without colours. */
export function withSign(tree, i, text) {
  if (tree.kind !== "changes") return text;
  const { change, isNoise } = changeOf(tree, i);
  return isNoise ? text : `${change > 0 ? "\u25b4" : "\u25be"} ${text}`;
}

/* The children of a node that have a weight. */
export function childrenOf(tree, i) {
  const found = [];
  for (let k = i + 1; k < tree.end[i]; k = tree.end[k]) if (tree.width[k]) found.push(k);
  return found;
}

/* The nodes of a function without the ones that it called itself. */
export function outermost(tree, name) {
  const found = [];
  for (let i = 1; i < tree.n;) {
    if (tree.name[i] !== name) { i++; continue; }
    if (tree.width[i]) found.push(i);
    i = tree.end[i];
  }
  return found;
}

/* What does not depend on weights, kept with a form of the tree: whether each node is the outermost of its function. */
export function shapeOf(tree, names) {
  if (tree.shape) return tree.shape;
  const { n, name, depth } = tree, isOuter = new Uint8Array(n), open = new Int32Array(names), path = [];
  for (let i = 1; i < n; i++) {
    const f = name[i];
    while (path.length > depth[i] - 1) open[path.pop()]--;
    if (!open[f]) isOuter[i] = 1;
    open[f]++;
    path.push(f);
  }
  return { isOuter };
}

const CALLERS = new WeakMap();

/* By node: the function that calls the one whose samples end there, -1 for none, as on the terminal: of own code the one that calls it,
   of other code the one that it is charged to; without any own code the direct caller. */
function callersOf(tree, charges) {
  const { n, name, parent } = tree, callers = new Int32Array(n).fill(-1), near = new Int32Array(n), callerNode = new Int32Array(n);
  const isOwn = f => charges[f] === "1" || charges[f] === "2", hasOwn = /[12]/.test(charges), charged = hasOwn && chargedFunctions(tree, charges);
  for (let i = 1; i < n; i++) {
    const f = name[i], k = near[parent[i]];
    if (hasOwn && !isOwn(f)) callers[i] = charged[i];
    else {
      callerNode[i] = k && name[k] === f ? callerNode[k] : k;
      callers[i] = callerNode[i] ? name[callerNode[i]] : -1;
    }
    near[i] = !hasOwn || isOwn(f) ? i : charges[f] === "3" ? 0 : k;
  }
  return callers;
}

/* What does not depend on weights: the pair of each node, function and caller (0: none), and the [function, caller] of each pair. made: by the worker. */
export function callerPairs(tree, names, charges, made = null) {
  if (made) CALLERS.set(tree.name, made);
  if (CALLERS.has(tree.name)) return CALLERS.get(tree.name);
  const callers = callersOf(tree, charges), forest = new Forest(names * 2), pairOf = new Int32Array(tree.n);
  for (let i = 1; i < tree.n; i++) if (callers[i] >= 0) pairOf[i] = forest.node(tree.name[i], callers[i]);
  const found = { pairOf, pairs: forest.n, callee: forest.parent, caller: forest.name };
  CALLERS.set(tree.name, found);
  return found;
}

/* By node: the function that samples which end there are charged to, -1 for none: the innermost of own code, as in the headline.
   charges: for each name "1" for a function of own code, "2" for a lambda, which counts for the function that it stands in; "3" where
   a forked worker begins, whose callers are those of its parent. */
export function chargedFunctions(tree, charges) {
  const own = new Int32Array(tree.n).fill(-1), lambda = new Int32Array(tree.n).fill(-1);
  for (let i = 1; i < tree.n; i++) {
    const f = tree.name[i], p = tree.parent[i];
    own[i] = charges[f] === "1" ? f : charges[f] === "3" ? -1 : own[p];
    lambda[i] = charges[f] === "2" ? f : charges[f] === "3" ? -1 : lambda[p];
  }
  return own.map((f, i) => f < 0 ? lambda[i] : f);
}

/* chargedFunctions() of a profile, kept with it. */
export const chargedOf = profile => profile.charged ||= chargedFunctions(profile.tree, profile.charges);

/* The charged weight of every function: arrays by name, for each column. own: the weights of the nodes' own samples. */
export function chargedWeights(profile, own) {
  const charged = chargedOf(profile);
  return own.map(column => {
    const sums = new Float64Array(profile.names.length);
    for (let i = 1; i < column.length; i++) if (column[i] && charged[i] >= 0) sums[charged[i]] += column[i];
    return sums;
  });
}
