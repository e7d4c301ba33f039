/* The time line: activity by category over the whole width, and below it a track for each process and thread, or CPU. */

import { CATEGORIES, STACKED, WAITING, token } from "../model/categories.js";
import { activityOf, axisOf, find, lanesOf } from "../model/activity.js";
import { binnedMarks } from "../model/marks.js";
import { shownRows, taskTree } from "../model/task_tree.js";
import { mostOf, waitsAtOnce } from "../model/wait_lanes.js";
import { tablesOf } from "../model/selection.js";
import { atRuler, counted, duration, percent, stepFor, whole } from "../model/words.js";
import { brush } from "./brush.js";
import { button, el, inks, marked, prepared, ruled, speak, textScale } from "./elements.js";

const RULER = 18, LOW = 26, IDLE = 0.01, FEW = 12, MOST = 50, MOST_BINS = 1200, SAMPLES_EACH = 4, AXIS = 68, SIGN = 16;
/* bins narrower than SMOOTH pixels show with their neighbours */
const SMOOTH = 4;
/* how high waits are where the axis counts CPUs: a sign, no number */
const BAND = 4;
/* smaller shares would be told as 0.0 % */
const LEAST_TOLD = 0.0005;
/* names of folded threads */
const NAMED = 2;
/* the kind of marks of samples that were lost */
const LOST = "lost";

/* Bins with a part of their neighbours': the sum stays. */
function smoothed(bins) {
  const result = new Float64Array(bins.length), last = bins.length - 1;
  for (let i = 0; i <= last; i++) {
    result[i] += bins[i] / 2;
    result[Math.max(0, i - 1)] += bins[i] / 4;
    result[Math.min(last, i + 1)] += bins[i] / 4;
  }
  return result;
}

export class Tracks {
  /* parts: {all, axis, list, legend, phases}; told: {shown(), selected(), against(), select(range, moving), command(pid), name(row, level), pick(row), isPicked(row),
     pickCategory(category), category() -> the picked one, dark(), pattern()} */
  constructor(parts, told) {
    Object.assign(this, parts, { told, by: "thread", turned: new Set(), showsIdle: false, rows: [] });
    brush(this.all, told);
  }

  load(profile, choice, by, categoryOf, hits, markRows) {
    Object.assign(this, { profile, choice, by, categoryOf, hits, markRows });
    this.tick = profile.tick;
    const lanes = lanesOf(profile, choice, by);
    this.tree = by === "cpu" ? lanes.map(one => ({ kind: "cpu", value: one.lane, name: "", recording: one.recording, weight: one.weight, ran: one.ran, lanes: [one], below: [] }))
      : taskTree(lanes, profile.threads, pid => this.told.command(pid));
    this.arrange();
  }

  /* A search finds rows by name, which come first, and else what they ran. */
  search(hits, markRows) {
    Object.assign(this, { hits, markRows });
    const isOfNames = this.by !== "cpu" && this.told.pattern() && this.profile.threads.some(([, , name]) => this.told.pattern().test(name));
    if (isOfNames || this.finds) { this.finds = isOfNames; this.arrange(); return; }
    find(this.profile, this.choice, this.activity, hits);
    this.draw();
  }

  /* As many bins as have some samples each: shorter ones show only when a sample was taken. */
  binsOfSamples() {
    const { profile, choice, told } = this, [from, to] = told.shown(), on = tablesOf(profile, choice.event).find(({ samples }) => samples.seconds && samples.n);
    if (!on) return MOST_BINS;
    const weights = Float64Array.from(on.samples.weight.subarray(0, 1000)).sort(), usual = weights[weights.length >> 1] || 1;
    return Math.floor((to - from) * profile.tick / (SAMPLES_EACH * usual));
  }

  /* Rows: groups, processes and threads, or CPUs. */
  arrange() {
    const { profile, choice, by, told } = this, pattern = told.pattern(), isCpu = by === "cpu";
    this.bins = Math.max(40, Math.min(MOST_BINS, Math.floor((this.all.clientWidth || 800) / 2), this.binsOfSamples()));
    const isFirst = row => row.kind === "process" && row === this.tree.find(one => one.recording === row.recording);
    const { shown, folded, patterns } = shownRows(this.tree, {
      isOpen: row => this.turned.has(row.path) !== isFirst(row),
      isFound: row => !!pattern && !isCpu && row.kind !== "cpu" && pattern.test(row.name),
      showsIdle: this.showsIdle || isCpu, least: IDLE, few: FEW, most: isCpu ? Infinity : MOST });
    this.activity = activityOf(profile, choice, by, told.shown(), this.bins, this.categoryOf, this.hits, shown.map(({ row }) => row.lanes));
    this.rows = [...profile.lanes.map(lane => ({ lane, kind: "lane" })),
      ...shown.map(({ row, level, isOpen }, i) => ({ ...row, row, level, isOpen, track: this.activity.tracks[i] }))];
    this.list.classList.toggle("has-openers", shown.some(({ row }) => row.below.length));
    this.list.replaceChildren(...this.rows.map(row => this.row(row)), ...this.fold(folded, patterns));
    this.legends();
    this.draw();
  }

  hasWaits() { return this.activity.all.some(track => track.bins[WAITING]); }

  fold(idle, patterns) {
    if (!idle && !this.showsIdle) return [];
    const least = this.showsIdle ? "; search for their names" : ` with less than 1\u00a0%${this.hasWaits() ? " of the CPU time" : ""}`;
    const names = patterns.length ? ` (${patterns.slice(0, NAMED).join(", ")}${patterns.length > NAMED ? " and others" : ""})` : "";
    const rest = idle ? `${counted(idle, "thread")}${names}${least}` : "", text = this.showsIdle ? `Fold idle threads${rest && ` (${rest})`}` : rest;
    return [el("div.fold", { role: "listitem" }, button(text, () => { this.showsIdle = !this.showsIdle; this.arrange(); }, { "aria-expanded": this.showsIdle }))];
  }

  /* How many threads wait, below the name of what they wait for. */
  laneRow(row) {
    const { name, about, total, number } = row.lane, text = `${name}: ${counted(number, "wait")}, ${duration(total)}${about ? ` (${about})` : ""}`;
    const label = el("span.lane-name", { title: text });
    label.textContent = name;
    label.setAttribute("aria-label", text);
    label.setAttribute("role", "img");
    row.canvas = el("canvas", { "aria-hidden": true });
    brush(row.canvas, this.told);
    return el("div.track", { role: "listitem" }, el("div.track-names", {}, label), row.canvas);
  }

  row(row) {
    if (row.kind === "lane") return this.laneRow(row);
    const { told } = this, name = told.name(row, row.level), about = `${name}: ${this.loadOf(row.track, row.lanes.length === 1)}`;
    const label = button("", () => told.pick(row.row), { className: "track-name", title: about });
    label.append(...marked(name, told.pattern()));
    label.setAttribute("aria-label", about);
    label.setAttribute("aria-pressed", String(told.isPicked(row.row)));
    const open = row.below.length
      ? [button(row.isOpen ? "\u25be" : "\u25b8", () => { if (!this.turned.delete(row.path)) this.turned.add(row.path); this.arrange(); },
        { className: "opener", "aria-label": `threads of ${name}`, "aria-expanded": row.isOpen })] : [];
    const names = el("div.track-names", {}, ...open, label);
    names.dataset.level = row.level;
    row.canvas = el("canvas", { "aria-hidden": true });
    brush(row.canvas, told);
    return el("div.track", { role: "listitem" }, names, row.canvas);
  }

  /* The track in words: of one thread shares of its time, of several CPUs and waits at once. */
  loadOf(track, isOne) {
    const { seconds, unit } = this.activity;
    if (!seconds) return `${whole(track.weight)} periods`;
    const sum = category => track.bins[category] ? track.bins[category].reduce((a, b) => a + b, 0) : 0;
    const all = unit * this.bins, waits = sum(WAITING) / all, runs = STACKED.reduce((total, category) => total + (category === WAITING ? 0 : sum(category)), 0) / all;
    const text = (share, ofOne, ofAll) => share ? [isOne ? `${percent(Math.min(1, share))} ${ofOne}` : `${share.toFixed(2)} ${ofAll}`] : [];
    const parts = [...text(runs, "of the time on the CPU", "CPUs in use"), ...text(waits, "waiting", "threads waiting at a time")];
    return parts.join(", ") || "nothing in this range";
  }

  /* Each category with its share of what ran; waits are a time of their own. */
  legends() {
    const { all, seconds } = this.activity, dark = this.told.dark();
    const sums = STACKED.map(category => all.reduce((total, track) => total + (track.bins[category] || [0]).reduce((a, b) => a + b, 0), 0));
    const ran = sums.reduce((total, sum, place) => total + (STACKED[place] === WAITING ? 0 : sum), 0) || 1;
    this.legend.replaceChildren(...STACKED.flatMap((category, place) => {
      const sign = el("span.sign"), isWait = category === WAITING;
      if (!sums[place] || (!isWait && sums[place] < LEAST_TOLD * ran)) return [];
      sign.style.background = token(category, dark);
      const size = isWait && seconds ? duration(sums[place]) : `${(100 * sums[place] / ran).toFixed(sums[place] / ran < 0.095 ? 1 : 0)}\u00a0%`;
      const entry = button("", () => this.told.pickCategory(category), { className: "entry", "aria-pressed": this.told.category() === category, disabled: isWait });
      entry.append(sign, `${CATEGORIES[category]} ${size}`);
      return [entry];
    }));
  }

  draw() {
    if (!this.activity) return;
    const ink = inks(), dark = this.told.dark(), scale = this.scale = textScale();
    this.showPhases();
    this.drawAll(ink, dark);
    for (const row of this.rows) {
      const { track, lane, canvas, kind, lanes } = row, [pen, width] = prepared(canvas, LOW, null, scale);
      if (!canvas.clientWidth) continue;
      if (lane) { this.waits(pen, lane, width, ink); continue; }
      const one = Math.min(this.activity.unit, this.top);
      this.bars(pen, track, width, 1, LOW - 1, lanes.length > 1 ? Math.max(one, track.most(false)) : one, dark, ink);
      if (this.markRows && kind !== "cpu") this.ticks(pen, width, lanes, ink);
      this.veil(pen, width, LOW, ink);
    }
  }

  /* The phases in the range that is shown: [name, begin, end: parts of the width, phase]. */
  phasesInView() {
    const [from, to] = this.told.shown(), at = tick => Math.max(0, Math.min(1, (tick - from) / (to - from || 1)));
    return this.profile.phases.map(phase => [phase[0], at(phase[1]), at(phase[2]), phase]).filter(([, begin, end]) => end > begin);
  }

  /* A button for each phase, above its time, which selects it, or all again. */
  showPhases() {
    const { phases, told } = this, views = this.phasesInView(), [from, to] = told.selected() || [], range = told.shown().join();
    phases.parentElement.hidden = !views.length;
    if (this.phasesOf !== range) phases.replaceChildren(...views.map(one => this.phase(...one)));
    this.phasesOf = range;
    views.forEach(([, , , [, first, last]], i) => phases.children[i].setAttribute("aria-pressed", String(first === from && last === to)));
  }

  phase(name, begin, end, [, first, last, share]) {
    const { told } = this, times = [first, last].map(at => duration(at * this.tick)).join(" to ");
    const about = `${name}: ${Math.round(100 * share)}\u00a0% of the CPU time from ${times}`;
    const isSelected = () => String(told.selected()) === String([first, last]);
    const choose = button(name, () => told.select(isSelected() ? null : [first, last], false), { title: about, "aria-label": about });
    Object.assign(choose.style, { left: `${100 * begin}%`, width: `${100 * (end - begin)}%` });
    return choose;
  }

  /* Every other phase is shaded, and each ends with a line. */
  shadePhases(pen, width, top, height, ink) {
    this.phasesInView().forEach(([, begin, end], i) => {
      pen.fillStyle = ink("--phase");
      if (i % 2 === 0) pen.fillRect(begin * width, top, (end - begin) * width, height);
      pen.fillStyle = ink("--dim");
      for (const at of [begin, end]) if (at > 0 && at < 1) pen.fillRect(Math.round(at * width), top, 1, height);
    });
  }

  /* The activity of tenths of the time: what ran, in CPUs or in weight. */
  spoken() {
    const { all, seconds, unit } = this.activity, [from, to] = this.told.shown().map(tick => tick * this.tick), each = Math.ceil(this.bins / 10);
    const at = bin => duration(from + (to - from) * Math.min(1, bin / this.bins)), text = sum => seconds ? (sum / unit / each).toFixed(2) : whole(sum);
    return all.flatMap(track => Array.from({ length: Math.ceil(this.bins / each) }, (_, tenth) => [at(tenth * each), at((tenth + 1) * each),
      ...track.bins.map(bins => bins ? text(bins.subarray(tenth * each, (tenth + 1) * each).reduce((a, b) => a + b, 0)) : "0")]));
  }

  /* How high the activity of all is: more in high windows. */
  get tall() { return Math.round(Math.max(44, Math.min(150, window.innerHeight * 0.08))); }

  drawAll(ink, dark) {
    const tracks = this.activity.all, TALL = this.tall, height = RULER + TALL * tracks.length, [pen, width] = prepared(this.all, height, null, this.scale);
    const [axis] = prepared(this.axis, height, AXIS, this.scale), most = track => track.most(false) || track.most(true);
    const areWaits = this.hasWaits() && !tracks.some(track => track.most(false)), { unit, steps } = axisOf(this.activity, Math.max(...tracks.map(most)), areWaits);
    this.top = unit;
    this.shadePhases(pen, width, RULER, height - RULER, ink);
    this.ruler(pen, width, height, ink);
    tracks.forEach((track, place) => {
      const top = RULER + place * TALL;
      this.bars(pen, track, width, top + 2, TALL - 3, unit, dark, ink);
      this.levels(axis, pen, steps, width, top + 2, TALL - 3, ink);
      if (tracks.length > 1) this.label(pen, place ? "after" : "before", top + 4, ink);
      pen.fillStyle = ink("--line");
      pen.fillRect(0, top + TALL - 1, width, 1);
    });
    this.losses(pen, width, ink);
    speak(this.all, () => "Activity over time", ["From", "To", ...CATEGORIES], () => this.spoken());
    this.veil(pen, width, height, ink, true);
  }

  label(pen, text, top, ink) {
    pen.fillStyle = ink("--bg");
    pen.fillRect(2, top - 2, pen.measureText(text).width + 6, 16);
    pen.fillStyle = ink("--fg");
    pen.fillText(text, 5, top);
  }

  levels(axis, pen, steps, width, top, height, ink) {
    axis.font = "11px system-ui, sans-serif";
    axis.textAlign = "right";
    axis.textBaseline = "middle";
    for (const [text, part] of steps) {
      const y = top + height - part * height;
      axis.fillStyle = ink("--dim");
      axis.fillText(text, AXIS - 6, Math.min(top + height - 5, Math.max(top + 5, y)));
      axis.fillRect(AXIS - 4, Math.round(y) - (part ? 0 : 1), 4, 1);
      pen.globalAlpha = 0.6;
      pen.fillStyle = ink("--bg");
      if (part && part < 1) pen.fillRect(0, Math.round(y), width, 1);
      pen.globalAlpha = 1;
    }
  }

  /* Where samples were lost: what the chart shows there is too little. */
  losses(pen, width, ink) {
    const { marks } = this.profile, kind = marks ? marks.kinds.indexOf(LOST) : -1, [from, to] = this.told.shown();
    if (kind < 0) return;
    pen.fillStyle = ink("--wait-lock");
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "top";
    let end = -Infinity;
    for (let row = 0; row < marks.n; row++) {
      if (marks.kind[row] !== kind || marks.time[row] < from || marks.time[row] > to) continue;
      const x = (marks.time[row] - from) / (to - from || 1) * width, text = `\u25bc ${marks.texts[marks.text[row]]} lost`;
      if (x < end) { pen.fillRect(x, 0, 2, 4); continue; }
      const size = pen.measureText(text).width, left = Math.min(x, width - size - 4);
      pen.fillStyle = ink("--bg");
      pen.fillRect(left - 2, 0, size + 4, 15);
      pen.fillStyle = ink("--wait-lock");
      pen.fillText(text, left, 2);
      end = left + size + 12;
    }
  }

  /* Categories on top of each other; what waits is a band at the foot where nothing runs. Bars begin and end at whole pixels of the screen: between
     others the ground shows through as stripes. */
  bars(pen, track, width, top, height, unit, dark, ink) {
    const step = width / track.count, floor = new Float64Array(track.count), runs = track.most(false) > 0, { a: ratio } = pen.getTransform();
    const edges = Float64Array.from({ length: track.count + 1 }, (_, i) => Math.round(i * step * ratio) / ratio);
    const bar = (i, y, h) => pen.fillRect(edges[i], y, edges[i + 1] - edges[i], h);
    for (const category of STACKED) {
      const bins = track.bins[category] && (step < SMOOTH ? smoothed(track.bins[category]) : track.bins[category]);
      if (!bins) continue;
      const isBand = category === WAITING && runs;
      pen.fillStyle = token(category, dark);
      for (let i = 0; i < bins.length; i++) {
        if (!bins[i]) continue;
        const part = isBand ? Number(floor[i] <= unit / 20) : Math.min(1, bins[i] / unit);
        const h = isBand ? part * BAND : Math.max(part ? 1 : 0, part * height), base = isBand ? 0 : Math.min(height, floor[i] / unit * height);
        bar(i, top + height - base - h, h);
        if (!isBand) floor[i] += bins[i];
      }
    }
    pen.fillStyle = ink("--found");
    const line = (found, highOf) => { if (found) for (let i = 0; i < found.length; i++) if (found[i]) bar(i, top + height - Math.max(2, highOf(found[i])), 2); };
    const ofUnit = weight => Math.min(1, weight / unit) * height;
    line(track.found, ofUnit);
    line(track.foundWaits, runs ? () => BAND : ofUnit);
  }

  /* The number of threads that wait at once, up to the largest one, which is written beside. */
  waits(pen, lane, width, ink) {
    const bins = waitsAtOnce(lane, this.told.shown(), this.bins), most = mostOf(bins), step = width / this.bins;
    pen.fillStyle = ink(lane.kind === "lock" ? "--wait-lock" : "--wait-cpu");
    bins.forEach((waits, i) => { if (waits) { const h = Math.max(1, waits / Math.max(1, most) * (LOW - 3)); pen.fillRect(i * step, LOW - 1 - h, step + 0.3, h); } });
    if (most) {
      const text = most < 1 ? "1" : whole(Math.ceil(most));
      pen.font = "11px system-ui, sans-serif";
      pen.textBaseline = "top";
      pen.fillStyle = ink("--bg");
      pen.fillRect(width - pen.measureText(text).width - 8, 0, pen.measureText(text).width + 8, 15);
      pen.fillStyle = ink("--fg");
      pen.fillText(text, width - pen.measureText(text).width - 3, 2);
    }
    this.veil(pen, width, LOW, ink);
  }

  /* The marks of a row's threads, as short strokes at the top. */
  ticks(pen, width, lanes, ink) {
    const { marks } = this.profile, threads = new Set(lanes.map(lane => lane.lane)), rows = this.markRows.filter(row => threads.has(marks.thread[row]));
    pen.fillStyle = ink("--mark");
    for (const bin of binnedMarks(marks, rows, this.told.shown(), this.bins).keys()) pen.fillRect(bin * width / this.bins, 0, 1.5, 4);
  }

  /* Marks of moments; their texts have the places [begin, end] of `labels`. */
  ruler(pen, width, height, ink) {
    this.labels = [];
    const [from, to] = this.told.shown().map(tick => tick * this.tick), step = stepFor(to - from, width);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "top";
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const x = (t - from) / (to - from || 1) * width, text = atRuler(t, step);
      pen.fillStyle = ink("--line");
      pen.fillRect(x, 0, 1, height);
      pen.fillStyle = ink("--dim");
      ruled(pen, text, x + 4, width);
      this.labels.push([x, x + 8 + pen.measureText(text).width]);
    }
  }

  /* Where the name of a range is beside the texts of the ruler: within the range, or else before or after it. */
  placeOf([left, right], width) {
    const isFree = x => x >= 0 && x + SIGN <= width && this.labels.every(([begin, end]) => x + SIGN <= begin || x >= end);
    const within = Array.from({ length: Math.max(1, Math.floor((right - left) / 4) - SIGN / 4 + 1) }, (_, i) => left + 4 * i);
    return [...within, left - SIGN, right].find(isFree) ?? left;
  }

  /* The selected range, and the one that it is compared with. */
  veil(pen, width, height, ink, isNamed = false) {
    const [from, to] = this.told.shown(), x = tick => (tick - from) / (to - from || 1) * width, against = this.told.against();
    for (const [range, colour, name] of [[against, "--mark", "A"], [this.told.selected(), "--accent", "B"]]) {
      if (!range) continue;
      pen.fillStyle = ink("--brush");
      pen.fillRect(x(range[0]), 0, x(range[1]) - x(range[0]), height);
      pen.fillStyle = ink(colour);
      for (const at of range.map(x)) pen.fillRect(at - 1, 0, 2, height);
      if (!isNamed || !against) continue;
      pen.font = "600 12px system-ui, sans-serif";
      pen.textBaseline = "top";
      const place = this.placeOf(range.map(x), width);
      pen.fillRect(place, 0, SIGN, SIGN);
      pen.fillStyle = ink("--on-accent");
      pen.fillText(name, place + 4, 2);
    }
  }
}
