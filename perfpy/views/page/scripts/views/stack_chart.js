/* The stacks of one thread in order of time: across is when, down is who called whom. */

import { INK, WAITING, colour } from "../model/categories.js";
import { busiestThread, columnsOf, runsOf } from "../model/stack_order.js";
import { atRuler, duration, stepFor, threadState } from "../model/words.js";
import { brush } from "./brush.js";
import { fitted, inks, roomOf, ruled, speak, textScale, windowed } from "./elements.js";

/* sizes for text of its usual size; rows are as high as fills the room, from LOW to HIGH */
const LOW = 18, HIGH = 28, RULER = 18;

export class StackChart {
  /* told: {shown(), selected(), select(range, moving), label(f), look(), say(text), without(text), choose(f)} */
  constructor(canvas, told) {
    Object.assign(this, { canvas, told, runs: [], columns: null, form: null, top: 0, row: LOW, above: RULER });
    this.box = canvas.closest(".box");
    this.box.onscroll = () => this.draw();
    new ResizeObserver(() => this.draw()).observe(this.box);
    brush(canvas, told);
    canvas.addEventListener("pointermove", event => {
      const run = this.runAt(event);
      if (run) told.say(this.describe(run));
    });
    canvas.addEventListener("dblclick", event => {
      const run = this.runAt(event);
      if (run) told.choose(this.form.name[run.node]);
    });
  }

  /* thread: null for the busiest one. What is selected is only drawn: the stacks stay. */
  load(profile, { range: _, ...choice }, form, thread) {
    const count = Math.max(60, Math.min(2000, Math.floor(this.canvas.clientWidth || 800))), key = JSON.stringify([choice, thread, count, this.told.shown(), profile.reads]);
    if (key !== this.loadedOf || form !== this.form) {
      Object.assign(this, { profile, form, count, loadedOf: key, busiest: busiestThread(profile, choice) });
      const { node, apart } = columnsOf(profile, choice, form.of, thread ?? this.busiest, this.told.shown(), count);
      Object.assign(this, { columns: node, runs: runsOf(form, node) });
      this.told.without(apart ? `without ${duration(apart)} of short waits: the recording has their sums, not when each was` : "");
    }
    this.draw();
  }

  describe(run) {
    const [from, to] = this.told.shown(), at = column => (from + (to - from) * column / this.count) * this.profile.tick;
    return `${this.profile.names[this.form.name[run.node]][0]}: ${duration(at(run.from))} to ${duration(at(run.to))}`;
  }

  runAt(event) {
    const r = this.canvas.getBoundingClientRect(), column = (event.clientX - r.left) / r.width * this.count;
    const depth = Math.floor((event.clientY - r.top - this.above + this.top) / this.row);
    return this.runs.find(run => run.depth === depth && column >= run.from && column < run.to);
  }

  draw() {
    if (!this.columns || !this.canvas.clientWidth) return;
    const deepest = this.runs.reduce((most, run) => Math.max(most, run.depth + 1), 1), scale = textScale(), above = RULER * scale;
    const row = Math.floor(Math.max(LOW * scale, Math.min(HIGH * scale, (roomOf(this.box) - above) / deepest))), whole = above + deepest * row + 4;
    const { pen, width, height, top } = windowed(this.canvas, this.box, whole);
    Object.assign(this, { top, row, above, scale });
    const step = width / this.count, look = this.told.look(), ink = inks(), tree = { kind: "one", name: this.form.name };
    this.ruler(pen, width, height, ink);
    pen.font = `${12 * scale}px ui-monospace, monospace`;
    pen.textBaseline = "middle";
    const letter = pen.measureText("m").width;
    for (const run of this.runs) {
      const x = run.from * step, w = (run.to - run.from) * step, y = above + run.depth * row - top, f = this.form.name[run.node];
      if (y < above - row || y > height) continue;
      pen.globalAlpha = look.hits && !look.hits[f] ? 0.35 : 1;
      pen.fillStyle = colour(tree, run.node, look);
      pen.fillRect(x, y, w - (w > 3 ? 1 : 0), row - 1);
      if (look.names[f][2] === WAITING && threadState(look.names[f][0]) === "ready") { pen.fillStyle = ink("--wait-cpu"); pen.fillRect(x, y + row - 4 * scale, w, 3 * scale); }
      pen.globalAlpha = 1;
      const text = fitted(pen, this.told.label(f), w - 6, letter);
      if (text) { pen.fillStyle = look.hits && !look.hits[f] && look.dark ? "#e8e8e8" : INK; pen.fillText(text, x + 3, y + row / 2); }
    }
    pen.fillStyle = ink("--bg");
    pen.fillRect(0, 0, width, above);
    this.ruler(pen, width, above, ink);
    speak(this.canvas, () => "Stack chart: the longest calls", ["Depth", "Call"], () => this.runs.toSorted((a, b) => b.to - b.from - a.to + a.from).slice(0, 60)
      .map(run => [String(run.depth), this.describe(run)]));
    const selected = this.told.selected(), [from, to] = this.told.shown();
    if (!selected) return;
    const at = tick => (tick - from) / (to - from || 1) * width;
    pen.fillStyle = ink("--brush");
    pen.fillRect(at(selected[0]), 0, at(selected[1]) - at(selected[0]), height);
  }

  ruler(pen, width, height, ink) {
    const [from, to] = this.told.shown().map(tick => tick * this.profile.tick), step = stepFor(to - from, width / this.scale);
    pen.font = `${11 * this.scale}px system-ui, sans-serif`;
    pen.textBaseline = "top";
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const x = (t - from) / (to - from || 1) * width;
      pen.fillStyle = ink("--line");
      pen.fillRect(x, 0, 1, height);
      pen.fillStyle = ink("--dim");
      ruled(pen, atRuler(t, step), x + 4, width);
    }
  }

  /* The longest runs as text. */
  text() {
    const lines = [...this.runs].sort((a, b) => a.from - b.from || a.depth - b.depth).map(run => `${"  ".repeat(run.depth)}${this.describe(run)}`);
    return `${lines.slice(0, 2000).join("\n")}\n`;
  }
}
