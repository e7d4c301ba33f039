/* Trees of stacks as columns in depth-first order; node 0 is the root, of which all stacks grow. */

/* What is the same however the tree is weighed. name, depth: of all nodes but the root. */
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

/* own: for each column the weight of the stacks that end at each node. kind: "one"; "parts", columns are parts of one whole;
   "changes", columns are before and after. A node is as wide as its share of the whole, or the mean of its two shares. */
export function weighed(form, own, kind) {
  const n = form.n, parent = form.parent;
  const totals = own.map(column => column.reduce((a, b) => a + b, 0));
  const sum = own.map(column => Float64Array.from(column));
  for (const column of sum) for (let i = n - 1; i > 0; i--) column[parent[i]] += column[i];
  const width = new Float64Array(n), whole = totals.reduce((a, b) => a + b, 0);
  const present = totals.filter(total => total).length || 1;
  sum.forEach((column, k) => {
    const scale = kind === "changes" ? (totals[k] ? 1 / totals[k] / present : 0) : whole ? 1 / whole : 0;
    for (let i = 0; i < n; i++) width[i] += column[i] * scale;
  });
  const left = new Float64Array(n), next = new Float64Array(n);
  for (let i = 1; i < n; i++) {
    const p = parent[i];
    left[i] = left[p] + next[p];
    next[p] += width[i];
  }
  return { ...form, own, sum, totals, kind, width, left };
}

/* The share of a column that a node has; of the whole, of all columns that are its parts. */
export const share = (tree, i, k) => tree.totals[k] ? tree.sum[k][i] / tree.totals[k] : 0;

export function shareOfAll(tree, i) {
  const whole = tree.totals.reduce((a, b) => a + b, 0);
  return whole ? tree.sum.reduce((total, column) => total + column[i], 0) / whole : 0;
}

/* Self and total of every function, each sample once however often it is on its stack: arrays by name, for each column. */
export function byFunction(tree, names) {
  const self = tree.own.map(() => new Float64Array(names)), total = tree.own.map(() => new Float64Array(names));
  const open = new Int32Array(names), path = [];
  for (let i = 1; i < tree.n; i++) {
    while (path.length > tree.depth[i] - 1) open[path.pop()]--;
    const f = tree.name[i];
    for (let k = 0; k < tree.own.length; k++) {
      self[k][f] += tree.own[k][i];
      if (!open[f]) total[k][f] += tree.sum[k][i];
    }
    open[f]++;
    path.push(f);
  }
  return { self, total };
}
