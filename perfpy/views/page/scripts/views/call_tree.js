/* Call trees with rows that open: from the root inwards, or from each function outwards to its callers. */

import { COMMAND, token } from "../model/categories.js";
import { childrenOf } from "../model/trees.js";
import { percent, points, sidesOf } from "../model/words.js";
import { button, el, marked } from "./elements.js";

const LEAST = 0.001, MOST = 100, PASSES_THROUGH = 0.95, INDENT = 14, DEEPEST = 24;

/* The rows below a row, from callers inwards. A row is {name, node, sum: of each column, own: of each column, size}. first: of time on the CPU and
   off it the column by which rows are ordered: threads that sleep have most of both. */
export function inwards(tree, row, first = 0) {
  const node = row ? row.node : 0, rows = childrenOf(tree, node).map(i => (
    { name: tree.name[i], node: i, sum: tree.sum.map(column => column[i]), own: tree.own.map(column => column[i]), size: tree.width[i] }));
  return ordered(rows, tree, first);
}

/* The rows below a row, from functions outwards. A row is {name, sum, own, size, hasCallers, starts: its nodes as [the node that has come so far,
   the node where its weight is], which those of the outermost level find when they are opened}. */
export function outwards(tree, row, first = 0) {
  const { scale } = tree;
  if (!row) return ordered(functionsOf(tree, scale), tree, first);
  const found = new Map();
  for (const [before, leaf] of row.starts || endsOf(tree, row.name)) {
    const at = tree.parent[before], name = tree.name[at];
    if (at <= 0) continue;
    if (!found.has(name)) found.set(name, { name, starts: [], sum: tree.own.map(() => 0), own: tree.own.map(() => 0), size: 0, hasCallers: false });
    const entry = found.get(name);
    entry.starts.push([at, leaf]);
    entry.hasCallers ||= tree.parent[at] > 0;
    tree.own.forEach((column, k) => { entry.sum[k] += column[leaf]; entry.size += column[leaf] * scale[k]; });
  }
  return ordered([...found.values()], tree, first);
}

/* The functions that samples end in. */
function functionsOf(tree, scale) {
  const { name, parent, own } = tree, names = name.reduce((a, b) => Math.max(a, b), -1) + 1, hasCallers = new Uint8Array(names);
  const sums = own.map(column => {
    const sum = new Float64Array(names);
    for (let i = 1; i < tree.n; i++) if (column[i]) { sum[name[i]] += column[i]; if (parent[i] > 0) hasCallers[name[i]] = 1; }
    return sum;
  });
  return Array.from(hasCallers, (has, f) => {
    const sum = sums.map(column => column[f]);
    return { name: f, sum, own: sum, size: sum.reduce((size, one, k) => size + one * scale[k], 0), hasCallers: has > 0 };
  });
}

/* The nodes of a function that samples end at, as starts of outwards(). */
function endsOf(tree, f) {
  const found = [];
  for (let i = 1; i < tree.n; i++) if (tree.name[i] === f && tree.own.some(column => column[i])) found.push([i, i]);
  return found;
}

/* The weight that decides which path is the hottest one. */
const rankOf = (row, tree, first) => tree.kind === "parts" ? row.sum[first] : row.size;
const ordered = (rows, tree, first) => rows.sort((a, b) => rankOf(b, tree, first) - rankOf(a, tree, first) || b.size - a.size).filter(row => row.size >= LEAST).slice(0, MOST);

export class CallTree {
  /* told: {short(f), choose(f), chosen(), hits(), pattern(), dark(), opened(text)?, first()?: see inwards()}; below: inwards or outwards */
  constructor(table, told, below) {
    Object.assign(this, { table, told, below, tree: null, rows: [], open: new Set(), cursor: 0 });
    table.tBodies[0].addEventListener("keydown", event => this.key(event));
  }

  load(tree, names) {
    Object.assign(this, { tree, names });
    this.rows = this.rowsBelow(null).map(row => this.placed(row, 0, ""));
    const first = !this.rows.some(row => this.open.has(row.path));
    for (let i = 0; i < this.rows.length && this.rows.length < 2000; i++) {
      const row = this.rows[i];
      if (row.isOpen) continue;
      if (this.open.has(row.path) || (first && this.below === inwards && i === 0)) this.expand(i, first, !this.isRestored);
    }
    this.isRestored = false;
    this.cursor = Math.min(this.cursor, Math.max(0, this.rows.length - 1));
    this.draw();
  }

  rowsBelow(row) { return this.below(this.tree, row, this.first); }

  rank(row) { return rankOf(row, this.tree, this.first); }

  get first() { return this.told.first && this.tree.kind === "parts" && this.tree.totals[this.told.first()] ? this.told.first() : 0; }

  placed(row, level, path) { return { ...row, level, path: `${path}/${row.name}`, isOpen: false }; }

  /* Open the rows that the text of an address names, in place of the hottest ones. */
  restore(text) {
    this.open = new Set(text.split(",").filter(Boolean));
    this.isRestored = this.open.size > 0;
  }

  keep() { if (this.told.opened) this.told.opened([...this.open].join(",")); }

  /* Open a row, and what only passes through: rows with one child of nearly all its weight. */
  expand(i, hottest = false, passes = true) {
    const row = this.rows[i];
    row.isOpen = true;
    this.open.add(row.path);
    const children = this.rowsBelow(row).map(child => this.placed(child, row.level + 1, row.path));
    this.rows.splice(i + 1, 0, ...children);
    if (passes && children.length && this.rank(children[0]) >= (hottest ? 0.5 : PASSES_THROUGH) * this.rank(row) && row.level < 60) this.expand(i + 1, hottest);
  }

  fold(i) {
    const row = this.rows[i];
    let end = i + 1;
    while (end < this.rows.length && this.rows[end].level > row.level) end++;
    for (const one of this.rows.splice(i + 1, end - i - 1)) this.open.delete(one.path);
    row.isOpen = false;
    this.open.delete(row.path);
  }

  hasRowsBelow(row) { return row.node !== undefined ? childrenOf(this.tree, row.node).length > 0 : row.hasCallers; }

  toggle(i) {
    if (this.rows[i].isOpen) this.fold(i); else if (this.hasRowsBelow(this.rows[i])) this.expand(i);
    this.cursor = i;
    this.keep();
    this.draw();
  }

  parts(row, values) {
    return values.map((value, k) => this.tree.totals[k] ? value / this.tree.totals[k] : 0);
  }

  titles() {
    if (this.tree.kind === "changes") return [...sidesOf(this.tree).map(side => side[0].toUpperCase() + side.slice(1)), "Points"];
    const shares = this.below === inwards ? ["Total", "Self"] : ["Share"];
    return this.tree.kind === "parts" ? [...shares, "Waiting"] : shares;
  }

  numbers(row) {
    const sums = this.parts(row, row.sum);
    if (this.tree.kind === "changes") return [percent(sums[0]), percent(sums[1]), points(sums[1] - sums[0])];
    const [on, off] = sums, shares = this.below === inwards ? [on, this.parts(row, row.own)[0]] : [on];
    return (this.tree.kind === "parts" ? [...shares, off] : shares).map(percent);
  }

  draw() {
    if (!this.tree) return;
    const numbers = this.titles().map(title => el("th.number", { scope: "col", textContent: title }));
    const name = el("th.name", { scope: "col", textContent: this.below === inwards ? "Function" : "Function, then its callers" });
    this.table.tHead.replaceChildren(el("tr", { role: "row" }, ...numbers, name));
    this.table.tBodies[0].replaceChildren(...this.rows.map((row, i) => this.line(row, i)));
    if (!this.rows.length) this.table.tBodies[0].append(el("tr", {}, el("td.name", { colSpan: 4, textContent: "No samples here. Remove a filter, or select a longer range." })));
  }

  line(row, i) {
    const { told } = this, hits = told.hits(), found = hits && hits[row.name], opens = this.hasRowsBelow(row);
    const line = el("tr", { role: "row", "aria-level": row.level + 1, tabIndex: i === this.cursor ? 0 : -1 });
    if (opens) line.setAttribute("aria-expanded", String(row.isOpen));
    line.className = `${told.chosen() === row.name ? "chosen" : ""} ${hits && !found ? "faint" : ""}`;
    const opener = el("span.opener", { textContent: opens ? (row.isOpen ? "\u25be" : "\u25b8") : "", "aria-hidden": true }), sign = el("span.sign");
    opener.onclick = event => { event.stopPropagation(); this.toggle(i); this.focus(); };
    sign.style.background = token(Math.min(COMMAND, this.names[row.name][2]), told.dark());
    const label = el("span.label", { title: this.names[row.name].slice(0, 2).join("  ") }, ...marked(told.short(row.name), told.pattern()));
    const depth = row.level > DEEPEST ? [el("span.depth", { textContent: row.level, title: "depth" })] : [];
    const name = el("td.name", { role: "gridcell" }, opener, ...depth, sign, label, el("span.module", { textContent: this.names[row.name][1] }));
    name.style.paddingInlineStart = `${8 + INDENT * Math.min(row.level, DEEPEST)}px`;
    const numbers = this.numbers(row).map(text => el("td.number", { role: "gridcell", textContent: text }));
    numbers[0].style.setProperty("--part", `${100 * Math.min(1, this.tree.kind === "parts" ? this.parts(row, row.sum)[0] : row.size)}%`);
    line.append(...numbers, name);
    line.onclick = () => { this.cursor = i; told.choose(row.name); this.draw(); this.focus(); };
    line.ondblclick = () => this.toggle(i);
    return line;
  }

  /* Mark the rows of the chosen function. */
  showChosen() { [...this.table.tBodies[0].rows].forEach((line, i) => line.classList.toggle("chosen", !!this.rows[i] && this.told.chosen() === this.rows[i].name)); }

  focus() {
    const line = this.table.tBodies[0].rows[this.cursor];
    if (line) line.focus();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.rows.length) return;
    const i = this.cursor, row = this.rows[i];
    if (event.key === "ArrowDown") this.cursor = Math.min(this.rows.length - 1, i + 1);
    else if (event.key === "ArrowUp") this.cursor = Math.max(0, i - 1);
    else if (event.key === "Home") this.cursor = 0;
    else if (event.key === "End") this.cursor = this.rows.length - 1;
    else if (event.key === "ArrowRight") { if (row.isOpen) this.cursor = Math.min(this.rows.length - 1, i + 1); else if (this.hasRowsBelow(row)) this.expand(i); }
    else if (event.key === "ArrowLeft") { if (row.isOpen) this.fold(i); else while (this.cursor > 0 && this.rows[this.cursor].level >= row.level && row.level) this.cursor--; }
    else if (event.key === "*") { if (!row.isOpen && this.hasRowsBelow(row)) this.expand(i, true); }
    else if (event.key === "Enter" || event.key === " ") this.toggle(i);
    else return;
    event.preventDefault();
    event.stopPropagation();
    this.keep();
    this.told.choose(this.rows[this.cursor].name);
    this.draw();
    this.focus();
  }

  /* The open rows as text, indented. */
  text() {
    const lines = this.rows.map(row => `${this.numbers(row).map(text => text.padStart(9)).join(" ")}  ${"  ".repeat(row.level)}${this.names[row.name][0]}`);
    return `${this.titles().map(title => title.padStart(9)).join(" ")}  Function\n${lines.join("\n")}\n`;
  }

}
