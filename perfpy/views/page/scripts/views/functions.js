/* The table of functions: the shares of each itself, and with what it calls, and its hottest caller. */

import { byFunction, hottestCallers, withInlined } from "../model/function_sums.js";
import { chanceOf } from "../model/trees.js";
import { amount, percent, points, sidesOf, whole } from "../model/words.js";
import { COMMAND, WAITING, token } from "../model/categories.js";
import { breakable, button, el, marked } from "./elements.js";

const SHOWN = 300, ROW = 24, RESTED = 150; /* rows, px, ms */
/* Of a function's samples: callers of fewer are not named, those of more without their share, as on the terminal. */
const RARE_CALLER = 0.1, MOST_CALLS = 0.5;
const callerText = (row, told) => row.callerName ? told.short(row.caller) + (row.callerShare < MOST_CALLS ? ` (${percent(row.callerShare)})` : "") : "";
const TEXTS = ["name", "module", "callerName"];
const TAIL = [["name", "Function"], ["callerName", "Called from"], ["module", "Module"]];
const COLUMNS = {
  one: [["self", "Self"], ["standing", "With inlined code"], ["charged", "With libraries"], ["total", "Total"], ...TAIL],
  parts: [["on", "Self on CPU"], ["standing", "With inlined code"], ["charged", "With libraries"], ["total", "Total on CPU"],
    ["off", "Self waiting"], ["waits", "Total waiting"], ...TAIL],
  changes: [["before", "Self before"], ["after", "Self after"], ["change", "Points of self"], ["chargedBefore", "With libraries before"], ["chargedAfter", "With libraries after"],
    ["chargedChange", "Points with libraries"], ["totalBefore", "Total before"], ["total", "Total after"], ...TAIL],
};
const FIRST = { one: "self", parts: "on", changes: "change" };
/* of a column that is clicked again: the other end first; of changes, first by size, what has more of B first, or what has less */
const NEXT = { "": "-", "-": "" }, NEXT_CHANGE = { "": "+", "+": "-", "-": "+" };
const isChange = key => key === "change" || key === "chargedChange";
const ABOUT = { standing: "Samples of the function itself, and of the code that is inlined into it, as in Code",
  charged: "Samples of the function itself, and of the library and kernel code that it calls: the share that the headline names" };

/* A row for each function that the tree has. Shares are of their column: time on the CPU and waits have totals of their own.
   charged: weights by name for each column (chargedWeights), or null; inlined: the functions that are inlined into others. */
export function functionRows(tree, names, charged = null, charges = "", inlined = []) {
  const { self, total } = byFunction(tree, names), rows = [];
  const callers = hottestCallers(tree, names, charges), standing = withInlined(tree, names, inlined)[0];
  const part = (column, k, f) => tree.totals[k] ? column[f] / tree.totals[k] : 0;
  for (let f = 0; f < names.length; f++) {
    if (!total.some(column => column[f])) continue;
    const own = self.map((column, k) => part(column, k, f)), all = total.map((column, k) => part(column, k, f));
    const caller = callers.best[f], isNamed = caller >= 0 && names[caller][2] !== COMMAND && callers.share[f] >= RARE_CALLER;
    const row = { f, name: names[f][0], module: names[f][1], caller, callerName: isNamed ? names[caller][0] : "", callerShare: callers.share[f] };
    if (tree.kind === "changes") {
      const isNoise = shares => !!tree.compared && Math.abs(shares[1] - shares[0]) <= chanceOf(shares, tree.compared), [a, b] = own;
      const withLibraries = charged ? charged.map((column, k) => part(column, k, f)) : [0, 0], [chargedBefore, chargedAfter] = withLibraries;
      Object.assign(row, { before: a, after: b, change: b - a, chargedBefore, chargedAfter, chargedChange: chargedAfter - chargedBefore, totalBefore: all[0], total: all[1],
        noise: { change: isNoise(own), chargedChange: isNoise(withLibraries) }, weights: self.map(column => column[f]) });
    }
    else if (tree.kind === "parts") Object.assign(row, { on: own[0], off: own[1], self: own[0], total: all[0], waits: all[1] });
    else Object.assign(row, { self: own[0], total: all[0] });
    if (tree.kind !== "changes") Object.assign(row, { charged: charged ? part(charged[0], 0, f) : 0, standing: part(standing, 0, f) });
    rows.push(row);
  }
  return rows;
}

/* The rows in order: by a text from a to z, else those with most first; by what changed most in either way. order: "-" for the other end first, "+" of
   changes for what has more of the second side first, and "-" what has less. */
export function sortedRows(rows, by, order = "") {
  if (isChange(by) && order) return [...rows].sort((a, b) => (order === "+" ? b[by] - a[by] : a[by] - b[by]) || b.total - a.total);
  if (order) return sortedRows(rows, by).reverse();
  if (TEXTS.includes(by)) return [...rows].sort((a, b) => a[by] < b[by] ? -1 : a[by] > b[by] ? 1 : 0);
  const size = isChange(by) ? row => Math.abs(row[by]) : row => row[by];
  return [...rows].sort((a, b) => size(b) - size(a) || b.total - a.total);
}

export class FunctionTable {
  /* told: {short(f), choose(f), chosen() -> f or null, unit(), hits() -> by name or null, pattern(), inlined() -> their numbers,
     mark(f) -> why it has a star, or undefined, dark(), sorted(column)} */
  constructor(table, more, told) {
    Object.assign(this, { table, more, told, rows: [], kind: "one", by: null, order: "" });
    table.addEventListener("keydown", event => this.key(event));
  }

  load(tree, names, charged = null, charges = "", sort = null, moving = false) {
    if (tree.kind !== this.kind || !this.by) Object.assign(this, { by: FIRST[tree.kind], order: "" });
    const [, order, by] = /^([+-]?)(\w+)$/.exec(sort || "") || [];
    if (COLUMNS[tree.kind].some(([key]) => key === by)) Object.assign(this, { by, order });
    Object.assign(this, { kind: tree.kind, sides: sidesOf(tree), hasOwn: /[12]/.test(charges) });
    this.names = names;
    this.rows = functionRows(tree, names, charged, charges, this.told.inlined());
    this.draw(moving);
  }

  /* Sort by a column, or by the first one if the table does not have it. */
  sortBy(column) {
    Object.assign(this, { by: COLUMNS[this.kind].some(([key]) => key === column) ? column : FIRST[this.kind], order: "" });
    this.draw();
    this.told.sorted(this.by);
  }

  /* Sort by a column, whose share a sentence has, and choose the function of a name with most there. */
  find(name, column, choose) {
    const size = row => Math.abs(row[column] || 0);
    const [row] = this.rows.filter(one => one.name === name).sort((a, b) => size(b) - size(a));
    if (!row) return;
    const isWhole = column === "charged" && row.standing > row.charged && this.told.inlined().length; /* code of others in it counts in the headline */
    this.sortBy(isWhole ? "standing" : row[column] ? column : "self");
    choose(row.f);
    this.focusChosen();
  }

  wanted() {
    const hits = this.told.hits();
    const isShown = row => this.names[row.f][2] !== COMMAND || row.self > 0 || row.off > 0 || row.before || row.after || hits;
    return sortedRows(this.rows, this.by, this.order).filter(row => (!hits || hits[row.f]) && isShown(row));
  }

  /* The rows that a window holds come at once, those below when the page has rested; moving: while a range is dragged. */
  draw(moving = false) {
    const columns = this.titled(), wanted = this.wanted(), few = Math.ceil(window.innerHeight / ROW);
    clearTimeout(this.pending);
    this.complete = () => {
      clearTimeout(this.pending);
      this.table.tBodies[0].append(...wanted.slice(this.table.tBodies[0].rows.length, SHOWN).map(row => this.row(row, columns)));
    };
    this.table.tHead.replaceChildren(this.head(columns));
    this.table.tBodies[0].replaceChildren(...wanted.slice(0, few).map(row => this.row(row, columns)));
    if (!moving && wanted.length > few) this.pending = setTimeout(() => this.complete(), RESTED);
    const rest = wanted.length - SHOWN;
    const none = wanted.length ? "" : "No function has samples here. Remove a filter, or select a longer range.";
    this.more.textContent = rest > 0 ? `${whole(rest)} more functions; search to narrow them down.` : none;
  }

  /* The columns, with the names of what is compared. */
  titled() {
    const columns = COLUMNS[this.kind].filter(([key]) => key !== "standing" || this.told.inlined().length);
    const named = (key, title) => key === "callerName" && this.hasOwn ? `${title} own code` : title.replace("before", this.sides[0]).replace("after", this.sides[1]);
    return columns.map(([key, title]) => [key, named(key, title)]);
  }

  direction() {
    if (isChange(this.by)) return { "": "other", "+": "descending", "-": "ascending" }[this.order];
    return TEXTS.includes(this.by) === (this.order === "-") ? "descending" : "ascending";
  }

  clicked(key) {
    this.order = key === this.by ? (isChange(key) ? NEXT_CHANGE : NEXT)[this.order] ?? "" : "";
    this.by = key;
    this.draw();
    this.told.sorted(this.order + key);
  }

  head(columns) {
    const head = el("tr");
    for (const [key, title] of columns) {
      const cell = el("th", { scope: "col", title: ABOUT[key] || "", "aria-sort": key === this.by ? this.direction() : "none" });
      cell.className = TEXTS.includes(key) ? key : `number ${key}`;
      cell.append(button(title, () => this.clicked(key)));
      head.append(cell);
    }
    return head;
  }

  row(row, columns) {
    const line = el("tr"), { told } = this;
    line.dataset.f = row.f;
    if (told.chosen() === row.f) line.className = "chosen";
    line.onclick = () => told.choose(row.f);
    for (const [key] of columns) line.append(this.cell(row, key));
    return line;
  }

  cell(row, key) {
    const { told } = this;
    if (key === "name") {
      const sign = el("span.sign"), choose = button("", () => told.choose(row.f), { title: row.name });
      sign.style.background = token(Math.min(COMMAND, this.names[row.f][2] ?? WAITING), told.dark());
      choose.append(...breakable(marked(told.short(row.f), told.pattern())));
      return el("td.name", {}, sign, choose);
    }
    if (key === "callerName") return el("td.callerName", { title: row.callerName }, ...breakable([callerText(row, told)]));
    if (key === "module") return el("td.module", { title: row.module }, ...marked(row.module, told.pattern()));
    const mark = key === "change" ? told.mark(row.f) : undefined, cell = el("td", { className: `number ${key}` });
    const isCharged = !key.startsWith("charged") || row.charged || row.chargedBefore || row.chargedAfter;
    cell.textContent = !isCharged || key === "standing" && !row.standing ? "" : isChange(key) ? (mark ? "* " : "") + points(row[key]) : percent(row[key]);
    if (key === "before" || key === "after") cell.title = amount(row.weights[key === "after" ? 1 : 0], told.unit());
    if (mark) cell.title = mark;
    if (isChange(key) && row.noise[key] && !mark) { cell.classList.add("noise"); cell.title = "The numbers of samples allow for a change by chance"; }
    if (key === "self" || key === "on") cell.style.setProperty("--part", `${100 * row[key]}%`);
    return cell;
  }

  /* Up and down go from function to function. */
  key(event) {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key], line = event.target.closest("tbody tr");
    if (!step || !line) return;
    const next = step > 0 ? line.nextElementSibling : line.previousElementSibling;
    if (next) { next.querySelector("button").focus(); next.click(); this.focusChosen(); }
    event.preventDefault();
  }

  /* Mark the row of the chosen function. */
  showChosen() { for (const line of this.table.tBodies[0].rows) line.className = line.dataset.f === String(this.told.chosen()) ? "chosen" : ""; }

  focusChosen() {
    this.complete();
    const line = this.table.querySelector("tr.chosen button");
    if (line) line.focus();
  }

  /* The table as text, its columns in line. */
  text() {
    const columns = this.titled().filter(([key]) => key !== "callerName");
    const cells = row => columns.map(([key]) => TEXTS.includes(key) ? row[key] : isChange(key) ? points(row[key]) : percent(row[key]));
    const lines = [columns.map(([, title]) => title), ...this.wanted().slice(0, SHOWN).map(cells)];
    return lines.map(line => line.map((cell, i) => TEXTS.includes(columns[i][0]) ? cell : cell.padStart(12)).join("  ")).join("\n") + "\n";
  }

  /* All rows as CSV, shares in percent. A spreadsheet would take what begins with some signs for a formula. */
  csv() {
    const columns = this.titled(), isText = key => TEXTS.includes(key), quoted = text => `"${text.replace(/^[=+\-@\t\r]/, "'$&").replaceAll('"', '""')}"`;
    const head = columns.map(([key, title]) => quoted(isText(key) || isChange(key) ? title : `${title} (%)`));
    const cells = row => columns.map(([key]) => isText(key) ? quoted(row[key]) : (100 * row[key]).toFixed(4));
    return [head, ...this.wanted().map(cells)].map(line => `${line.join(",")}\r\n`).join("");
  }
}
