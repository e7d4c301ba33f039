/* Who waited for whom: threads in order of time, arrows from the thread that ended a wait, and the critical path. */

import { BLOCKED, READY, RUNS, chainAt, criticalPath, pathSums, turnAt, wakeups } from "../model/wait_chains.js";
import { OWN, UNKNOWN } from "../model/categories.js";
import { atRuler, counted, duration, percent, stepFor } from "../model/words.js";
import { brush } from "./brush.js";
import { button, el, inks, ruled, speak, stateBar, stateSign, textScale, windowed } from "./elements.js";

const ROW = 40, BAR = 16, RULER = 18, MOST_ARROWS = 300, MOST_SUMS = 12, FRAMES = 60, STEPS = 12;
const STATE = { [RUNS]: "runs", [READY]: "ready", [BLOCKED]: "waits" };

export class WaitView {
  /* parts: {canvas, path, chain}; told: {profile, shown(), select(range, moving), selected(), moment(), pick(thread, tick)} */
  constructor(parts, told) {
    Object.assign(this, parts, { told, waits: null, profile: told.profile });
    this.box = this.canvas.closest(".box");
    this.box.onscroll = () => this.draw();
    new ResizeObserver(() => this.draw()).observe(this.box);
    let at = 0;
    this.canvas.addEventListener("pointerdown", event => { at = event.clientX; });
    this.canvas.addEventListener("click", event => {
      if (Math.abs(event.clientX - at) > 3) return;
      const r = this.canvas.getBoundingClientRect(), [from, to] = told.shown(), row = Math.floor(((event.clientY - r.top) / textScale() - RULER + this.top) / ROW);
      if (row >= 0 && row < this.waits.threads.length) told.pick(row, from + (to - from) * (event.clientX - r.left) / r.width);
    });
    this.canvas.addEventListener("keydown", event => this.key(event));
    /* a click picks a moment, and does not end a selection */
    brush(this.canvas, { ...told, select: (range, moving) => { if (range || moving) told.select(range, moving); } });
  }

  /* Up and down: another thread; Page Up and Page Down: the turn before or after. */
  key(event) {
    const { thread, tick } = this.moment(), { waits } = this, rows = { ArrowUp: -1, ArrowDown: 1 }[event.key], turns = { PageUp: -1, PageDown: 1 }[event.key];
    if (!rows && !turns) return;
    if (rows) this.told.pick(Math.max(0, Math.min(waits.threads.length - 1, thread + rows)), tick);
    else {
      const next = turnAt(waits, thread, tick) + turns;
      if (next >= waits.first[thread] && next < waits.first[thread + 1]) this.told.pick(thread, waits.begin[next] + waits.length[next] / 2);
    }
    event.preventDefault();
  }

  load(profile) {
    Object.assign(this, { profile, waits: profile.waits });
    if (!this.waits) return;
    this.frames ||= new Map(profile.names.map(([name, , category, short]) => [name, [short || name, category]]));
    const range = this.told.selected() || this.told.shown(), key = range.join();
    if (this.known !== key) Object.assign(this, { known: key, pieces: criticalPath(this.waits, this.waits.main, range) });
    this.draw();
    this.showPath(range);
    this.showChain();
  }

  name(thread) { return this.waits.threads[thread][1] + ` (${this.waits.threads[thread][0]})`; }
  did(row) { return this.waits.texts[this.waits.text[row]]; }
  time(ticks) { return duration(ticks * this.profile.tick); }

  /* Where the reader looks: the moment that was picked, or else the longest piece of the critical path. */
  moment() {
    const picked = this.told.moment(), { waits } = this;
    if (picked && picked.thread >= 0 && picked.thread < waits.threads.length) return picked;
    const longest = this.pieces.reduce((best, one) => !best || one.to - one.from > best.to - best.from ? one : best, null);
    return { thread: waits.main, tick: longest ? (longest.from + longest.to) / 2 : 0 };
  }

  draw() {
    if (!this.waits || !this.canvas.clientWidth) return;
    const { waits } = this, { threads } = waits, { pen, width, height, top } = windowed(this.canvas, this.box, RULER + threads.length * ROW + 4, textScale());
    for (const sign of document.querySelectorAll("#wait-legend .waits")) sign.replaceWith(stateSign("waits"));
    this.top = top;
    const [from, to] = this.told.shown(), ink = inks(), x = tick => (tick - from) / (to - from || 1) * width, y = thread => RULER + thread * ROW - top + 18;
    const isInView = thread => y(thread) > -ROW && y(thread) < height + ROW;
    pen.textBaseline = "top";
    pen.font = "12px system-ui, sans-serif";
    for (let thread = 0; thread < threads.length; thread++) {
      if (!isInView(thread)) continue;
      let edge = -1;
      for (let row = waits.first[thread]; row < waits.first[thread + 1]; row++) {
        const left = x(waits.begin[row]), right = x(waits.begin[row] + waits.length[row]), state = waits.state[row];
        if (right < 0 || left > width || right < edge && state !== RUNS) continue;
        stateBar(pen, STATE[state], [left, y(thread) + BAR], Math.max(0.5, right - left), BAR, ink);
        edge = Math.max(edge, Math.ceil(right - 0.5));
      }
    }
    this.arrows(pen, x, y, isInView, from, to, ink);
    this.drawPath(pen, x, y, ink);
    this.names(pen, y, isInView, ink);
    this.ruler(pen, width, ink, x);
    const { thread, tick } = this.moment();
    pen.fillStyle = ink("--mark");
    pen.fillRect(x(tick) - 1, RULER, 2, height);
    pen.strokeStyle = ink("--mark");
    pen.strokeRect(x(tick) - 5.5, y(thread) - 2.5, 11, BAR + 5);
    const selected = this.told.selected();
    if (selected) { pen.fillStyle = ink("--brush"); pen.fillRect(x(selected[0]), 0, x(selected[1]) - x(selected[0]), height); }
    speak(this.canvas, () => "Wakeups: the longest waits in view", ["Woken thread", "Waited", "Woken by"], () => wakeups(waits, [from, to], 60)
      .map(row => [this.name(waits.thread[row]), `${this.did(row)}, ${this.time(waits.length[row])}`, this.name(waits.waker[row] - 1)]));
  }

  names(pen, y, isInView, ink) {
    pen.font = "12px system-ui, sans-serif";
    this.waits.threads.forEach((_, thread) => {
      if (!isInView(thread)) return;
      const name = this.name(thread), { width } = pen.measureText(name);
      /* no arrow and no path runs through a name */
      pen.fillStyle = ink("--bg");
      pen.fillRect(2, y(thread) - 14, width + 4, 14);
      pen.fillStyle = ink(thread < this.waits.explained ? "--fg" : "--dim");
      pen.fillText(name, 4, y(thread) - 13);
    });
  }

  /* From the thread that ended a wait to the one that waited. */
  arrows(pen, x, y, isInView, from, to, ink) {
    const { waits } = this;
    pen.strokeStyle = pen.fillStyle = ink("--dim");
    pen.globalAlpha = 0.6;
    for (const row of wakeups(waits, [from, to], MOST_ARROWS)) {
      const waker = waits.waker[row] - 1, woken = waits.thread[row], at = x(waits.begin[row] + waits.length[row]), way = Math.sign(woken - waker);
      if (!way || woken >= waits.explained || !isInView(woken) && !isInView(waker)) continue;
      const start = y(waker) + (way > 0 ? BAR : 0), end = y(woken) + (way > 0 ? 0 : BAR);
      pen.beginPath();
      pen.moveTo(at, start);
      pen.lineTo(at, end);
      pen.stroke();
      pen.beginPath();
      pen.moveTo(at, end);
      pen.lineTo(at - 3, end - 6 * way);
      pen.lineTo(at + 3, end - 6 * way);
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  drawPath(pen, x, y, ink) {
    pen.strokeStyle = ink("--wait-lock");
    pen.lineWidth = 3;
    pen.beginPath();
    let before = null, last = -Infinity;
    for (const { row, from, to } of this.pieces) {
      const level = y(this.waits.thread[row]) + BAR + 3, at = x(from);
      /* steps between threads that are closer than STEPS pixels would be one red area */
      if (before !== null && before !== level && at - last >= STEPS) { pen.moveTo(at, before); pen.lineTo(at, level); last = at; }
      pen.moveTo(at, level);
      pen.lineTo(x(to), level);
      before = level;
    }
    pen.stroke();
    pen.lineWidth = 1;
  }

  ruler(pen, width, ink, x) {
    const { tick } = this.profile, [from, to] = this.told.shown().map(one => one * tick), step = stepFor(to - from, width);
    pen.fillStyle = ink("--bg");
    pen.fillRect(0, 0, width, RULER);
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = ink("--dim");
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) ruled(pen, atRuler(t, step), x(t / tick) + 2, width);
  }

  showPath([from, to]) {
    const { waits, pieces } = this, sums = pathSums(waits, pieces), all = pieces.reduce((sum, one) => sum + one.to - one.from, 0);
    const rows = sums.slice(0, MOST_SUMS).map(({ thread, text, time, longest }) => el("tr", {}, el("td", { textContent: percent(time / (all || 1)) }),
      el("td", { textContent: this.time(time) }),
      el("td", {}, button(`${this.name(thread)} ${waits.texts[text]}`, () => this.told.pick(waits.main, (longest.from + longest.to) / 2), { className: "evidence" }))));
    const left = waits.total - waits.n, missing = left > 0 ? `; ${counted(left, "turn")} ${left === 1 ? "is" : "are"} too short to be here` : "";
    const title = el("caption", { textContent: `Critical path of ${this.name(waits.main)}, ${this.time(from)} to ${this.time(to)}${missing}` });
    this.path.replaceChildren(title, el("tbody", {}, ...rows));
  }

  /* What a thread waited for, who ended that, and what that one did: to the root. */
  showChain() {
    const { waits } = this, { thread, tick } = this.moment(), chain = chainAt(waits, thread, tick);
    const stack = (title, number) => number ? el("div", {}, el("h3", { textContent: title }), ...this.stack(waits.stacks[number - 1])) : "";
    const parts = chain.map((row, i) => el("section", {},
      el("p", { textContent: `${i ? "meanwhile " : ""}${this.name(waits.thread[row])} ${this.did(row)} for ${this.time(waits.length[row])}${this.ended(row)}` }),
      el("div.stacks", {}, stack("its stack", waits.stack[row]), stack("the waker's stack", waits.waker_stack[row]))));
    const title = el("h2", { textContent: `${this.name(thread)} at ${this.time(tick)}` });
    this.chain.replaceChildren(title, ...parts.length ? parts : [el("p", { textContent: "Nothing is known about the thread at this time." })]);
  }

  /* A frame's text and category; those of Python have their lines. */
  frame(name) { return this.waits.python[name] || this.frames.get(name) || [name, UNKNOWN]; }

  /* A stack as lists: the program's own frames, and behind a button all of them. */
  stack(names) {
    const frames = names.map(name => this.frame(name)), own = frames.filter(([, category]) => category === OWN);
    const list = shown => el("ol", {}, ...shown.slice(0, FRAMES).map(([text]) => el("li", { textContent: text })));
    if (!frames.length) return [el("p.dim", { textContent: "none was recorded" })];
    if (!own.length || own.length === frames.length) return [list(frames)];
    return [list(own), el("details", {}, el("summary", { textContent: `all ${counted(Math.min(FRAMES, frames.length), "frame")}` }), list(frames))];
  }

  /* The critical path and the chain. */
  text() { return `${this.path.innerText}\n\n${this.chain.innerText}\n`; }

  ended(row) {
    const { waits } = this;
    return waits.waker[row] ? `, ended by ${this.name(waits.waker[row] - 1)}` : "";
  }
}
