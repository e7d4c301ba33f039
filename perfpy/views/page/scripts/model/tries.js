/* Other trees of the same stacks: grown from the innermost functions, and the callers and callees of one function. */

import { Forest, outermost, weighed } from "./trees.js";

/* Smaller shares of what is shown are not followed any further: they are narrower than a pixel. */
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
  const forest = new Forest(), { name, parent } = tree, own = weights.map(() => new Float64Array(1024));
  const node = Int32Array.from(start, i => withSelf ? i : parent[i]), to = new Int32Array(start.length), rows = Int32Array.from(start, (_, row) => row);
  const sum = Float64Array.from(start, (_, row) => weights.reduce((total, column) => total + column[row], 0));
  const least = LEAST * sum.reduce((a, b) => a + b, 0);
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

/* The functions that a function calls, level by level. */
export function callees(tree, name) {
  const forest = new Forest(), { end } = tree, tops = outermost(tree, name), whole = i => tree.sum.reduce((total, column) => total + column[i], 0);
  const least = LEAST * tops.reduce((total, top) => total + whole(top), 0), own = tree.own.map(() => new Float64Array(1024));
  const add = (columns, to, i) => columns.forEach((column, k) => { own[k] = grown(own[k], to); own[k][to] += column[i]; });
  let level = tops, to = tops.map(() => 0), reached = new Float64Array(1024);
  while (level.length) {
    const below = [], there = [];
    for (let row = 0; row < level.length; row++) {
      const i = level[row];
      add(tree.own, to[row], i);
      for (let k = i + 1; k < end[i]; k = end[k]) {
        if (!tree.width[k]) continue;
        const node = forest.node(to[row], tree.name[k]);
        reached = grown(reached, node);
        reached[node] += whole(k);
        below.push(k);
        there.push(node);
      }
    }
    level = [];
    to = [];
    for (let row = 0; row < below.length; row++) {
      if (reached[there[row]] >= least) { level.push(below[row]); to.push(there[row]); } else add(tree.sum, there[row], below[row]);
    }
  }
  return rooted(finished(forest, own, tree.kind, tree.compared), name, tree);
}
