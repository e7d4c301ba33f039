/* The totals of each call, and the details of one. */

import { callText } from "../model/call_lanes.js";
import { duration, percent, whole } from "../model/words.js";
import { button, el } from "./elements.js";

const TITLES = ["Calls", "Errors", "Total", "Of the threads' time", "p50", "p99", "Longest"];

export class CallTable {
  /* told: {choose(name index)} */
  constructor(table, trace, told) {
    Object.assign(this, { table, trace, told, chosen: null });
    table.tHead.replaceChildren(el("tr", {}, el("th", { scope: "col", textContent: "Call" }), ...TITLES.map(title => el("th.number", { scope: "col", textContent: title }))));
    this.rows = trace.table.map((sums, i) => this.row(sums, i));
    table.tBodies[0].replaceChildren(...this.rows);
  }

  row([calls, errors, total, ...times], i) {
    const name = button(this.trace.names[i][0], () => this.told.choose(i), { title: "Show only this call", "aria-pressed": "false" });
    const numbers = [whole(calls), whole(errors), duration(total), percent(total / this.trace.thread_time), ...times.map(duration)];
    return el("tr", {}, el("td.name", {}, name), ...numbers.map(text => el("td.number", { textContent: text })));
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
  const { calls } = trace, facts = [["Thread", thread], ["At", duration(calls.begin[row])], ["Duration", duration(calls.took[row])]];
  return [el("h2.function", { textContent: trace.names[calls.name[row]][0] }),
    el("dl.shares", {}, ...facts.flatMap(([name, text]) => [el("dt", { textContent: name }), el("dd", { textContent: text })])),
    el("p.call", { textContent: callText(trace, row) })];
}
