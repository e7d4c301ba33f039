/* Lanes of load over time on a canvas, and the brush that selects a range of it. */

import { MOST_LANES, lanesOf } from "./loads.js";
import { duration, percent, whole } from "./words.js";

const LANE = 24, RULER = 18, FEW = 12;

/* A brush over a canvas on which time runs from left to right. told: {range() -> what is shown, selected() -> the selection or
   null, select(range or null)}; timeAt: x in pixels -> ticks. */
export function brush(canvas, told, timeAt) {
  let begin = null;
  canvas.onpointerdown = event => {
    begin = timeAt(event);
    canvas.setPointerCapture(event.pointerId);
  };
  canvas.onpointermove = event => { if (begin !== null) told.select(ordered(begin, timeAt(event)), true); };
  canvas.onpointerup = event => {
    if (begin === null) return;
    const range = ordered(begin, timeAt(event)), [from, to] = told.range();
    begin = null;
    /* a click without a way clears */
    told.select(range[1] - range[0] < (to - from) / 500 ? null : range, false);
  };
  canvas.onpointercancel = () => { begin = null; };
}

export const ordered = (a, b) => a < b ? [a, b] : [b, a];

/* The range that a key makes of a selection, null for all; undefined for keys that mean nothing here. */
export function keyed(event, range, shown) {
  const [from, to] = shown, step = (to - from) / 50;
  if (event.key === "Escape") return null;
  const way = { ArrowLeft: -step, ArrowRight: step }[event.key];
  if (way === undefined) return undefined;
  if (!range) return way > 0 ? [from, from + (to - from) / 10] : [to - (to - from) / 10, to];
  const next = event.shiftKey ? [range[0], Math.max(range[0] + step, range[1] + way)] : [range[0] + way, range[1] + way];
  return next[0] < from || next[1] > to ? range : next;
}

export class Timeline {
  /* told: as brush, and {name(lane, by), pick(lane), picked(), dark colours through css} */
  constructor(parts, told) {
    Object.assign(this, parts, { told, pen: parts.canvas.getContext("2d"), lanes: [], by: "cpu", every: false });
    brush(this.canvas, told, event => {
      const r = this.canvas.getBoundingClientRect(), [from, to] = told.range();
      return from + (to - from) * Math.max(0, Math.min(1, (event.clientX - r.left) / r.width));
    });
    this.canvas.onkeydown = event => {
      const range = keyed(event, told.selected(), told.range());
      if (range === undefined) return;
      told.select(range, false);
      event.preventDefault();
      event.stopPropagation();
    };
    this.more.onclick = () => { this.every = !this.every; this.arrange(); };
  }

  /* Add up the samples again: what is shown has changed, or which samples count. */
  load(profile, choice, by) {
    this.by = by;
    const width = Math.max(100, this.canvas.clientWidth || 800);
    this.lanes = lanesOf(profile, choice, by, this.told.range(), Math.min(1500, Math.floor(width / 2)));
    this.tick = profile.tick;
    this.arrange();
  }

  arrange() {
    this.shown = this.every ? this.lanes : this.lanes.slice(0, FEW);
    this.more.hidden = this.lanes.length <= FEW;
    this.more.textContent = this.every ? `The ${FEW} with most only` : this.lanes.length < MOST_LANES ? `All ${this.lanes.length}` : `The ${MOST_LANES} with most`;
    const ruler = document.createElement("div"), picked = this.told.picked(this.by);
    this.names.replaceChildren(ruler, ...this.shown.map(lane => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = this.told.name(lane, this.by);
      button.title = `${button.textContent}: ${this.loadOf(lane)}`;
      button.setAttribute("aria-label", button.title);
      button.setAttribute("aria-pressed", String(picked === lane.lane));
      button.onclick = () => this.told.pick(lane.lane, this.by);
      return button;
    }));
    this.draw();
  }

  /* In words what the lane draws. */
  loadOf(lane) {
    const mean = bins => bins.reduce((a, b) => a + b, 0) / bins.length, parts = [];
    if (!lane.seconds) return `${whole(lane.weight)} periods`;
    if (mean(lane.on)) parts.push(`${percent(mean(lane.on))} of the time on the CPU`);
    if (mean(lane.off)) parts.push(`${percent(mean(lane.off))} off it`);
    return parts.join(", ") || "nothing in this range";
  }

  draw() {
    const { canvas, pen } = this, width = canvas.clientWidth || 800, height = RULER + this.shown.length * LANE, ratio = window.devicePixelRatio || 1;
    const style = getComputedStyle(document.documentElement), ink = name => style.getPropertyValue(name).trim();
    canvas.style.height = height + "px";
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    this.ruler(width, height, ink("--dim"), ink("--line"));
    this.shown.forEach((lane, row) => {
      const floor = RULER + (row + 1) * LANE - 1;
      this.bars(lane.off, floor, width, ink("--off"), 0.55);
      this.bars(lane.on, floor, width, ink("--on"), 1);
      pen.fillStyle = ink("--line");
      pen.fillRect(0, floor, width, 1);
    });
    const selected = this.told.selected();
    if (selected) this.veil(selected, width, height, ink("--brush"), ink("--accent"));
  }

  bars(bins, floor, width, colour, part) {
    const step = width / bins.length, room = (LANE - 3) * part;
    this.pen.fillStyle = colour;
    for (let i = 0; i < bins.length; i++) {
      if (bins[i]) this.pen.fillRect(i * step, floor - Math.max(1, bins[i] * room), step + 0.3, Math.max(1, bins[i] * room));
    }
  }

  ruler(width, height, ink, line) {
    const { pen } = this, [from, to] = this.told.range(), span = (to - from) * this.tick;
    const count = Math.max(2, Math.min(10, Math.floor(width / 90)));
    const rough = span / count, size = 10 ** Math.floor(Math.log10(rough || 1)), step = size * [1, 2, 5, 10].find(k => k * size >= rough);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "top";
    for (let t = Math.ceil(from * this.tick / step) * step; t <= to * this.tick; t += step) {
      const x = (t - from * this.tick) / (span || 1) * width;
      pen.fillStyle = line;
      pen.fillRect(x, 0, 1, height);
      pen.fillStyle = ink;
      const text = step >= 1e9 ? (t / 1e9).toFixed(0) + " s" : duration(t).replace(/(\.\d*?)0+ /, "$1 ").replace(". ", " ");
      if (x + pen.measureText(text).width + 4 < width) pen.fillText(text, x + 3, 3);
    }
  }

  veil([first, last], width, height, colour, edge) {
    const [from, to] = this.told.range(), x = tick => (tick - from) / (to - from || 1) * width;
    this.pen.fillStyle = colour;
    this.pen.fillRect(x(first), 0, x(last) - x(first), height);
    this.pen.fillStyle = edge;
    for (const at of [x(first), x(last)]) this.pen.fillRect(at - 1, 0, 2, height);
  }
}
