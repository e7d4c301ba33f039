/* The page of calls over time: joins lanes, table and details. */

import { matches, traceOf } from "./model/call_lanes.js";
import { token } from "./model/categories.js";
import { counted, duration, patternOf } from "./model/words.js";
import { CallLanesCanvas } from "./views/call_lanes_canvas.js";
import { CallTable, callDetails } from "./views/call_table.js";
import { el } from "./views/elements.js";

const $ = id => document.getElementById(id);

class LanePage {
  constructor(trace) {
    Object.assign(this, { trace, only: null, pattern: null, matching: null });
    const empty = $("details").firstElementChild;
    this.lanes = new CallLanesCanvas({ box: $("lanes"), room: $("room"), canvas: $("chart") }, trace, {
      dark: () => this.isDark(), matching: () => this.matching, say: text => { $("about").textContent = text; },
      choose: row => $("details").replaceChildren(...(row < 0 ? [empty] : callDetails(trace, row, this.lanes.thread(trace.calls.lane[row])))),
    });
    this.table = new CallTable($("calls"), trace, { choose: name => this.find(this.only === name ? null : name) });
    this.top();
    this.connect();
    this.theme();
    this.find(null);
  }

  isDark() { return document.documentElement.dataset.theme === "dark"; }

  theme() {
    const wanted = $("theme").value, dark = matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = wanted === "auto" ? (dark ? "dark" : "light") : wanted;
    const { names, groups } = this.trace, labels = groups.map(([label]) => label);
    if (names.some(([, group]) => group === groups.length)) labels.push("other");
    $("legend").replaceChildren(...labels.map((label, i) => el("span.entry", {}, this.sign(i), label)));
    this.lanes.draw();
  }

  sign(group) {
    const sign = el("span.sign");
    sign.style.background = token(this.trace.colours[group], this.isDark());
    return sign;
  }

  top() {
    const { trace } = this;
    $("title").textContent = trace.title;
    $("headline").textContent = trace.headline.map(part => typeof part === "number" ? duration(part) : part).join("");
    $("notes").replaceChildren(...trace.notes.map(text => el("li", { textContent: text })));
    $("notes").hidden = !trace.notes.length;
  }

  connect() {
    $("theme").onchange = () => this.theme();
    matchMedia("(prefers-color-scheme: dark)").onchange = () => this.theme();
    $("search").oninput = () => this.find(this.only);
    $("whole").onclick = () => this.lanes.key("Escape");
    $("closer").onclick = () => this.lanes.key("+");
    $("farther").onclick = () => this.lanes.key("-");
    document.addEventListener("keydown", event => {
      if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT)$/.test(event.target.tagName)) return;
      if (event.key === "/") $("search").focus(); else if (!this.lanes.key(event.key)) return;
      event.preventDefault();
    });
  }

  /* Stress the bars that the search finds; only: the index of a name, null for all. */
  find(only) {
    this.only = only;
    this.pattern = patternOf($("search").value);
    this.matching = matches(this.trace, this.pattern, only);
    let found = 0;
    if (this.matching) for (let row = 0; row < this.trace.calls.begin.length; row++) if (this.matching(row)) found++;
    $("selected").textContent = this.matching ? `${counted(found, this.trace.thing)} found` : "";
    this.table.mark(only, this.pattern);
    this.lanes.draw();
  }
}

async function begin() {
  new LanePage(await traceOf(JSON.parse($("data").textContent)));
  document.body.dataset.ready = "yes";
}

begin().catch(error => {
  $("headline").textContent = `This page cannot be shown: ${error.message}`;
  document.body.dataset.ready = "failed";
  throw error;
});
