/* Elements with text (never markup), and canvases as large as they are shown. */

import { WAITING, token } from "../model/categories.js";

const RESTED = 400; /* ms */

/* kind: a tag, with its class after a dot; values: properties, or attributes where the name has a dash or is `role`. */
export function el(kind, values = {}, ...children) {
  const [tag, style] = kind.split("."), made = document.createElement(tag);
  if (style) made.className = style;
  for (const [name, value] of Object.entries(values)) {
    if (name.includes("-") || name === "role") made.setAttribute(name, String(value)); else made[name] = value;
  }
  made.append(...children);
  return made;
}

export const button = (text, onclick, values = {}) => el("button", { type: "button", textContent: text, onclick, ...values });

/* How large text is, as a multiple of its usual size. */
export const textScale = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16 || 1;

/* A canvas of the width that it has on the screen: [pen, width]. height, width: in pixels of the usual size of text; scale: how large they are here. */
export function prepared(canvas, height, width = null, scale = 1) {
  const ratio = (window.devicePixelRatio || 1) * scale, pen = canvas.getContext("2d"), wide = width ?? (canvas.clientWidth || 800) / scale;
  const [across, down] = [wide, height].map(size => Math.round(size * ratio)), high = `${height * scale}px`;
  /* even the same height would have all of the page laid out again */
  if (canvas.style.height !== high) canvas.style.height = high;
  if (canvas.width !== across || canvas.height !== down) Object.assign(canvas, { width: across, height: down });
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, wide, height);
  return [pen, wide];
}

/* How high a box can show its contents: as it is where the window holds all parts, else a share of the window, below which the page scrolls. */
export function roomOf(box) {
  const style = getComputedStyle(box), pads = parseFloat(style.paddingTop) + parseFloat(style.paddingBottom);
  return matchMedia("(min-width: 800px) and (min-height: 560px)").matches ? box.clientHeight - pads : 0.7 * window.innerHeight;
}

/* How wide the contents of a box can be without a scroll bar. */
export function widthOf(box) {
  const style = getComputedStyle(box);
  return Math.max(0, box.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
}

/* A canvas no higher than its box, which stays in view while a picture of any height is scrolled: {pen, width, height, top: of what is in view}.
   Browsers have no canvases of more than 16 to 64 thousand pixels. whole, scale: as in prepared(). */
export function windowed(canvas, box, whole, scale = 1) {
  const height = Math.max(1, Math.min(whole, Math.ceil(roomOf(box) / scale))), [pen, width] = prepared(canvas, height, null, scale), high = `${whole * scale}px`;
  if (canvas.parentElement.style.height !== high) canvas.parentElement.style.height = high;
  return { pen, width, height, top: Math.max(0, Math.min(box.scrollTop / scale, whole - height)) };
}

/* The colours of the style sheet. */
export function inks() {
  const style = getComputedStyle(document.documentElement);
  return name => style.getPropertyValue(name).trim();
}

/* Light or dark, or as the system is ("auto"). */
export function useTheme(wanted) {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.getElementById("theme").value = wanted;
  document.documentElement.dataset.theme = wanted === "auto" ? (dark ? "dark" : "light") : wanted;
}

export const isDark = () => document.documentElement.dataset.theme === "dark";

/* What a thread does, and how high its bar is: states differ without colours, too. Those of waits are the colour of frames that wait, with the stroke that frames
   have at their foot. */
const STATES = { runs: [1, "--turn-runs"], ready: [0.5, "--wait-cpu"], waits: [0.3, "--turn-waits"] };
const STROKE = 2;

export function stateBar(pen, state, [left, foot], width, tall, ink) {
  const [part, name] = STATES[state], high = Math.round(tall * part), isWait = state === "waits";
  pen.fillStyle = isWait ? token(WAITING, isDark()) : ink(name);
  pen.fillRect(left, foot - high, width, high);
  if (!isWait) return;
  pen.fillStyle = ink(name);
  pen.fillRect(left, foot - STROKE, width, STROKE);
}

/* The same in a legend. */
export function stateSign(state) {
  const sign = el("span.sign");
  sign.classList.add(state);
  if (state === "waits") sign.style.background = token(WAITING, isDark());
  return sign;
}

/* A picture as a table that screen readers find, and eyes do not; made when the page has rested. rows() -> cells of each row. */
const spoken = new Map();
export function speak(canvas, caption, titles, rows) {
  const { pending } = spoken.get(canvas.id) || {};
  clearTimeout(pending);
  spoken.set(canvas.id, { pending: setTimeout(() => {
    const region = document.getElementById("spoken"), name = `spoken-${canvas.id}`;
    const line = (tag, cells) => el("tr", {}, ...cells.map(text => el(tag, { textContent: text })));
    const body = el("tbody", {}, ...rows().map(cells => line("td", cells)));
    const table = el("table", { id: name }, el("caption", { textContent: caption() }), el("thead", {}, line("th", titles)), body);
    const before = document.getElementById(name);
    if (before) before.replaceWith(table); else if (region) region.append(table);
  }, RESTED) });
}

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/* Scroll a row of buttons sideways so that one of them is in view. */
export function inView(row, one) {
  if (row.dataset.shown === one.id) return;
  row.dataset.shown = one.id;
  const [outer, inner] = [row, one].map(each => each.getBoundingClientRect());
  row.scrollLeft += Math.min(0, inner.left - outer.left) + Math.max(0, inner.right - outer.right);
}

/* The text of a ruler at a place, if it ends before the picture does. */
export function ruled(pen, text, x, width) { if (x + pen.measureText(text).width <= width) pen.fillText(text, x, 3); }

/* A text that fits into a width, or "" where there is no room for one. */
export function fitted(pen, text, width, letter) {
  const room = Math.floor(width / letter);
  if (room < 3) return "";
  return text.length > room ? text.slice(0, room - 1) + "\u2026" : text;
}

/* A text with what a pattern finds in it marked. */
export function marked(text, pattern) {
  const parts = [];
  if (!pattern) return [text];
  const every = new RegExp(pattern.source, "gi");
  let place = 0;
  for (const match of text.matchAll(every)) {
    if (!match[0]) break;
    parts.push(text.slice(place, match.index), el("mark", { textContent: match[0] }));
    place = match.index + match[0].length;
  }
  return [...parts, text.slice(place)];
}

/* Names of functions are broken between their parts rather than amid a word. parts: texts and elements (marked). */
export function breakable(parts) {
  const pieces = text => text.split(/(?<=[^_]_|::|[,<])(?=\w)/).flatMap((piece, i) => i ? [el("wbr"), piece] : [piece]);
  return parts.flatMap(part => typeof part === "string" ? pieces(part) : [part]);
}

/* The packed columns of a chunk. It stands behind the script, and so may still have to be read. */
export async function chunkOf(number) {
  const find = () => document.getElementById(`chunk-${number}`);
  if (!find() && document.readyState === "loading") await new Promise(done => document.addEventListener("DOMContentLoaded", done, { once: true }));
  return JSON.parse(find().textContent);
}

/* Lets the browser draw and react. */
export const pause = () => new Promise(done => setTimeout(done));
