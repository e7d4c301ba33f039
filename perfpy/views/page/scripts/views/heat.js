/* The heat map: how many samples there were at each offset within each second (or other column), so that what comes and goes
   within a second, and what stalls, is seen. */

import { heatOf } from "../model/heat_cells.js";
import { JOINED } from "../model/selection.js";
import { atRuler, duration, stepOf, whole } from "../model/words.js";
import { ordered } from "./brush.js";
import { el, inks, prepared, roomOf, speak, textScale, widthOf } from "./elements.js";

/* sizes of columns and rows, and of text where it has its usual size; the axis of a column's time is at the left */
const ROWS = 50, LOW = 7, HIGH = 28, NARROWEST = 2, WIDEST = 96, HEADER = 18, AXIS = 48, LABEL = 56, LINE = 22;

export class HeatMap {
  /* told: {selected() -> range or null, select(range or null, moving), say(text)} */
  constructor(canvas, told) {
    Object.assign(this, { canvas, told, heat: null, cursor: null, begin: null, legend: canvas.closest("section").querySelector(".heat-legend") });
    new ResizeObserver(() => this.draw()).observe(canvas.closest(".box"));
    canvas.onpointerdown = event => {
      this.begin = this.cellAt(event);
      canvas.setPointerCapture(event.pointerId);
    };
    canvas.onpointermove = event => {
      if (!this.heat) return;
      const cell = this.cellAt(event);
      this.say(cell);
      if (this.begin !== null) told.select(this.ticks(this.begin, cell), true);
    };
    canvas.onpointerup = event => {
      if (this.begin === null) return;
      const cell = this.cellAt(event), clicked = cell === this.begin && told.selected();
      told.select(clicked && this.again === cell ? null : this.ticks(this.begin, cell), false);
      this.again = clicked && this.again === cell ? null : cell;
      this.begin = null;
    };
    canvas.onkeydown = event => this.key(event);
    canvas.onblur = () => { this.cursor = null; this.draw(); };
  }

  /* What is selected is only drawn: the cells stay. */
  load(profile, choice, length) {
    const key = JSON.stringify([choice, length, profile.reads]);
    if (key !== this.loadedOf) Object.assign(this, { loadedOf: key, heat: heatOf(profile, choice, length, ROWS) });
    this.tick = profile.tick;
    this.last = profile.last;
    this.what = `samples${choice.event === JOINED ? " on the CPU" : ""}${profile.recordings > 1 ? " of both recordings" : ""} in a cell`;
    this.draw();
    this.explain(inks());
  }

  colourOf(count, ink) { return `rgb(${ink("--heat")} / ${0.12 + 0.88 * count / this.heat.most})`; }

  get columnWidth() {
    return Math.max(NARROWEST, Math.min(WIDEST, ((widthOf(this.canvas.parentElement) || 800) - this.left) / this.heat.columns));
  }

  /* Where the cells begin. */
  get left() { return AXIS * textScale(); }
  get above() { return HEADER * textScale(); }

  /* Cells are as high as fills the room. */
  get cell() { return Math.max(LOW, Math.min(HIGH, Math.floor((roomOf(this.canvas.closest(".box")) - this.above) / ROWS))); }

  /* The cell's number: its column times the rows, and its row. */
  cellAt(event) {
    const r = this.canvas.getBoundingClientRect(), { columns, rows } = this.heat;
    const column = Math.floor((event.clientX - r.left - this.left) / this.columnWidth), row = Math.floor((event.clientY - r.top - this.above) / this.cell);
    return Math.max(0, Math.min(columns - 1, column)) * rows + Math.max(0, Math.min(rows - 1, row));
  }

  /* From the begin of one cell to the end of the other. */
  ticks(a, b) {
    const [first, last] = ordered(a, b), each = this.heat.ticks / this.heat.rows;
    return [Math.floor(first * each), Math.min(this.last + 1, Math.ceil((last + 1) * each))];
  }

  say(cell) {
    const each = this.heat.ticks / this.heat.rows * this.tick, [from, to] = [cell, cell + 1].map(edge => duration(edge * each));
    const count = this.heat.cells[cell];
    this.told.say(`${from} to ${to}: ${whole(count)} ${count === 1 ? "sample" : "samples"}`);
  }

  draw() {
    if (!this.heat || !this.canvas.parentElement.clientWidth) return;
    const { canvas, heat, cell: high, left, above } = this, wide = this.columnWidth, ink = inks();
    const width = Math.round(left + wide * heat.columns), height = above + heat.rows * high;
    canvas.style.width = width + "px";
    const [pen] = prepared(canvas, height, width);
    this.rulers(pen, wide, width, ink("--dim"));
    pen.translate(left, above);
    const colours = new Map(), edges = Array.from({ length: heat.columns + 1 }, (_, column) => Math.round(column * wide)), gap = wide > 6 ? 1 : 0;
    for (let cell = 0; cell < heat.cells.length; cell++) {
      if (!heat.cells[cell]) continue;
      const count = heat.cells[cell], column = Math.floor(cell / heat.rows);
      if (!colours.has(count)) colours.set(count, this.colourOf(count, ink));
      pen.fillStyle = colours.get(count);
      pen.fillRect(edges[column], cell % heat.rows * high, edges[column + 1] - edges[column] - gap, high);
    }
    const selected = this.told.selected();
    if (selected) this.outline(selected.map(tick => tick / heat.ticks * heat.rows), wide, ink("--mark"));
    if (this.cursor !== null) this.outline([this.cursor, this.cursor + 1], wide, ink("--fg"));
    speak(this.canvas, () => "Heat map: the moments with most samples", ["Time", "Samples"], () => this.hottest());
  }

  hottest() {
    const each = this.heat.ticks / this.heat.rows * this.tick, cells = Array.from(this.heat.cells, (count, cell) => [cell, count]).filter(([, count]) => count);
    return cells.sort((a, b) => b[1] - a[1]).slice(0, 40).sort((a, b) => a[0] - b[0]).map(([cell, count]) => [duration(cell * each), whole(count)]);
  }

  /* What a row is, and the colours of few, of some and of most samples. */
  explain(ink) {
    const { heat, tick, what } = this, counts = [...new Set([1, Math.ceil(heat.most / 2), heat.most])].filter(count => count <= heat.most);
    const signs = counts.map(count => {
      const sign = el("span.sign");
      sign.style.background = this.colourOf(count, ink);
      return el("span", {}, sign, whole(count));
    });
    const texts = [`further down: later in the column, ${atRuler(heat.ticks / heat.rows * tick, 1)} a row`, ...(counts.length ? [`${what}:`] : [])];
    this.legend.replaceChildren(...texts.map(text => el("span", { textContent: text })), ...signs);
  }

  /* When columns begin, and at the left how long after that a row is. */
  rulers(pen, wide, width, ink) {
    const { heat, cell: high, left, above, tick } = this, scale = textScale(), across = stepOf(heat.columns, Math.max(1, (width - left) / LABEL / scale));
    pen.font = `${11 * scale}px system-ui, sans-serif`;
    pen.textBaseline = "middle";
    pen.fillStyle = ink;
    for (let column = 0, step = Math.max(1, across); column < heat.columns; column += step) {
      const text = `${+(column * heat.ticks * tick / 1e9).toFixed(2)} s`, x = left + Math.round(column * wide);
      pen.fillRect(x, 0, 1, above);
      if (x + 4 + pen.measureText(text).width <= width) pen.fillText(text, x + 4, above / 2);
    }
    const length = heat.ticks * tick, step = stepOf(length, heat.rows * high / LINE / scale);
    pen.textAlign = "right";
    for (let t = 0; t < length * 0.999; t += step) {
      const y = above + Math.round(t / length * heat.rows * high);
      pen.fillRect(left - 5, y, 5, 1);
      pen.fillText(atRuler(t, step), left - 8, y + 6 * scale);
    }
    pen.textAlign = "left";
  }

  /* A range of cells: the parts of the columns that it covers. */
  outline([from, to], wide, colour) {
    const { heat, cell: high } = this, pen = this.canvas.getContext("2d");
    pen.strokeStyle = colour;
    pen.lineWidth = 2;
    for (let column = Math.floor(from / heat.rows); column * heat.rows < to; column++) {
      const first = Math.max(from - column * heat.rows, 0), last = Math.min(to - column * heat.rows, heat.rows);
      if (last > first) pen.strokeRect(column * wide + 1, first * high + 1, wide - 2, (last - first) * high - 2);
    }
  }

  key(event) {
    const { heat } = this, step = { ArrowLeft: -heat.rows, ArrowRight: heat.rows, ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (event.key === "Escape" && (this.begin !== null || this.told.selected())) { this.begin = null; this.told.select(null, false); }
    else if (step !== undefined) {
      const next = this.cursor === null ? 0 : this.cursor + step;
      this.cursor = Math.max(0, Math.min(heat.cells.length - 1, next));
      if (this.begin !== null) this.told.select(this.ticks(this.begin, this.cursor), true);
      this.draw();
      this.say(this.cursor);
    } else if ((event.key === "Enter" || event.key === " ") && this.cursor !== null) {
      if (this.begin === null) this.begin = this.cursor;
      else { this.told.select(this.ticks(this.begin, this.cursor), false); this.begin = null; }
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
