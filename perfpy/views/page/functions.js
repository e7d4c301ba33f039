/* The table of functions: what each has itself, and with what it calls. */

import { byFunction } from "./trees.js";
import { percent, signed } from "./words.js";

const SHOWN = 300;
const TEXTS = ["name", "module"];
const COLUMNS = {
  one: [["self", "Self"], ["total", "Total"], ["name", "Function"], ["module", "Module"]],
  parts: [["on", "Self on CPU"], ["off", "Self off CPU"], ["total", "Total"], ["name", "Function"], ["module", "Module"]],
  changes: [["before", "Self before"], ["after", "Self after"], ["change", "Change"], ["total", "Total after"], ["name", "Function"], ["module", "Module"]],
};
const FIRST = { one: "self", parts: "total", changes: "change" };

/* A row for each function that the tree has. */
export function functionRows(tree, names) {
  const { self, total } = byFunction(tree, names.length), whole = tree.totals.reduce((a, b) => a + b, 0), rows = [];
  const part = (column, k, f) => tree.kind === "changes" ? (tree.totals[k] ? column[f] / tree.totals[k] : 0) : whole ? column[f] / whole : 0;
  for (let f = 0; f < names.length; f++) {
    if (!total.some(column => column[f])) continue;
    const own = self.map((column, k) => part(column, k, f)), all = total.map((column, k) => part(column, k, f));
    const row = { f, name: names[f][0], module: names[f][1] };
    if (tree.kind === "changes") Object.assign(row, { before: own[0], after: own[1], change: own[1] - own[0], total: all[1] });
    else if (tree.kind === "parts") Object.assign(row, { on: own[0], off: own[1], total: all[0] + all[1] });
    else Object.assign(row, { self: own[0], total: all[0] });
    rows.push(row);
  }
  return rows;
}

/* The rows in order: by a text from a to z, else those with most first; by what changed most in either way. */
export function sortedRows(rows, by) {
  if (TEXTS.includes(by)) return [...rows].sort((a, b) => a[by] < b[by] ? -1 : a[by] > b[by] ? 1 : 0);
  const size = by === "change" ? row => Math.abs(row[by]) : row => row[by];
  return [...rows].sort((a, b) => size(b) - size(a) || b.total - a.total);
}

export class FunctionTable {
  /* told: {short(f), choose(f), chosen() -> f or null, hits() -> by name or null, mark(f) -> why it has a star, or undefined} */
  constructor(table, more, told) {
    Object.assign(this, { table, more, told, rows: [], kind: "one", by: null });
  }

  load(tree, names) {
    if (tree.kind !== this.kind || !this.by) this.by = FIRST[tree.kind];
    this.kind = tree.kind;
    this.rows = functionRows(tree, names);
    this.draw();
  }

  draw() {
    const columns = COLUMNS[this.kind], hits = this.told.hits();
    this.table.tHead.replaceChildren(this.head(columns));
    const wanted = sortedRows(this.rows, this.by).filter(row => !hits || hits[row.f]);
    this.table.tBodies[0].replaceChildren(...wanted.slice(0, SHOWN).map(row => this.row(row, columns)));
    const rest = wanted.length - SHOWN;
    this.more.textContent = rest > 0 ? `${rest} more; search to narrow them down.` : wanted.length ? "" : "No function is left.";
  }

  head(columns) {
    const head = document.createElement("tr");
    for (const [key, title] of columns) {
      const cell = document.createElement("th"), button = document.createElement("button");
      cell.scope = "col";
      if (!TEXTS.includes(key)) cell.className = "number";
      cell.setAttribute("aria-sort", key !== this.by ? "none" : TEXTS.includes(key) ? "ascending" : "descending");
      button.type = "button";
      button.textContent = title;
      button.onclick = () => { this.by = key; this.draw(); };
      cell.append(button);
      head.append(cell);
    }
    return head;
  }

  row(row, columns) {
    const line = document.createElement("tr");
    if (this.told.chosen() === row.f) line.className = "chosen";
    for (const [key] of columns) {
      const cell = document.createElement("td");
      if (key === "name") {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = this.told.short(row.f);
        button.title = row.name;
        button.onclick = () => this.told.choose(row.f);
        cell.className = "name";
        cell.append(button);
      } else if (key === "module") cell.textContent = row.module;
      else {
        cell.className = "number";
        const mark = key === "change" ? this.told.mark(row.f) : undefined;
        cell.textContent = key === "change" ? (mark ? "* " : "") + signed(row.change) : percent(row[key]);
        if (mark) cell.title = mark;
      }
      line.append(cell);
    }
    return line;
  }
}
