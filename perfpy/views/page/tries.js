/* Other trees of the same stacks: grown from the innermost functions, and what calls and is called by one function. */

import { shape, weighed } from "./trees.js";

/* Smaller shares are not followed any further: nobody can see them. */
const LEAST = 1 / 20000;

/* A tree that grows by name; its nodes are in order only once it is finished. */
class Trie {
  constructor(names, columns) {
    this.names = names;
    this.child = new Map();
    this.name = [-1];
    this.parent = [-1];
    this.own = Array.from({ length: columns }, () => [0]);
  }

  node(parent, name) {
    const key = parent * this.names + name;
    let found = this.child.get(key);
    if (found === undefined) {
      found = this.name.length;
      this.child.set(key, found);
      this.name.push(name);
      this.parent.push(parent);
      for (const column of this.own) column.push(0);
    }
    return found;
  }

  finished(kind) {
    const kids = this.name.map(() => []);
    for (let i = 1; i < this.name.length; i++) kids[this.parent[i]].push(i);
    const order = [0], depth = [], stack = [];
    const push = (node, level) => {
      for (const kid of kids[node].sort((a, b) => this.name[b] - this.name[a])) stack.push(kid, level);
    };
    push(0, 0);
    while (stack.length) {
      const level = stack.pop(), node = stack.pop();
      order.push(node);
      depth.push(level);
      push(node, level + 1);
    }
    const name = order.slice(1).map(i => this.name[i]);
    return weighed(shape(name, depth), this.own.map(column => Float64Array.from(order, i => column[i])), kind);
  }
}

/* Grow the stacks from some nodes towards the root; start: those nodes, weights: what of each column each has. */
function upwards(tree, names, start, weights, withSelf) {
  const trie = new Trie(names, weights.length), whole = tree.totals.reduce((a, b) => a + b, 0) || 1;
  const node = Int32Array.from(start, i => withSelf ? i : tree.parent[i]), to = new Int32Array(start.length);
  const sum = Float64Array.from(start, (_, row) => weights.reduce((total, column) => total + column[row], 0));
  const end = row => weights.forEach((column, k) => { trie.own[k][to[row]] += column[row]; });
  let rows = Int32Array.from(start, (_, row) => row);
  while (rows.length) {
    const reached = [];
    rows = rows.filter(row => {
      const i = node[row];
      if (i <= 0) { end(row); return false; }
      const there = to[row] = trie.node(to[row], tree.name[i]);
      reached[there] = (reached[there] || 0) + sum[row];
      node[row] = tree.parent[i];
      return true;
    });
    rows = rows.filter(row => {
      if (reached[to[row]] / whole >= LEAST) return true;
      end(row);
      return false;
    });
  }
  return trie.finished(tree.kind);
}

/* All stacks, the innermost function first. */
export function inverted(tree, names) {
  const start = [];
  for (let i = 1; i < tree.n; i++) if (tree.own.some(column => column[i])) start.push(i);
  return upwards(tree, names, start, tree.own.map(column => start.map(i => column[i])), true);
}

/* The nodes of a function that have no other one of it above them. */
function outermost(tree, name) {
  const found = [];
  for (let i = 1; i < tree.n;) {
    if (tree.name[i] !== name) { i++; continue; }
    if (tree.width[i]) found.push(i);
    i = tree.end[i];
  }
  return found;
}

/* The root of a tree is this function: it has its colour, and a search finds it. */
function rooted(tree, name) {
  tree.name[0] = name;
  return tree;
}

/* Who calls a function: the nearest callers first. Totals are the function's. */
export function callers(tree, names, name) {
  const start = outermost(tree, name);
  return rooted(upwards(tree, names, start, tree.sum.map(column => start.map(i => column[i])), false), name);
}

/* What a function calls. */
export function callees(tree, names, name) {
  const trie = new Trie(names, tree.own.length), node = new Int32Array(tree.n);
  for (const top of outermost(tree, name)) {
    node[top] = 0;
    for (let i = top; i < tree.end[top]; i++) {
      if (!tree.width[i]) continue;
      if (i > top) node[i] = trie.node(node[tree.parent[i]], tree.name[i]);
      tree.own.forEach((column, k) => { trie.own[k][node[i]] += column[i]; });
    }
  }
  return rooted(trie.finished(tree.kind), name);
}
