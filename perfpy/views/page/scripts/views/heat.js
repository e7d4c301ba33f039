/* The heat map: how many samples there were at each offset within each second (or other column), so that what comes and goes
   within a second, and what stalls, is seen. */

import { heatOf } from "../model/heat_cells.js";
import { ordered } from "./brush.js";
import { duration, whole } from "../model/words.js";
import { inks, prepared, roomOf, speak, widthOf } from "./elements.js";

const ROWS = 50, LOW = 7, HIGH = 28, NARROWEST = 4, WIDEST = 96, HEADER = 18, LABEL = 56;

export class HeatMap {
  /* told: {selected() -> range or null, select(range or null, moving), say(text)} */
  constructor(canvas, told) {
    Object.assign(this, { canvas, told, heat: null, cursor: null, begin: null });
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
    this.draw();
  }

  get columnWidth() {
    return Math.max(NARROWEST, Math.min(WIDEST, (widthOf(this.canvas.parentElement) || 800) / this.heat.columns));
  }

  /* Cells are as high as fills the room. */
  get cell() { return Math.max(LOW, Math.min(HIGH, Math.floor((roomOf(this.canvas.closest(".box")) - HEADER) / ROWS))); }

  /* The cell's number: its column times the rows, and its row. */
  cellAt(event) {
    const r = this.canvas.getBoundingClientRect(), { columns, rows } = this.heat;
    const column = Math.floor((event.clientX - r.left) / this.columnWidth), row = Math.floor((event.clientY - r.top - HEADER) / this.cell);
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
    const { canvas, heat, cell: high } = this, wide = this.columnWidth, width = Math.round(wide * heat.columns), height = HEADER + heat.rows * high, ink = inks();
    canvas.style.width = width + "px";
    const [pen] = prepared(canvas, height, width);
    this.ruler(wide, ink("--dim"));
    pen.translate(0, HEADER);
    const heatInk = ink("--heat");
    for (let cell = 0; cell < heat.cells.length; cell++) {
      if (!heat.cells[cell]) continue;
      pen.fillStyle = `rgb(${heatInk} / ${0.12 + 0.88 * heat.cells[cell] / heat.most})`;
      pen.fillRect(Math.floor(cell / heat.rows) * wide, cell % heat.rows * high, wide - (wide > 6 ? 1 : 0), high);
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

  ruler(wide, ink) {
    const { heat } = this, pen = this.canvas.getContext("2d"), step = Math.ceil(LABEL / wide);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "top";
    pen.fillStyle = ink;
    for (let column = 0; column < heat.columns; column += step) {
      pen.fillRect(column * wide, 0, 1, HEADER);
      const text = `${+(column * heat.ticks * this.tick / 1e9).toFixed(2)} s`;
      if (column * wide + 3 + pen.measureText(text).width <= this.canvas.clientWidth) pen.fillText(text, column * wide + 3, 3);
    }
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
