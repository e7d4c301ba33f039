/* Other trees of the same stacks: grown from the innermost functions, and the callers and callees of one function. */

import { Forest, outermost, shape, weighed } from "./trees.js";

/* Smaller shares are not followed any further: they are narrower than a pixel. */
const LEAST = 1 / 20000;

/* compared: of a part of a tree, with its part of the samples */
function finished(forest, own, kind, compared) {
  const form = forest.finished();
  const columns = own.map(column => {
    const moved = new Float64Array(form.n);
    for (let i = 0; i < forest.n; i++) moved[form.of[i]] += column[i] || 0;
    return moved;
  });
  return weighed(form, columns, kind, compared);
}

/* A column with room for an index. */
function grown(column, index) {
  if (index < column.length) return column;
  const larger = new Float64Array(2 * index + 2);
  larger.set(column);
  return larger;
}

/* Grow the stacks from some nodes towards the root; start: those nodes, weights: for each column the weight of each. */
function upwards(tree, start, weights, withSelf) {
  const forest = new Forest(), least = LEAST * (tree.totals.reduce((a, b) => a + b, 0) || 1), { name, parent } = tree, own = weights.map(() => new Float64Array(1024));
  const node = Int32Array.from(start, i => withSelf ? i : parent[i]), to = new Int32Array(start.length), rows = Int32Array.from(start, (_, row) => row);
  const sum = Float64Array.from(start, (_, row) => weights.reduce((total, column) => total + column[row], 0));
  const end = row => weights.forEach((column, k) => { own[k] = grown(own[k], to[row]); own[k][to[row]] += column[row]; });
  let reached = new Float64Array(1024);
  for (let count = rows.length; count;) {
    let going = 0;
    for (let k = 0; k < count; k++) {
      const row = rows[k], i = node[row];
      if (i <= 0) { end(row); continue; }
      const there = to[row] = forest.node(to[row], name[i]);
      reached = grown(reached, there);
      reached[there] += sum[row];
      node[row] = parent[i];
      rows[going++] = row;
    }
    count = 0;
    for (let k = 0; k < going; k++) if (reached[to[rows[k]]] >= least) rows[count++] = rows[k]; else end(rows[k]);
  }
  return finished(forest, own, tree.kind, tree.compared);
}

/* All stacks, the innermost function first. */
export function inverted(tree) {
  const start = [];
  for (let i = 1; i < tree.n; i++) if (tree.own.some(column => column[i])) start.push(i);
  return upwards(tree, start, tree.own.map(column => start.map(i => column[i])), true);
}

/* The root of a tree is this function: it has its colour, and a search finds it. */
function rooted(tree, name, whole) {
  tree.name[0] = name;
  if (tree.compared) tree.compared = { ...tree.compared, samples: tree.compared.samples.map((n, k) => n * tree.totals[k] / (whole.totals[k] || 1)) };
  return tree;
}

/* The callers of a function, the nearest first. Totals are the function's. */
export function callers(tree, name) {
  const start = outermost(tree, name);
  return rooted(upwards(tree, start, tree.sum.map(column => start.map(i => column[i])), false), name, tree);
}

/* The part of a tree below a node, as a tree of its own. */
function below(tree, top) {
  const from = top + 1, to = tree.end[top], first = tree.depth[top] + 1, own = tree.own.map(column => column.slice(top, to));
  return weighed(shape(tree.name.subarray(from, to), tree.depth.subarray(from, to).map(level => level - first)), own, tree.kind, tree.compared);
}

/* The functions that a function calls. */
export function callees(tree, name) {
  const tops = outermost(tree, name), most = 1 + tops.reduce((sum, top) => sum + tree.end[top] - top, 0);
  if (tops.length === 1) return rooted(below(tree, tops[0]), name, tree);
  const forest = new Forest(most), node = new Int32Array(tree.n), own = tree.own.map(() => new Float64Array(most));
  for (const top of tops) {
    for (let i = top; i < tree.end[top]; i++) {
      if (!tree.width[i]) continue;
      const to = node[i] = i > top ? forest.node(node[tree.parent[i]], tree.name[i]) : 0;
      for (let k = 0; k < own.length; k++) own[k][to] += tree.own[k][i];
    }
  }
  return rooted(finished(forest, own, tree.kind, tree.compared), name, tree);
}
