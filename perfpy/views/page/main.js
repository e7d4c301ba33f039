/* Joins the parts: what is chosen, and what is drawn of it. */

import { taskName, Filters } from "./filters.js";
import { CodeView } from "./code.js";
import { FlameView } from "./flame.js";
import { FunctionTable } from "./functions.js";
import { HeatMap } from "./heat.js";
import { columnsFor } from "./loads.js";
import { collect, kindOf, JOINED } from "./selection.js";
import { Timeline } from "./timeline.js";
import { weighed } from "./trees.js";
import { callees, callers, inverted } from "./tries.js";
import { profileOf } from "./unpack.js";
import { amount, duration, percent, signed, whole } from "./words.js";

const $ = id => document.getElementById(id);

class Page {
  constructor(profile) {
    this.profile = profile;
    this.range = null; /* what is selected, in ticks */
    this.shown = [0, Math.max(1, profile.last + 1)]; /* what the time line shows */
    this.chosen = null; /* the function of the sandwich, by its number */
    this.hits = null;
    this.filters = new Filters({ event: $("event"), process: $("process"), thread: $("thread"), cpu: $("cpu"), module: $("module"), search: $("search") }, profile);
    this.makeViews();
    this.connect();
  }

  makeViews() {
    const told = {
      label: (tree, i) => this.label(tree, i), describe: (tree, i) => this.describe(tree, i), say: text => { $("about").textContent = text; },
      focused: view => { this.focusedName = view.focus ? view.tree.name[view.focus] : null; $("sandwich").disabled = this.focusedName === null; },
      choose: name => this.choose(name),
    };
    const look = () => ({ names: this.profile.names, dark: this.isDark(), hits: this.hits, off: this.isOff() });
    this.graph = new FlameView($("graph"), $("graph-box"), told, look);
    this.above = new FlameView($("callers"), $("callers-box"), told, look);
    this.table = new FunctionTable($("functions"), $("more"), {
      short: f => this.short(f), choose: f => this.choose(f), chosen: () => this.chosen, hits: () => this.hits,
      mark: f => (this.profile.marks[this.choice.event] || {})[f] });
    this.code = new CodeView({ section: $("code"), choice: $("code-function"), kind: $("code-kind"), about: $("code-about"), note: $("code-range"),
      table: $("code-lines") }, this.profile.code, this.profile.files);
    const brushed = { range: () => this.shown, selected: () => this.range, select: (range, moving) => this.select(range, moving) };
    this.timeline = new Timeline({ canvas: $("lane-canvas"), names: $("lane-names"), more: $("more-lanes") }, {
      ...brushed, name: (lane, by) => this.laneName(lane, by), pick: (lane, by) => this.pick(lane, by), picked: by => this.filters.number($(by)) });
    this.heat = new HeatMap($("heat-canvas"), { ...brushed, say: text => { $("heat-about").textContent = text; } });
    const lengths = columnsFor(this.profile.last * this.profile.tick / 1e9);
    $("column").replaceChildren(...lengths.map(length => new Option(`${length} s`, length)));
    $("column").value = String(lengths.includes(1) ? 1 : lengths[0]);
  }

  /* ---- what is said ---- */

  short(f) {
    const name = this.profile.names[f];
    return $("whole-names").checked ? name[0] : name[3] || name[0];
  }

  label(tree, i) {
    if (i) return this.short(tree.name[i]);
    return this.chosen === null ? "all" : this.short(this.chosen);
  }

  describe(tree, i) {
    const f = i ? tree.name[i] : this.chosen, name = f === null ? ["all", ""] : this.profile.names[f];
    const text = name[0] + (name[1] ? ` (${name[1]})` : ""), of = this.whole();
    const part = k => of[k] ? tree.sum[k][i] / of[k] : 0;
    if (tree.kind === "changes") return `${text}: ${percent(part(0))} before, ${percent(part(1))} after, ${signed(part(1) - part(0))}`;
    const all = of.reduce((a, b) => a + b, 0), sum = tree.sum.reduce((a, column) => a + column[i], 0), seconds = this.inSeconds();
    const parts = tree.kind === "parts" ? ` (${duration(tree.sum[0][i])} on the CPU, ${duration(tree.sum[1][i])} off it)` : "";
    return `${text}: ${percent(all ? sum / all : 0)}, ${amount(sum, seconds)}${parts}`;
  }

  whole() { return this.tree.totals; }

  inSeconds() { return this.choice.event === JOINED || !!this.profile.events[this.choice.event].seconds; }

  isOff() { return this.choice.event !== JOINED && !!this.profile.events[this.choice.event].off; }

  isDark() { return document.documentElement.dataset.theme === "dark"; }

  laneName(lane, by) {
    const name = by === "cpu" ? (this.profile.cpus[lane.lane] < 0 ? "not known" : `CPU ${this.profile.cpus[lane.lane]}`) : taskName(this.profile.threads[lane.lane]);
    return this.profile.recordings > 1 ? `${lane.recording ? "after" : "before"}: ${name}` : name;
  }

  saySelected(samples, all) {
    const parts = [`${whole(samples)} of ${whole(all)} samples`];
    if (this.profile.recordings === 1) parts.push(amount(this.tree.totals.reduce((a, b) => a + b, 0), this.inSeconds()));
    if (this.range) parts.push(`${this.range.map(tick => duration(tick * this.profile.tick)).join(" to ")}`);
    if (this.hits) {
      let found = 0;
      const t = this.tree;
      for (let i = 1; i < t.n;) if (this.hits[t.name[i]]) { found += t.width[i]; i = t.end[i]; } else i++;
      parts.push(`${percent(found / (t.width[0] || 1))} in stacks with what is searched`);
    }
    $("selected").textContent = parts.join(" \u00b7 ");
  }

  /* ---- what follows what ---- */

  /* Which samples count has changed: everything follows; while a range is being dragged, the table does when that ends. */
  refresh({ lanes = true, table = true } = {}) {
    this.choice = this.filters.choice(this.range);
    const { own, samples, all } = collect(this.profile, this.choice);
    this.counted = [samples, all];
    this.tree = weighed(this.profile.tree, own, kindOf(this.profile, this.choice.event));
    this.inner = null;
    this.grow();
    if (table) this.table.load(this.tree, this.profile.names);
    if (lanes) this.loadTimes(); else this.drawTimes();
    this.legends();
    this.saySelected(samples, all);
    this.sayRange();
  }

  grow() {
    const sandwich = this.chosen !== null, upwards = $("layout").value === "flame", names = this.profile.names.length;
    $("callers-box").hidden = $("plain").hidden = !sandwich;
    $("layout").disabled = $("root").disabled = sandwich;
    if (sandwich) {
      this.above.upwards = true;
      this.graph.upwards = false;
      this.above.show(callers(this.tree, names, this.chosen));
      this.graph.show(callees(this.tree, names, this.chosen));
    } else {
      this.graph.upwards = upwards;
      this.graph.show($("root").value === "inner" ? this.inner ||= inverted(this.tree, names) : this.tree);
    }
  }

  loadTimes() {
    if (!this.profile.last) return;
    const kind = $("lanes").value, all = this.filters.choice(null);
    if (kind === "heat") this.heat.load(this.profile, all, Number($("column").value));
    else this.timeline.load(this.profile, { ...all, [kind]: null }, kind);
  }

  drawTimes() {
    if ($("lanes").value === "heat") this.heat.draw();
    else if (this.timeline.shown) this.timeline.draw();
  }

  legends() {
    const key = (kind, text) => {
      const sign = document.createElement("span");
      sign.className = `key-${kind}`;
      return [sign, document.createTextNode(text)];
    };
    const joined = this.tree.kind === "parts", on = key("on", "on the CPU"), off = key("off", "off the CPU, waiting");
    const changes = [...key("more", "more in the second recording"), ...key("less", "less"), ...key("same", "as before")];
    $("legend").replaceChildren(...(this.tree.kind === "changes" ? changes : joined ? [...on, ...off] : []));
    $("time-legend").replaceChildren(...(joined && $("lanes").value !== "heat" ? [...key("on", "on the CPU"), ...key("off", "off the CPU")] : []));
  }

  select(range, moving) {
    this.range = range && [Math.max(0, range[0]), Math.min(this.profile.last + 1, range[1])];
    this.drawTimes();
    if (!moving) {
      cancelAnimationFrame(this.waiting);
      this.waiting = 0;
      this.refresh({ lanes: false });
      return;
    }
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.refresh({ lanes: false, table: false }); });
  }

  sayRange() {
    const seconds = tick => +(tick * this.profile.tick / 1e9).toFixed(6), [from, to] = this.range || [0, this.profile.last + 1];
    if (document.activeElement !== $("from")) $("from").value = seconds(from);
    if (document.activeElement !== $("to")) $("to").value = seconds(to);
    $("narrow").disabled = !this.range;
    this.code.rangeIs(this.range && this.range.map(tick => Math.min(1, tick / (this.profile.last || 1))));
  }

  typedRange() {
    const [from, to] = [$("from"), $("to")].map(input => input.value === "" ? NaN : Number(input.value) * 1e9 / this.profile.tick);
    if (from >= 0 && to > from) this.select([from, to], false);
  }

  pick(lane, by) {
    const select = $(by);
    select.value = this.filters.number(select) === lane ? "" : String(lane);
    this.refresh();
  }

  choose(f) {
    this.chosen = f;
    this.grow();
    this.table.draw();
    if (f !== null) {
      this.code.show(this.profile.names[f][0], this.profile.names[f][1]);
      $("about").textContent = this.describe(this.graph.tree, 0);
    }
  }

  search() {
    try { this.hits = this.filters.hits(); } catch { $("selected").textContent = "not a regular expression"; return; }
    this.graph.draw();
    if (this.chosen !== null) this.above.draw();
    this.table.draw();
    this.saySelected(...this.counted);
  }

  theme() {
    const wanted = $("theme").value, dark = matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = wanted === "auto" ? (dark ? "dark" : "light") : wanted;
  }

  redraw() {
    this.graph.draw();
    if (this.chosen !== null) this.above.draw();
    this.drawTimes();
  }

  /* Which of the time's views is shown. */
  showTimes() {
    const heat = $("lanes").value === "heat";
    $("lane-box").hidden = heat;
    $("heat-box").hidden = !heat;
    document.querySelectorAll(".heat").forEach(one => { one.hidden = !heat; });
    if (heat) $("more-lanes").hidden = true;
    this.legends();
    this.loadTimes();
  }

  clear() {
    this.filters.clear();
    this.hits = this.chosen = this.range = null;
    this.shown = [0, Math.max(1, this.profile.last + 1)];
    this.refresh();
  }

  connect() {
    const changed = () => this.refresh();
    $("controls").onsubmit = event => event.preventDefault();
    $("event").onchange = $("cpu").onchange = $("thread").onchange = $("module").onchange = changed;
    $("process").onchange = () => { this.filters.threads(); this.refresh(); };
    $("search").oninput = () => this.search();
    $("clear").onclick = () => this.clear();
    $("theme").onchange = () => { this.theme(); this.redraw(); };
    matchMedia("(prefers-color-scheme: dark)").onchange = () => { this.theme(); this.redraw(); };
    $("lanes").onchange = () => this.showTimes();
    $("column").onchange = () => this.loadTimes();
    $("from").onchange = $("to").onchange = () => this.typedRange();
    $("narrow").onclick = () => { this.shown = this.range; this.loadTimes(); };
    $("whole").onclick = () => { this.shown = [0, Math.max(1, this.profile.last + 1)]; this.range = null; this.refresh(); };
    $("layout").onchange = $("root").onchange = () => this.grow();
    $("whole-names").onchange = () => { this.graph.draw(); this.above.draw(); this.table.draw(); };
    $("reset").onclick = () => { for (const view of [this.graph, this.above]) if (view.tree) view.zoomTo(0); };
    $("sandwich").onclick = () => { if (this.focusedName !== null) this.choose(this.focusedName); };
    $("plain").onclick = () => this.choose(null);
    document.onkeydown = event => this.key(event);
    window.onresize = () => { if (this.profile.last && $("lanes").value !== "heat") this.loadTimes(); this.redraw(); };
  }

  key(event) {
    if (event.key === "/" && document.activeElement !== $("search")) { $("search").focus(); event.preventDefault(); }
    else if (event.key === "Escape") {
      $("search").value = "";
      this.hits = null;
      if (this.chosen !== null) this.choose(null); else this.graph.zoomTo(0);
      this.table.draw();
      this.saySelected(...this.counted);
    }
  }

  start() {
    const { profile } = this, timed = profile.last > 0, tasks = profile.threads.length > 0, cpus = profile.cpus.some(cpu => cpu >= 0);
    document.title = profile.title;
    $("title").textContent = profile.title;
    $("environment").textContent = profile.environment.join(" \u00b7 ");
    $("headline").hidden = !(profile.headline || []).length;
    $("headline").append(...(profile.headline || []).map(text => { const line = document.createElement("p"); line.textContent = text; return line; }));
    $("verdict").append(...profile.verdict.map(text => { const item = document.createElement("li"); item.textContent = text; return item; }));
    $("times").hidden = !timed;
    document.querySelectorAll(".timed").forEach(one => { one.hidden = !tasks; });
    if (!cpus) {
      $("cpu").parentElement.hidden = $("lanes").options[0].hidden = $("lanes").options[0].disabled = true;
      $("lanes").value = "thread";
    } else if (profile.cpus.length < 2 && profile.threads.length > 1) $("lanes").value = "thread";
    this.theme();
    document.querySelectorAll(".heat").forEach(one => { one.hidden = true; });
    if (profile.events.length) this.refresh();
    document.body.dataset.ready = "yes";
    performance.mark("ready");
  }
}

async function begin() {
  const profile = await profileOf(JSON.parse($("data").textContent));
  new Page(profile).start();
}

begin().catch(error => {
  $("selected").textContent = `This page cannot be shown: ${error.message}`;
  document.body.dataset.ready = "failed";
});
