/* A tree of stacks drawn on a canvas, with keys and mouse. */

import { INK, colour } from "./colours.js";

const ROW = 18, SMALLEST = 0.3;

export class FlameView {
  /* told: {describe(tree, node), label(tree, node), say(text), focused(view), choose(name)}; look: () => see colours.js */
  constructor(canvas, box, told, look) {
    Object.assign(this, { canvas, box, told, look, pen: canvas.getContext("2d"), boxes: [], tree: null, zoom: 0, focus: 0, upwards: true });
    canvas.onmousemove = event => this.pointed(event);
    canvas.onclick = event => { const i = this.nodeAt(event); if (i >= 0) this.zoomTo(i); };
    canvas.onfocus = canvas.onblur = () => this.draw();
    canvas.onkeydown = event => this.key(event);
  }

  show(tree) {
    Object.assign(this, { tree, zoom: 0, focus: 0 });
    this.draw();
    this.toRoot();
  }

  /* Calls visit(node, x, width, row) for every frame that shows under the zoom. */
  shown(width, visit) {
    const t = this.tree, zoom = this.zoom, scale = width / (t.width[zoom] || 1);
    for (let a = zoom; a > 0; a = t.parent[a]) visit(t.parent[a], 0, width, t.depth[t.parent[a]]);
    for (let i = zoom; i < t.end[zoom];) {
      const w = t.width[i] * scale;
      if (w < SMALLEST) { i = t.end[i]; continue; }
      visit(i, (t.left[i] - t.left[zoom]) * scale, w, t.depth[i]);
      i++;
    }
  }

  draw() {
    if (!this.tree) return;
    const { canvas, pen } = this, width = canvas.clientWidth || 900, ratio = window.devicePixelRatio || 1, look = this.look();
    let rows = 0;
    this.shown(width, (i, x, w, row) => { if (row >= rows) rows = row + 1; });
    const height = Math.max(3, rows) * ROW + 2;
    canvas.style.height = height + "px";
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "12px ui-monospace, monospace";
    pen.textBaseline = "middle";
    const letter = pen.measureText("m").width;
    this.boxes = [];
    this.shown(width, (i, x, w, row) => {
      const y = this.upwards ? height - (row + 1) * ROW - 1 : row * ROW + 1;
      this.boxes.push([i, x, y, w]);
      this.frame(i, x, y, w, letter, look);
    });
  }

  frame(i, x, y, w, letter, look) {
    const { pen } = this;
    pen.fillStyle = colour(this.tree, i, look);
    pen.fillRect(x, y, Math.max(w - (w > 3 ? 0.6 : 0), 0.4), ROW - 1);
    if (i === this.focus && document.activeElement === this.canvas) {
      pen.strokeStyle = look.dark ? "#fff" : "#000";
      pen.lineWidth = 2;
      pen.strokeRect(x + 1, y + 1, Math.max(w - 2, 1), ROW - 3);
    }
    const room = Math.floor((w - 6) / letter);
    if (room <= 2) return;
    const text = this.told.label(this.tree, i);
    pen.fillStyle = INK;
    pen.fillText(text.length > room ? text.slice(0, room - 1) + "\u2026" : text, x + 3, y + ROW / 2);
  }

  nodeAt(event) {
    const r = this.canvas.getBoundingClientRect(), x = event.clientX - r.left, y = event.clientY - r.top;
    const found = this.boxes.findLast(([, bx, by, bw]) => x >= bx && x < bx + bw && y >= by && y < by + ROW);
    return found ? found[0] : -1;
  }

  pointed(event) {
    const i = this.tree ? this.nodeAt(event) : -1;
    this.canvas.title = i > 0 ? this.told.label(this.tree, i) : "";
    if (i >= 0) this.told.say(this.told.describe(this.tree, i));
  }

  /* The root's end of the graph into view: deep stacks are higher than the window. */
  toRoot() { this.box.scrollTop = this.upwards ? this.box.scrollHeight : 0; }

  zoomTo(i) {
    this.zoom = this.focus = i;
    this.draw();
    this.toRoot();
    this.focused();
  }

  focused() {
    this.told.say(this.told.describe(this.tree, this.focus));
    this.told.focused(this);
  }

  key(event) {
    if (!this.tree) return;
    if (event.key.startsWith("Arrow")) this.move(event.key);
    else if (event.key === "Enter" || event.key === " ") this.zoomTo(this.focus);
    else if (event.key === "s" && this.focus) this.told.choose(this.tree.name[this.focus]);
    else return;
    event.preventDefault();
  }

  move(key) {
    const t = this.tree, i = this.focus;
    const outwards = this.upwards ? "ArrowUp" : "ArrowDown", inwards = this.upwards ? "ArrowDown" : "ArrowUp";
    if (key === outwards) this.focus = this.widestChild(i);
    else if (key === inwards && t.parent[i] >= 0) this.focus = t.parent[i];
    else if (key === "ArrowRight" && i) this.focus = this.beside(i, 1);
    else if (key === "ArrowLeft" && i) this.focus = this.beside(i, -1);
    this.draw();
    this.focused();
  }

  children(i) {
    const t = this.tree, found = [];
    for (let k = i + 1; k < t.end[i]; k = t.end[k]) if (t.width[k]) found.push(k);
    return found;
  }

  widestChild(i) {
    return this.children(i).reduce((best, k) => best === i || this.tree.width[k] > this.tree.width[best] ? k : best, i);
  }

  beside(i, step) {
    const kids = this.children(this.tree.parent[i]);
    return kids[kids.indexOf(i) + step] ?? i;
  }
}
