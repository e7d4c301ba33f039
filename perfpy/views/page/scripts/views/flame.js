/* A tree of stacks drawn on a canvas, with keys and mouse. */

import { INK, OWN, WAITING, colour, waitingPart } from "../model/categories.js";
import { childrenOf } from "../model/trees.js";
import { threadState } from "../model/words.js";
import { calm, fitted, inks, roomOf, speak, windowed } from "./elements.js";

/* rows are as high as fills the room, from LOW to HIGH pixels, or HIGHEST in graphs of WIDE pixels; MATTERS: the share of the width that a row fills to count for that */
const LOW = 18, HIGH = 28, WIDE = 2000, HIGHEST = 80, MATTERS = 0.01, SMALLEST = 0.4, SPOKEN = 60, ZOOM = 160; /* ms */

export class FlameView {
  /* told: {describe(tree, node), label(tree, node), say(text), focused(view), choose(name)}; look: () => see model/categories.js */
  constructor(canvas, box, told, look) {
    Object.assign(this, { canvas, box, told, look, boxes: [], tree: null, zoom: 0, focus: 0, upwards: true, view: [0, 1], hover: -1, row: LOW, rows: 3 });
    box.onscroll = () => this.draw();
    new ResizeObserver(() => this.draw()).observe(box);
    canvas.onpointermove = event => this.pointed(event);
    canvas.onpointerleave = () => this.hovered(-1);
    canvas.onclick = event => { const i = this.nodeAt(event); if (i >= 0) this.zoomTo(i); };
    canvas.onfocus = canvas.onblur = () => this.draw();
    canvas.onkeydown = event => this.key(event);
  }

  /* Draw another tree; keep: the zoomed frame stays, where the new tree has its path. */
  show(tree, keep = false) {
    const zoom = keep && this.tree ? this.sameNode(tree, this.zoom) : 0, focus = keep && this.tree ? this.sameNode(tree, this.focus) : 0;
    Object.assign(this, { tree, zoom, focus, view: this.viewOf(tree, zoom) });
    this.box.classList.toggle("from-foot", this.upwards);
    this.draw();
    if (!keep) this.toRoot();
  }

  sameNode(tree, i) {
    const path = [];
    for (let a = i; a > 0; a = this.tree.parent[a]) path.push(this.tree.name[a]);
    let at = 0;
    while (path.length) {
      const name = path.pop(), next = childrenOf(tree, at).find(k => tree.name[k] === name);
      if (next === undefined) return 0;
      at = next;
    }
    return at;
  }

  viewOf(tree, i) { return [tree.left[i], tree.width[i] || 1]; }

  /* The nodes of every frame in view. */
  shown(width) {
    const t = this.tree, [first, part] = this.view, scale = width / part;
    let found = new Int32Array(1024), n = 0;
    for (let i = 0; i < t.n;) {
      const w = t.width[i] * scale, x = (t.left[i] - first) * scale;
      if (w < SMALLEST || x >= width || x + w <= 0) { i = t.end[i]; continue; }
      if (n === found.length) { const larger = new Int32Array(2 * n); larger.set(found); found = larger; }
      found[n++] = i++;
    }
    return found.subarray(0, n);
  }

  /* Where a frame is across: [x, width]; a callers' frame of the zoomed one is as wide as the view. */
  across(i, width) {
    const [first, part] = this.view, x = (this.tree.left[i] - first) * width / part, left = Math.max(0, x);
    return [left, Math.min(width, x + this.tree.width[i] * width / part) - left];
  }

  /* The frames for the picture, kept while it only scrolls; counts the rows, and makes those that matter as high as fills the room. */
  placed(width) {
    const [first, part] = this.view, last = this.last || {};
    if (last.tree !== this.tree || last.width !== width || last.first !== first || last.part !== part) {
      const frames = this.shown(width), filled = [], { depth } = this.tree;
      for (const i of frames) filled[depth[i]] = (filled[depth[i]] || 0) + this.across(i, width)[1];
      this.last = { tree: this.tree, width, first, part, frames, filled };
    }
    const { frames, filled } = this.last, matter = filled.reduce((count, w) => count + (w >= MATTERS * width ? 1 : 0), 0);
    this.rows = Math.max(3, filled.length);
    this.row = Math.max(LOW, Math.min(width < WIDE ? HIGH : HIGHEST, Math.floor(roomOf(this.box) / Math.max(1, matter + 1))));
    return frames;
  }

  /* Where a row is in the whole graph, in pixels from its top. */
  topOf(row) { return this.upwards ? (this.rows - row - 1) * this.row + 1 : row * this.row + 1; }

  draw() {
    if (!this.tree || !this.canvas.clientWidth) return;
    const width = this.canvas.clientWidth, look = this.look(), frames = this.placed(width);
    const { pen, height, top } = windowed(this.canvas, this.box, this.rows * this.row + 2);
    const size = Math.max(12, Math.min(width < WIDE ? 14 : 24, Math.round(this.row * 0.58)));
    const font = `${size}px ui-monospace, monospace`;
    pen.font = font;
    pen.textBaseline = "middle";
    const letter = pen.measureText("m").width, ink = inks(), style = { look, letter, font, edge: ink("--fg"), wait: ink("--wait-line"), ready: ink("--wait-cpu") };
    this.boxes = [];
    for (const i of frames) {
      const y = this.topOf(this.tree.depth[i]) - top;
      if (y > height || y + this.row < 0) continue;
      const [x, w] = this.across(i, width);
      this.boxes.push([i, x, y, w]);
      this.frame(pen, i, x, y, w, style);
    }
    speak(this.canvas, () => `${this.canvas.getAttribute("aria-label").split(".")[0]}: the widest frames`, ["Depth", "Frame"], () => this.widest());
  }

  /* The widest frames in view in words, with their depth. */
  widest() {
    const found = Array.from(this.shown(100)).map(i => [i, this.across(i, 100)[1]]).filter(([, w]) => w >= 1).sort((a, b) => b[1] - a[1]).slice(0, SPOKEN);
    return found.sort((a, b) => a[0] - b[0]).map(([i]) => [String(this.tree.depth[i]), this.told.describe(this.tree, i)]);
  }

  frame(pen, i, x, y, w, { look, letter, font, edge, wait, ready }) {
    const gap = w > 3 ? 1 : 0, { row: ROW } = this, f = this.tree.name[i];
    pen.fillStyle = colour(this.tree, i, look);
    pen.globalAlpha = look.hits && !this.isFound(i, look.hits) ? 0.35 : 1;
    pen.fillRect(x, y, Math.max(w - gap, 0.4), ROW - 1);
    pen.globalAlpha = 1;
    const isReady = f >= 0 && look.names[f][2] === WAITING && threadState(look.names[f][0]) === "ready", waits = isReady ? 1 : waitingPart(this.tree, i);
    if (waits) { pen.fillStyle = isReady ? ready : wait; pen.fillRect(x, y + ROW - 4, (w - gap) * waits, 3); }
    if (i === this.hover || (i === this.focus && document.activeElement === this.canvas)) {
      pen.strokeStyle = edge;
      pen.lineWidth = i === this.hover ? 1 : 2;
      pen.strokeRect(x + 1, y + 1, Math.max(w - 2 - gap, 1), ROW - 3);
    }
    const text = fitted(pen, this.told.label(this.tree, i), w - 8, letter);
    if (!text) return;
    pen.font = f >= 0 && look.names[f][2] === OWN ? `600 ${font}` : font;
    pen.fillStyle = look.hits && !this.isFound(i, look.hits) && look.dark ? "#e8e8e8" : INK;
    pen.fillText(text, x + 4, y + ROW / 2);
  }

  isFound(i, hits) { const f = this.tree.name[i]; return f >= 0 && hits[f]; }

  nodeAt(event) {
    const r = this.canvas.getBoundingClientRect(), x = event.clientX - r.left, y = event.clientY - r.top;
    const found = this.boxes.findLast(([, bx, by, bw]) => x >= bx && x < bx + bw && y >= by && y < by + this.row);
    return found ? found[0] : -1;
  }

  pointed(event) {
    const i = this.tree ? this.nodeAt(event) : -1;
    this.canvas.title = i > 0 ? this.told.describe(this.tree, i) : "";
    if (i !== this.hover) this.hovered(i);
    if (i >= 0) this.told.say(this.told.describe(this.tree, i));
  }

  hovered(i) {
    this.hover = i;
    if (this.tree) this.draw();
  }

  /* The root's end of the graph into view: deep stacks are higher than the window. */
  toRoot() { this.box.scrollTop = this.upwards ? this.box.scrollHeight : 0; }

  zoomTo(i) {
    this.zoom = this.focus = i;
    this.glide(this.viewOf(this.tree, i));
    this.focused();
  }

  /* The zoomed frame as the names on its stack, outermost first. */
  get path() {
    const names = [];
    for (let i = this.zoom; i > 0; i = this.tree.parent[i]) names.unshift(this.tree.name[i]);
    return names;
  }

  /* Zoom into the frame of a path at once, as far as the tree has it. */
  zoomToPath(names) {
    let at = 0;
    for (const name of names) at = childrenOf(this.tree, at).find(i => this.tree.name[i] === name) ?? at;
    Object.assign(this, { zoom: at, focus: at, view: this.viewOf(this.tree, at) });
    this.draw();
  }

  /* Move the view there: what grows and what leaves is seen. */
  glide(to) {
    const from = this.view, begin = performance.now(), tree = this.tree;
    const step = now => {
      if (this.tree !== tree) return;
      const part = calm() ? 1 : Math.min(1, Math.max(0, (now - begin) / ZOOM)), eased = 1 - (1 - part) ** 3;
      this.view = [from[0] + (to[0] - from[0]) * eased, from[1] + (to[1] - from[1]) * eased];
      if (part === 1) this.view = to;
      this.draw();
      if (part < 1) requestAnimationFrame(step);
    };
    step(calm() ? begin + ZOOM : begin);
  }

  focused() {
    this.told.say(this.told.describe(this.tree, this.focus));
    this.told.focused(this);
  }

  key(event) {
    if (!this.tree || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.startsWith("Arrow")) this.move(event.key);
    else if (event.key === "Enter" || event.key === " ") this.zoomTo(this.focus);
    else if (event.key === "s" && this.focus) this.told.choose(this.tree.name[this.focus]);
    else if (event.key === "Escape" && this.zoom) this.zoomTo(0);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  move(key) {
    const t = this.tree, i = this.focus;
    const outwards = this.upwards ? "ArrowUp" : "ArrowDown", inwards = this.upwards ? "ArrowDown" : "ArrowUp";
    if (key === outwards) this.focus = this.widestChild(i);
    else if (key === inwards && t.parent[i] >= 0) this.focus = t.parent[i];
    else if (key === "ArrowRight" && i) this.focus = this.beside(i, 1);
    else if (key === "ArrowLeft" && i) this.focus = this.beside(i, -1);
    this.draw();
    this.scrollTo(this.focus);
    this.focused();
  }

  scrollTo(i) {
    const y = this.topOf(this.tree.depth[i]), room = this.canvas.clientHeight;
    if (y < this.box.scrollTop) this.box.scrollTop = y;
    else if (y + this.row > this.box.scrollTop + room) this.box.scrollTop = y + this.row - room;
  }

  widestChild(i) {
    return childrenOf(this.tree, i).reduce((best, k) => best === i || this.tree.width[k] > this.tree.width[best] ? k : best, i);
  }

  beside(i, step) {
    const kids = childrenOf(this.tree, this.tree.parent[i]);
    return kids[kids.indexOf(i) + step] ?? i;
  }
}
