/* The page of calls over time: joins lanes, table and details. */

import { matches, traceOf } from "./model/call_lanes.js";
import { token } from "./model/categories.js";
import { LANE_FIELDS, fragmentOf, putAddress, stateOf } from "./model/permalink.js";
import { counted, duration, patternOf } from "./model/words.js";
import { CallLanesCanvas } from "./views/call_lanes_canvas.js";
import { CallTable, callDetails } from "./views/call_table.js";
import { el, isDark, stateSign, useTheme } from "./views/elements.js";
import { sayCopied, showKeys } from "./views/headline.js";

const $ = id => document.getElementById(id);
const SECOND = 1e9;
const KEYS = [
  ["/", "search; pales the bars that it does not find"], ["left, right", "earlier, later"], ["up, down", "other lanes"], ["+ -", "zoom in, zoom out"],
  ["Escape", "show all of the time"], ["Ctrl or Shift and wheel", "zoom at the pointer"], ["c", "copy the table as text"], ["?", "this list"],
];

class LanePage {
  constructor(trace) {
    Object.assign(this, { trace, only: null, pattern: null, matching: null, wanted: "auto", isReading: true });
    const empty = $("details").firstElementChild;
    this.lanes = new CallLanesCanvas({ box: $("lanes"), room: $("room"), canvas: $("chart") }, trace, {
      dark: isDark, matching: () => this.matching, say: text => { $("about").textContent = text; }, moved: () => this.keepAddress(),
      choose: row => {
        $("details").replaceChildren(...(row < 0 ? [empty] : callDetails(trace, row, this.lanes.thread(trace.calls.lane[row]))));
        this.keepAddress();
      },
    });
    this.table = new CallTable($("calls"), trace, { choose: name => this.find(this.only === name ? null : name) });
    this.top();
    this.connect();
    this.readAddress();
  }

  theme(wanted) {
    this.wanted = wanted;
    useTheme(wanted);
    const { names, groups } = this.trace, labels = groups.map(([label]) => label);
    if (names.some(([, group]) => group === groups.length)) labels.push("other");
    $("legend").replaceChildren(...labels.map((label, i) => el("span.entry", {}, this.sign(i), label)));
    this.lanes.draw();
    this.keepAddress();
  }

  sign(group) {
    const colour = this.trace.colours[group], sign = typeof colour === "string" ? stateSign(colour) : el("span.sign");
    if (typeof colour === "number") sign.style.background = token(colour, isDark());
    return sign;
  }

  top() {
    const { trace } = this;
    document.title = $("title").textContent = trace.title;
    $("headline").textContent = trace.headline.map(part => typeof part === "number" ? duration(part) : part).join("");
    $("notes").replaceChildren(...trace.notes.map(text => el("li", { textContent: text })));
    $("notes").hidden = !trace.notes.length;
    showKeys(KEYS);
  }

  connect() {
    $("theme").onchange = () => this.theme($("theme").value);
    matchMedia("(prefers-color-scheme: dark)").onchange = () => this.theme(this.wanted);
    $("search").oninput = () => this.find(this.only);
    $("whole").onclick = () => this.lanes.key("Escape");
    $("closer").onclick = () => this.lanes.key("+");
    $("farther").onclick = () => this.lanes.key("-");
    $("copy").onclick = () => this.copy();
    $("link").onclick = () => sayCopied(location.href, "Copied the address of this view");
    window.onhashchange = () => this.readAddress();
    document.addEventListener("keydown", event => {
      if (event.ctrlKey || event.metaKey || event.altKey || $("dialog").open || /^(INPUT|SELECT)$/.test(event.target.tagName)) return;
      if (event.key === "/") $("search").focus();
      else if (event.key === "c") this.copy();
      else if (event.key === "?") $("dialog").showModal();
      else if (!this.lanes.key(event.key)) return;
      event.preventDefault();
    });
  }

  copy() {
    const text = this.table.text();
    sayCopied(text, `Copied the table, ${counted(text.split("\n").length - 1, "line")}`);
  }

  /* What is in view, in the address: times in seconds. */
  keepAddress() {
    if (this.isReading) return;
    const { shown, all, chosen } = this.lanes, isAll = shown[0] === all[0] && shown[1] === all[1], range = isAll ? null : shown.map(time => time / SECOND);
    putAddress(fragmentOf({ shown: range, find: $("search").value, only: this.only, chosen: chosen < 0 ? null : chosen, theme: this.wanted }, LANE_FIELDS));
  }

  /* Show what an address says, as far as this page has it. */
  readAddress() {
    const { shown, find, only, chosen, theme } = stateOf(location.hash, LANE_FIELDS), { trace, lanes } = this;
    const within = (value, n) => Number.isInteger(value) && value >= 0 && value < n ? value : null;
    this.isReading = true;
    $("search").value = find;
    lanes.show(shown ? shown.map(time => time * SECOND) : lanes.all);
    lanes.choose(within(chosen, trace.calls.begin.length) ?? -1);
    this.find(within(only, trace.table.rows.length));
    this.theme(theme);
    this.isReading = false;
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
    this.keepAddress();
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
