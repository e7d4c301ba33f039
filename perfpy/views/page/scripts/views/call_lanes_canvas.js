/* A lane for each thread, and its calls as bars: only the lanes that are scrolled into view are drawn. */

import { callText, rowAt, rowsIn, zoomed } from "../model/call_lanes.js";
import { INK, token } from "../model/categories.js";
import { atRuler, duration, stepFor, whole } from "../model/words.js";
import { ordered } from "./brush.js";
import { fitted, inks, prepared, ruled, stateBar, textScale } from "./elements.js";

const LANE = 24, RULER = 20, NAMES = 190;

export class CallLanesCanvas {
  /* box: scrolls; room: as high as all lanes. told: {dark(), matching() -> row => bool, or null, say(text), choose(row), moved()} */
  constructor({ box, room, canvas }, trace, told) {
    Object.assign(this, { box, room, canvas, trace, told, all: [0, Math.max(1, trace.span)], chosen: -1, drag: null });
    this.shown = this.all;
    box.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(box);
    canvas.addEventListener("pointerdown", event => { this.drag = [this.timeAt(event), this.timeAt(event)]; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointermove", event => this.moved(event));
    canvas.addEventListener("pointerup", event => this.released(event));
    canvas.addEventListener("pointercancel", () => { this.drag = null; this.draw(); });
    canvas.addEventListener("wheel", event => {
      if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
      event.preventDefault();
      this.show(zoomed(this.shown, this.timeAt(event), event.deltaY + event.deltaX > 0 ? 1.25 : 0.8, this.all));
    }, { passive: false });
  }

  /* Sizes are in pixels of the usual size of text. */
  get whole() { return this.canvas.clientWidth / textScale(); }
  get width() { return Math.max(50, this.whole - this.names); }
  get names() { return Math.min(NAMES, this.whole / 3); }

  timeAt(event) {
    const r = this.canvas.getBoundingClientRect(), [from, to] = this.shown;
    return from + (to - from) * Math.max(0, Math.min(1, ((event.clientX - r.left) / textScale() - this.names) / this.width));
  }

  laneAt(event) {
    const scale = textScale(), y = (event.clientY - this.canvas.getBoundingClientRect().top) / scale - RULER, lane = Math.floor((y + this.box.scrollTop / scale) / LANE);
    return y >= 0 && lane < this.trace.lanes.length ? lane : -1;
  }

  /* [columns, row] under the pointer, or null */
  under(event) {
    const lane = this.laneAt(event), slack = 3 * (this.shown[1] - this.shown[0]) / this.width;
    if (lane < 0) return null;
    for (const columns of [this.trace.calls, this.trace.merged]) {
      const row = rowAt(columns, lane, this.timeAt(event), slack);
      if (row >= 0) return [columns, row];
    }
    return null;
  }

  moved(event) {
    if (this.drag) {
      this.drag[1] = this.timeAt(event);
      this.draw();
      return;
    }
    const found = this.under(event), lane = this.laneAt(event);
    this.told.say(found ? this.describe(...found) : lane < 0 ? "" : this.thread(lane));
  }

  released(event) {
    if (!this.drag) return;
    const range = ordered(...this.drag), [from, to] = this.shown;
    this.drag = null;
    if (range[1] - range[0] > (to - from) / 200) {
      this.show(range);
      return;
    }
    const found = this.under(event);
    this.choose(found && found[0] === this.trace.calls ? found[1] : -1);
  }

  choose(row) {
    this.chosen = row;
    this.told.choose(row);
    this.draw();
  }

  /* Show a range of time. */
  show(range) {
    const length = Math.max(10, range[1] - range[0]), from = Math.max(this.all[0], Math.min(range[0], this.all[1] - length));
    this.shown = [from, Math.min(this.all[1], from + length)];
    this.draw();
    this.told.moved();
  }

  /* Move or zoom by keys: whether the key did something. */
  key(name) {
    const [from, to] = this.shown, step = (to - from) / 5, middle = (from + to) / 2;
    if (name === "ArrowLeft") this.show([from - step, to - step]);
    else if (name === "ArrowRight") this.show([from + step, to + step]);
    else if (name === "ArrowDown" || name === "ArrowUp") this.box.scrollTop += (name === "ArrowDown" ? LANE : -LANE) * textScale();
    else if (name === "+" || name === "=") this.show(zoomed(this.shown, middle, 0.5, this.all));
    else if (name === "-") this.show(zoomed(this.shown, middle, 2, this.all));
    else if (name === "Escape") this.show(this.all);
    else return false;
    return true;
  }

  thread(lane) {
    const [pid, tid, comm] = this.trace.lanes[lane];
    return tid < 0 ? comm : pid === tid ? `${comm} ${tid}` : `${comm} ${tid} of ${pid}`;
  }

  describe(columns, row) {
    const at = `${this.thread(columns.lane[row])}, at ${duration(columns.begin[row])}: `;
    if (columns === this.trace.calls) return `${at}${callText(this.trace, row)}, ${duration(columns.took[row])}`;
    return `${at}${whole(columns.count[row])} short ${this.trace.thing}s, ${duration(columns.total[row])} in all`;
  }

  draw() {
    const size = textScale(), whole = RULER + this.trace.lanes.length * LANE + 4;
    this.room.style.height = `${whole * size}px`;
    const height = Math.min(this.box.clientHeight / size, whole);
    if (!this.canvas.clientWidth || height <= 0) return;
    const [pen, full] = prepared(this.canvas, height, null, size), ink = inks(), left = this.names, width = full - left;
    const scale = width / (this.shown[1] - this.shown[0]), top = this.box.scrollTop / size;
    const first = Math.floor(top / LANE), end = Math.min(this.trace.lanes.length, Math.ceil((top + height - RULER) / LANE));
    const look = { pen, ink, left, width, scale, dark: this.told.dark(), matching: this.told.matching() };
    this.ruler(look, height);
    pen.save();
    pen.beginPath();
    pen.rect(0, RULER, full, height);
    pen.clip();
    for (let lane = first; lane < end; lane++) this.drawLane(lane, RULER + lane * LANE - top, look);
    pen.restore();
    if (!this.drag) return;
    const [from, to] = ordered(...this.drag);
    pen.fillStyle = ink("--brush");
    pen.fillRect(left + (from - this.shown[0]) * scale, 0, (to - from) * scale, height);
  }

  drawLane(lane, y, { pen, ink, left, width, scale, dark, matching }) {
    const { trace } = this, [from, to] = this.shown, x = time => left + (Math.max(from, Math.min(to, time)) - from) * scale;
    pen.fillStyle = ink("--line");
    pen.fillRect(0, y + LANE - 1, left + width, 1);
    pen.font = "12px ui-monospace, monospace";
    pen.textBaseline = "middle";
    const letter = pen.measureText("m").width;
    pen.fillStyle = ink("--fg");
    pen.fillText(fitted(pen, this.thread(lane), left - 20, letter), 16, y + LANE / 2);
    const { merged, calls } = trace;
    pen.globalAlpha = 0.45;
    pen.fillStyle = token(trace.colours.at(-1), dark);
    for (let [row, end] = rowsIn(merged, lane, this.shown); row < end; row++) {
      const begin = x(merged.begin[row]);
      pen.fillRect(begin, y + 8, Math.max(1, x(merged.begin[row] + merged.took[row]) - begin), LANE - 16);
    }
    pen.globalAlpha = 1;
    let drawn = -1;
    for (let [row, end] = rowsIn(calls, lane, this.shown); row < end; row++) {
      const begin = x(calls.begin[row]), length = x(calls.begin[row] + calls.took[row]) - begin;
      /* what falls on a drawn pixel is not seen */
      if (length < 0.5 && begin < drawn && row !== this.chosen && !calls.error[row]) continue;
      drawn = begin + Math.max(1, length);
      const group = trace.names[calls.name[row]][1];
      pen.globalAlpha = matching && !matching(row) ? 0.2 : 1;
      const colour = trace.colours[group], wide = Math.max(1, length - (length > 3 ? 1 : 0)), isState = typeof colour === "string";
      if (isState) stateBar(pen, colour, [begin, y + LANE - 4], wide, LANE - 7, ink);
      else { pen.fillStyle = token(colour, dark); pen.fillRect(begin, y + 3, wide, LANE - 7); }
      if (calls.error[row]) { pen.fillStyle = ink("--mark"); pen.fillRect(begin, y + LANE - 6, Math.max(1, length), 3); }
      /* low bars have no room for names, which are those of their states */
      const text = isState && colour !== "runs" ? "" : fitted(pen, trace.names[calls.name[row]][0], length - 6, letter);
      if (text) { pen.fillStyle = INK; pen.fillText(text, begin + 3, y + LANE / 2 - 1); }
      pen.globalAlpha = 1;
      if (row === this.chosen) { pen.strokeStyle = ink("--fg"); pen.lineWidth = 2; pen.strokeRect(begin, y + 2, Math.max(2, length), LANE - 5); }
    }
  }

  /* Lines of the times are below the bars, which they would cut in two. */
  ruler({ pen, ink, left, width, scale }, height) {
    const [from, to] = this.shown, step = stepFor(to - from, width);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "top";
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const x = left + (t - from) * scale;
      pen.fillStyle = ink("--line");
      pen.fillRect(x, 0, 1, height);
      pen.fillStyle = ink("--dim");
      ruled(pen, atRuler(t, step), x + 4, left + width);
    }
  }
}
