/* The totals of each call, and the details of one. */

import { callText } from "../model/call_lanes.js";
import { duration, percent, whole } from "../model/words.js";
import { button, el } from "./elements.js";

const FORMATS = { whole, duration, percent };

export class CallTable {
  /* told: {choose(name index)} */
  constructor(table, trace, told) {
    Object.assign(this, { table, trace, told, chosen: null });
    const heads = trace.table.columns.map(([title]) => el("th.number", { scope: "col", role: "columnheader", textContent: title }));
    table.tHead.replaceChildren(el("tr", { role: "row" }, el("th", { scope: "col", role: "columnheader", textContent: trace.table.head }), ...heads));
    this.rows = trace.table.rows.map((values, i) => this.row(values, i));
    table.tBodies[0].replaceChildren(...this.rows);
  }

  row(values, i) {
    const name = button(this.trace.names[i][0], () => this.told.choose(i), { title: `Show only the ${this.trace.thing}s of this name`, "aria-pressed": "false" });
    const texts = values.map((value, column) => FORMATS[this.trace.table.columns[column][1]](value));
    const titled = (text, column) => el("td.number", { role: "cell", textContent: text, "data-title": this.trace.table.columns[column][0] });
    return el("tr", { role: "row" }, el("td.name", { role: "cell" }, name), ...texts.map(titled));
  }

  /* The rows in view as text, columns in line. */
  text() {
    const lines = [this.table.tHead.rows[0], ...this.rows.filter(row => !row.hidden)].map(row => Array.from(row.cells, cell => cell.textContent));
    const widths = lines[0].map((_, column) => Math.max(...lines.map(line => line[column].length)));
    return lines.map(line => line.map((text, column) => column ? text.padStart(widths[column]) : text.padEnd(widths[0])).join("  ")).join("\n") + "\n";
  }

  /* Mark the row of a call, null for none; hide the rows that a pattern does not match. */
  mark(chosen, pattern) {
    this.rows.forEach((row, i) => {
      row.querySelector("button").setAttribute("aria-pressed", String(i === chosen));
      row.className = i === chosen ? "chosen" : "";
      row.hidden = !!pattern && !pattern.test(this.trace.names[i][0]) && i !== chosen;
    });
  }
}

/* The details of a call as elements. thread: the text of its lane. */
export function callDetails(trace, row, thread) {
  const { calls } = trace, facts = [["Lane", thread], ["At", duration(calls.begin[row])], ["Duration", duration(calls.took[row])]];
  return [el("h2.function", { textContent: trace.names[calls.name[row]][0] }),
    el("dl.shares", {}, ...facts.flatMap(([name, text]) => [el("dt", { textContent: name }), el("dd", { textContent: text })])),
    el("p.call", { textContent: callText(trace, row) })];
}
