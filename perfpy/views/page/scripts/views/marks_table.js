/* Marks as a table, with a button for each kind. */

import { countedKinds } from "../model/marks.js";
import { duration, whole } from "../model/words.js";
import { button, el, marked } from "./elements.js";

const SHOWN = 500;

export class MarksTable {
  /* told: {task(thread) -> text, pattern(), at(tick): show that moment, hide(kind)} */
  constructor(parts, told) { Object.assign(this, parts, { told, rows: [], hidden: new Set() }); }

  load(profile, all, rows) {
    Object.assign(this, { profile, rows });
    const { marks } = profile, counts = countedKinds(marks, all);
    this.kinds.replaceChildren(...marks.kinds.map((kind, i) => button(`${kind} ${whole(counts[i])}`, () => {
      if (!this.hidden.delete(i)) this.hidden.add(i);
      this.told.hide();
    }, { className: "chip", "aria-pressed": !this.hidden.has(i) })));
    this.table.tHead.replaceChildren(el("tr", {}, ...["Time", "Thread", "Kind", "Text"].map((title, i) => el(i ? "th" : "th.number", { scope: "col", textContent: title }))));
    this.table.tBodies[0].replaceChildren(...rows.slice(0, SHOWN).map(row => this.row(row)));
    const rest = rows.length - SHOWN;
    this.more.textContent = rest > 0 ? `${whole(rest)} more marks; select a shorter range, or search to narrow them down.` : rows.length ? "" : "No marks here.";
  }

  row(row) {
    const { marks, tick } = this.profile, pattern = this.told.pattern(), text = marks.texts[marks.text[row]];
    const at = button(duration(marks.time[row] * tick), () => this.told.at(marks.time[row]), { title: "Select the time around this mark" });
    return el("tr", {}, el("td.number", {}, at), el("td", {}, ...marked(this.told.task(marks.thread[row]), pattern)),
      el("td", {}, ...marked(marks.kinds[marks.kind[row]], pattern)), el("td.text", {}, ...marked(text, pattern)));
  }

  text() {
    const { marks, tick } = this.profile;
    const cells = row => [duration(marks.time[row] * tick), this.told.task(marks.thread[row]), marks.kinds[marks.kind[row]], marks.texts[marks.text[row]]];
    return this.rows.map(row => cells(row).join("\t")).join("\n") + "\n";
  }
}
