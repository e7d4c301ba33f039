/* Joins the parts: the state of the page, what is drawn of it, and its address. */

import { KERNEL, WAITING } from "./model/categories.js";
import { inWorker, loaded } from "./model/loading.js";
import { Forms } from "./model/forms.js";
import { Detail } from "./model/detail.js";
import { columnsFor, usualColumn } from "./model/heat_cells.js";
import { chosenMarks } from "./model/marks.js";
import { beginWith, stateOf } from "./model/permalink.js";
import { collectShown, kindOf, isOfWaits, measureOf, needsIndex, nodesUnder, onAndOff, weightsBySite, JOINED, NARROWED } from "./model/selection.js";
import { NO_TASKS, rowName, taskName, tasksOf } from "./model/task_tree.js";
import { byFunction, comparedParts, hottest, isPart, namedHottest, ofFunctions } from "./model/function_sums.js";
import { regrouped, totalOf, weighed, withSign } from "./model/trees.js";
import { callees, callers, inverted } from "./model/tries.js";
import { describeNode, patternOf, stateWords, threadState } from "./model/words.js";
import { CallTree, inwards, outwards } from "./views/call_tree.js";
import { CodeView } from "./views/code.js";
import { Details } from "./views/details.js";
import { FlameView } from "./views/flame.js";
import { FunctionTable } from "./views/functions.js";
import { NO_FILTERS, STEPS, connect, keepAddress, readAddress, sayRange, showNamed, showParts } from "./views/controls.js";
import { chunkOf, inView, pause } from "./views/elements.js";
import { showTop } from "./views/headline.js";
import { HeatMap } from "./views/heat.js";
import { sayChanges, sayFocused, sayScope, saySelected, sayVerdict, sayWaits } from "./views/said.js";
import { MarksTable } from "./views/marks_table.js";
import { StackChart } from "./views/stack_chart.js";
import { Toolbar } from "./views/toolbar.js";
import { Tracks } from "./views/tracks.js";
import { WaitView } from "./views/wait_view.js";

const $ = id => document.getElementById(id);
/* parts of the state that do not change the time line */
const OF_VIEWS = ["range", "tab", "form", "chosen", "layout", "root", "recursion", "zoom", "panel", "strand", "waiter", "moment",
  "column", "sort", "open", "code", "codeKind", "side", "against"];

class Page {
  constructor(profile) {
    this.profile = profile;
    beginWith(profile.waits ? null : "flame");
    this.state = stateOf("");
    this.hits = this.pattern = this.hitNodes = null;
    this.forms = new Forms(profile);
    this.categoryOf = profile.categoryOf;
    this.detail = profile.each > 1 ? new Detail(profile, chunkOf) : null;
    this.makeViews();
    connect(this);
  }

  /* What is counted: the selected range, or else what the time line was zoomed to; null for all. */
  get range() { return this.state.range || this.state.shown; }
  get all() { return [0, Math.max(1, this.profile.last + 1)]; }
  get isEarly() { return !this.isIndexed && needsIndex(this.state); } /* then it is shown later */
  get shown() { return this.state.shown || this.all; }
  makeViews() {
    const { profile } = this, hits = () => this.hits, pattern = () => this.pattern, dark = () => this.isDark(), short = f => this.short(f);
    const choose = f => this.choose(f), chosen = () => this.state.chosen, say = text => { $("about").textContent = text; };
    const look = () => ({ names: profile.names, dark: this.isDark(), hits: this.hits });
    const frames = { label: (tree, i) => this.label(tree, i), describe: (tree, i) => this.describe(tree, i), say,
      focused: view => {
        if (view === this.graph) this.state.zoom = view.path.join(".");
        const f = view.tree.name[view.focus];
        if (f >= 0) this.choose(f); else keepAddress(this);
      }, choose: f => this.sandwich(f) };
    const time = { shown: () => this.shown, selected: () => this.state.range, against: () => this.state.against, select: (range, moving) => this.select(range, moving) };
    this.graph = new FlameView($("graph"), $("graph-box"), frames, look);
    this.above = new FlameView($("above"), $("above-box"), frames, look);
    this.below = new FlameView($("below"), $("below-box"), frames, look);
    this.below.upwards = false;
    const rows = { short, choose, chosen, hits, pattern, dark, unit: () => this.unit(), first: () => isOfWaits(profile) ? 1 : 0 };
    this.tree = new CallTree($("call-tree"), { ...rows, opened: open => { this.state.open = open; keepAddress(this); } }, inwards);
    this.callerTree = new CallTree($("caller-tree"), rows, outwards);
    this.table = new FunctionTable($("functions"), $("more"), { ...rows, inlined: () => profile.inlined || [], mark: f => (profile.starred[this.event] || {})[f],
      sorted: sort => { this.state.sort = sort; keepAddress(this); } });
    this.chart = new StackChart($("chart"), { ...time, label: short, look, say, choose, without: text => { $("chart-without").textContent = text; } });
    this.waits = new WaitView({ canvas: $("waits"), path: $("wait-path"), chain: $("wait-chain") }, { ...time, profile,
      moment: () => this.state.moment === null ? null : { thread: this.state.waiter ?? -1, tick: this.state.moment },
      pick: (waiter, moment) => this.change({ waiter, moment: Math.round(moment) }) });
    const codeParts = { choice: "code-function", kind: "code-kind", about: "code-about", table: "code-lines", box: "code-box", strip: "code-strip", hottest: "code-hottest",
      before: "code-before", after: "code-after" };
    this.code = new CodeView(Object.fromEntries(Object.entries(codeParts).map(([key, id]) => [key, $(id)])), profile.code, profile.files,
      { changed: part => { Object.assign(this.state, part); keepAddress(this); } }, (profile.headline || []).flatMap(one => one.hottest || []));
    this.heat = new HeatMap($("heat"), { ...time, say: text => { $("heat-about").textContent = text; } });
    this.marks = new MarksTable({ table: $("marks"), kinds: $("kinds"), more: $("more-marks") }, {
      task: thread => profile.threads[thread] ? taskName(profile.threads[thread]) : "", pattern, hide: () => { this.showMarks(); this.loadTimes(); },
      at: tick => this.change({ range: [Math.max(0, tick - profile.last / 200), tick + profile.last / 200 + 1] }) });
    this.details = new Details($("details"), { short, choose, inside: f => this.change({ inside: f }), sandwich: f => this.sandwich(f), unit: () => this.unit(), dark,
      inlined: () => profile.inlined || [], headline: () => this.ofHeadline(),
      measure: () => measureOf(profile, this.event).replace(/^[A-Z](?=[a-z])/, first => first.toLowerCase()),
      waits: () => ({ waits: profile.waits, pick: (waiter, moment) => this.change({ tab: "waits", waiter, moment: Math.round(moment) }), time: ticks => this.waits.time(ticks) }),
      tellsWaits: () => isOfWaits(profile), isOff: () => this.event !== JOINED && !!profile.events[this.event].off,
      tells: () => `perfpy why ${profile.events.some(({ event }) => event.startsWith("sched:sched_switch")) ? "-i RECORDING --html why.html" : "--html why.html PROGRAM"}`,
      parts: () => comparedParts(profile, this.counted), code: f => this.code.snippet(...profile.names[f]),
      showCode: f => { this.change({ tab: "code" }); this.showCode(f); } });
    this.toolbar = new Toolbar(Object.fromEntries(["event", "process", "thread", "cpu", "module", "category", "search", "chips"].map(id => [id, $(id)])), profile,
      { changed: part => this.change(part), searched: () => this.search($("search").value), short });
    this.tracks = new Tracks({ all: $("activity"), axis: $("activity-axis"), list: $("tracks"), legend: $("legend"), phases: $("phases") }, { ...time, dark, pattern,
      name: (row, level) => (profile.recordings > 1 ? `${row.recording ? "after" : "before"}: ` : "") + rowName(row, level, profile),
      command: pid => this.toolbar.command(pid), pick: row => this.change(this.isPicked(row) ? NO_TASKS : { ...NO_TASKS, ...tasksOf(row) }), isPicked: row => this.isPicked(row),
      pickCategory: category => this.change({ category: this.state.category === category ? null : category }), category: () => this.state.category });
    const lengths = columnsFor(profile.last * profile.tick / 1e9);
    $("column").replaceChildren(...(this.columns = lengths).map(length => new Option(`${length} s`, length)));
  }

  /* ---- what is said ---- */

  short(f) {
    const [name, , category, short] = this.profile.names[f], call = category === KERNEL && /^__(?:x64|arm64|ia32|riscv|s390x)_(?:compat_)?sys_(\w+)$/.exec(name);
    if (category === WAITING && threadState(name)) return stateWords(threadState(name));
    return call ? `${call[1]} (system call)` : short || name;
  }

  label(tree, i) { return withSign(tree, i, tree.name[i] >= 0 ? this.short(tree.name[i]) : "all"); }

  describe(tree, i) { return describeNode(tree, i, this.profile.names[tree.name[i]] || ["all", ""], this.bases, this.unit(), isPart(tree, this.profile.names, i)); }

  unit() {
    const event = this.profile.events[this.event];
    return this.event === JOINED || event.time ? "time" : event.bytes ? "bytes" : "";
  }
  isDark() { return document.documentElement.dataset.theme === "dark"; }
  isPicked(row) { return Object.entries(tasksOf(row)).every(([key, value]) => this.state[key] === value); }
  /* ---- what follows what ---- */

  choice(range = this.range) {
    const { commands, process, group, thread, cpu, module, category, inside } = this.state;
    return { event: this.event, commands, process, group, thread, cpu, module, category, inside, range };
  }

  /* Change the state, and all that follows from it. */
  change(part) {
    const changed = Object.keys(part).filter(key => part[key] !== this.state[key]), lanes = changed.some(key => !OF_VIEWS.includes(key));
    if (changed.includes("tab")) $("about").textContent = ""; /* it is of a frame of the view before */
    this.state = { ...this.state, ...part };
    keepAddress(this, changed.some(key => STEPS.includes(key)));
    this.refresh({ lanes, keep: !("event" in part) });
  }

  form() { return this.forms.of(this.state, this.hits); }
  /* The weighed tree of the form, of which not every view needs one. */
  get weighed() { return this.weighedOf(this.form()); }
  weighedOf(form) {
    const { own, trees } = this, isWhole = form.name === this.forms.get("all").name;
    if (!trees.has(form)) trees.set(form, weighed(form, isWhole ? own : regrouped(own, form.of, form.n), this.kind, this.compared));
    return trees.get(form);
  }

  /* Whether two ranges are compared. */
  get isCompared() { return !!(this.state.against && this.state.range) && this.profile.recordings === 1; }

  /* Adds up the samples of the state, unless these are those that were added up last; whether they are others. read: more of them were read. */
  count(read) {
    const key = JSON.stringify([this.choice(), this.isCompared && this.state.against]), isOther = read || key !== this.countedOf;
    if (isOther) {
      this.counted = collectShown(this.profile, this.choice(), this.isCompared && this.state.against);
      const { own, base } = this.counted;
      Object.assign(this, { countedOf: key, own, bases: base?.lengths || own.map(totalOf), ofFunctions: null });
    }
    return isOther;
  }

  /* Show the state; moving: while a range is being dragged only the picture in view follows; read: of the same range more samples were read. */
  refresh({ lanes = true, moving = false, keep = true, read = false } = {}) {
    if (this.isEarly) { this.isLate = true; return; }
    this.event = this.toolbar.eventOf(this.state);
    if (moving) this.tracks.draw();
    const isOther = this.count(read), formOf = [this.state.form, this.state.recursion, this.state.side].join();
    this.kind = this.isCompared ? "changes" : kindOf(this.profile, this.event);
    this.compared = this.kind === "changes" ? { side: this.state.side, samples: this.counted.counts, ...this.counted.base } : null;
    if (isOther || formOf !== this.formOf) Object.assign(this, { formOf, inner: new WeakMap(), trees: new WeakMap() });
    this.showView(keep, moving);
    if (isOther) sayFocused(this);
    if (!moving) {
      this.toolbar.show(this.state, this.profile.tick);
      if (this.isStarted && (isOther || this.isBehind || this.described !== this.state.chosen)) this.describeChosen();
      this.showForm();
      for (const say of [sayRange, sayScope, sayChanges, sayWaits, sayVerdict]) say(this);
    }
    if (lanes) this.loadTimes(); else if (!moving) this.tracks.draw();
    saySelected(this);
    this.isBehind = moving;
    if (!moving) this.refine();
  }

  /* Of very many samples, read all of the range that is selected, or else drawn. */
  async refine() {
    if (this.detail && await this.detail.show(this.range)) this.refresh({ read: true });
  }

  showForm() {
    for (const one of $("forms").children) {
      const isOn = one.dataset.form === this.state.form;
      one.setAttribute("aria-checked", String(isOn));
      one.tabIndex = isOn ? 0 : -1;
    }
  }

  /* Draw the view whose tab is chosen. */
  showView(keep = true, moving = false) {
    const { tab } = this.state, { names } = this.profile;
    this.ofForm = this.form();
    for (const one of $("tabs").children) {
      const isOn = one.id === `tab-${tab}`;
      one.setAttribute("aria-selected", String(isOn));
      one.tabIndex = isOn ? 0 : -1;
      $(one.getAttribute("aria-controls")).hidden = !isOn;
    }
    const draw = { flame: () => this.showFlame(keep), tree: () => this.tree.load(this.weighed, names), callers: () => this.callerTree.load(this.weighed, names),
      functions: () => this.table.load(...this.functions(), this.state.sort, moving),
      sandwich: () => this.showSandwich(), chart: () => this.showChart(), waits: () => this.waits.load(this.profile), marks: () => this.showMarks(),
      code: () => this.weighCode(), heat: () => this.showHeat() };
    draw[tab]();
    inView($("tabs"), $(`tab-${tab}`));
  }

  showHeat() {
    const { columns } = this, column = columns.includes(this.state.column) ? this.state.column : usualColumn(columns, this.profile);
    $("column").value = String(column);
    if (this.profile.last) this.heat.load(this.profile, this.choice(null), column);
  }

  functions() {
    const form = this.forms.get("all"), isSame = !this.compared && this.form().name === form.name;
    return this.ofFunctions ||= ofFunctions(this.profile, this.own, isSame ? this.weighed : weighed(form, this.own, this.kind, this.compared && { ...this.compared, side: -1 }));
  }

  showFlame(keep) {
    this.graph.upwards = this.state.layout === "flame";
    for (const key of ["layout", "root"]) $(key).value = this.state[key];
    $("merged").setAttribute("aria-pressed", String(this.state.recursion === "merged"));
    const { weighed: tree, inner } = this;
    if (this.state.root === "inner" && !inner.has(tree)) inner.set(tree, inverted(tree));
    this.graph.show(this.state.root === "inner" ? inner.get(tree) : tree, keep);
    if (!keep && this.state.zoom) this.graph.zoomToPath(this.state.zoom.split(".").map(Number));
  }

  /* The headline's function, while what is shown is what the headline is of. */
  ofHeadline() {
    const isPart = this.compared || NARROWED.some(key => this.state[key] !== null), [on = 0] = onAndOff(this.profile) || [];
    return isPart || ![on, JOINED].includes(this.event) ? null : namedHottest(this.profile, byFunction(...this.functions()).total[0]);
  }

  showSandwich() {
    const ofWaits = isOfWaits(this.profile), named = this.event === JOINED && ofWaits ? null : this.ofHeadline();
    const f = this.state.chosen ?? (named ? named.f : hottest(...this.functions().slice(0, 3), ofWaits)), about = f < 0 ? [] : this.profile.names[f].slice(0, 2).filter(Boolean);
    $("sandwich-about").textContent = about.join(" \u00b7 ")
      + (this.state.chosen === null && f >= 0 ? ` (the hottest function${named ? ", as in the headline" : ""}: select another one in any view)` : "");
    for (const id of ["above-box", "below-box"]) $(id).hidden = f < 0;
    if (f < 0) return;
    for (const [view, of] of [[this.above, callers], [this.below, callees]]) view.show(of(this.weighedOf(this.forms.of(this.state, this.hits, f)), f));
    $("about").textContent = this.describe(this.below.tree, 0);
  }

  showChart() {
    if (!this.profile.last || !this.profile.threads.length) return;
    const { strand } = this.state;
    this.chart.load(this.profile, this.choice(), this.form(), strand);
    $("chart-thread").value = strand === null ? "" : String(strand);
    $("chart-thread").options[0].textContent = `busiest: ${taskName(this.profile.threads[this.chart.busiest])}`;
  }

  markRows(range) {
    const { marks } = this.profile;
    return marks ? chosenMarks(marks, this.profile, { ...this.choice(), range }, this.pattern, this.marks.hidden) : null;
  }

  showMarks() {
    if (!this.profile.marks) { $("more-marks").textContent = "The recording has no marks: no switches, faults, signals, forks or tracepoints."; return; }
    const { marks } = this.profile;
    this.marks.load(this.profile, chosenMarks(marks, this.profile, this.choice(), this.pattern, null), this.markRows(this.range));
  }

  /* The weights of the selected samples by site of the code, if some are selected; of time on and off the CPU the former. */
  weighCode() {
    if (this.isEarly) return;
    const event = this.event === JOINED ? onAndOff(this.profile)[0] : this.event, { weights, all } = weightsBySite(this.profile, { ...this.choice(), event });
    this.code.load(weights, all, this.profile.events[event].event);
  }

  loadTimes() {
    if (!this.profile.last || !this.isIndexed) return;
    this.tracks.load(this.profile, this.choice(null), this.lanes(), this.categoryOf, this.hitNodes, this.markRows(null));
    $("activity-title").textContent = `${measureOf(this.profile, this.event)} by category`;
  }

  lanes() { return this.hasCpus ? this.state.lanes : "thread"; }
  select(range, moving) {
    const [, end] = this.all;
    this.state.range = range && [Math.max(0, range[0]), Math.min(end, range[1])];
    if (!moving) {
      this.waiting = cancelAnimationFrame(this.waiting) || 0;
      keepAddress(this);
      this.refresh({ lanes: false });
      return;
    }
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.refresh({ lanes: false, moving: true }); });
  }

  choose(f, showsCode = true) {
    this.state.chosen = f;
    keepAddress(this);
    this.describeChosen();
    const view = { functions: this.table, tree: this.tree, callers: this.callerTree }[this.state.tab];
    if (this.form() !== this.ofForm && ["flame", "tree", "callers", "chart"].includes(this.state.tab)) this.showView();
    else if (view) view.showChosen();
    if (f !== null && showsCode) this.showCode(f);
  }

  describeChosen() {
    this.described = this.state.chosen;
    if (this.described !== null) this.weighCode();
    this.details.show(this.functions(), this.described);
  }

  showCode(f) {
    this.code.show(...this.profile.names[f]);
    Object.assign(this.state, { code: this.code.choice.value });
    keepAddress(this);
  }
  sandwich(f) { this.choose(f); this.change({ tab: "sandwich" }); }

  find(text) {
    this.pattern = patternOf(text);
    this.hits = this.toolbar.hits(this.pattern);
    this.hitNodes = this.hits && nodesUnder(this.profile.tree, this.hits);
  }

  search(text) {
    this.state.find = text;
    this.find(text);
    keepAddress(this);
    if (this.tracks.activity) this.tracks.search(this.hitNodes, this.markRows(null));
    this.drawView();
    saySelected(this);
  }

  /* Draw the view anew with the same samples: what is searched has changed. */
  drawView() {
    if (this.isEarly || this.form() !== this.ofForm) { this.isEarly || this.showView(); return; }
    const { graph, above, below, tree, callerTree, table, chart } = this;
    const views = { flame: [graph], tree: [tree], callers: [callerTree], functions: [table], sandwich: above.tree ? [above, below] : [], chart: [chart] };
    for (const view of views[this.state.tab] || []) view.draw();
    if (this.state.tab === "marks") this.showMarks();
  }
  redraw() {
    if (!this.profile.events.length || this.isEarly) return;
    this.tracks.legends && this.tracks.activity && this.tracks.legends();
    this.tracks.draw();
    this.showView();
    this.describeChosen();
  }

  clear() {
    $("search").value = "";
    this.hits = this.pattern = this.hitNodes = null;
    this.change(NO_FILTERS);
  }

  start() {
    this.hasCpus = this.profile.cpus.some(cpu => cpu >= 0);
    showParts(this);
    readAddress(this);
    this.isStarted = true;
  }

  /* The index is there: show what needs it, such as the time line. */
  finish() {
    this.isIndexed = true;
    this.forms.setOwn(this.profile.forms.own);
    this.toolbar.fill(this.state);
    $("chart-thread").replaceChildren(new Option("busiest", ""), ...this.profile.threads.map((thread, i) => new Option(taskName(thread), i)));
    if (this.isLate) readAddress(this);
    if (this.profile.events.length) this.loadTimes();
    performance.mark("drawn");
    document.body.dataset.ready = "yes";
    performance.mark("ready");
  }
}

async function begin() {
  const { profile, rest } = await loaded($("data").textContent);
  await pause();
  const page = new Page(profile);
  showTop(profile, (name, column) => showNamed(page, name, column));
  await pause();
  page.start();
  if (!page.isLate) performance.mark("drawn");
  await pause();
  if (page.counted) page.describeChosen(); /* the panel comes after the picture */
  await rest;
  await pause();
  page.finish();
}

if (!inWorker()) begin().catch(error => {
  $("headline").textContent = `This page cannot be shown: ${error.message}`;
  document.body.dataset.ready = "failed";
  throw error;
});