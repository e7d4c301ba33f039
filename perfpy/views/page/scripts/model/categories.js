/* Categories of code and their colours, and the colour of a frame: by category; by search; by change.

The colours differ in lightness as well as in hue, so that they differ for people who do not tell red from green, or blue from yellow, and on
grey paper. */

import { changeOf, shareOfAll } from "./trees.js";

export const OWN = 0;
export const LIBRARY = 1;
export const INTERPRETER = 2;
export const RUNTIME = 3;
export const KERNEL = 4;
export const UNKNOWN = 5;
export const WAITING = 6;
export const COMMAND = 7;
export const CATEGORIES = ["own code", "libraries", "interpreter", "runtime", "kernel", "unknown", "waiting"];
/* in the order in which they are stacked */
export const STACKED = [OWN, LIBRARY, INTERPRETER, RUNTIME, KERNEL, UNKNOWN, WAITING];

/* of the names in frames, in light and dark */
export const INK = "#10131a";
/* hue, saturation, lightness; a kind of code has nearly the same hue in both, but for own code: orange is too near to the waits in dark */
const TOKENS = {
  light: [[39, 89, 52], [208, 98, 60], [122, 23, 49], [285, 80, 83], [14, 77, 50], [220, 3, 53], [195, 19, 78]],
  dark: [[52, 85, 52], [209, 98, 60], [125, 55, 49], [279, 79, 83], [19, 86, 50], [225, 3, 52], [217, 32, 53]],
};
const COMMAND_TOKEN = [215, 10, 72];
export const FOUND = { light: "hsl(318 80% 70%)", dark: "hsl(318 75% 68%)" };

const MADE = new Map();
export function token(category, dark, tone = 0) {
  const key = 16 * category + 2 * tone + (dark ? 1 : 0), made = MADE.get(key);
  if (made) return made;
  const [hue, saturation, light] = category === COMMAND ? COMMAND_TOKEN : TOKENS[dark ? "dark" : "light"][category];
  MADE.set(key, `hsl(${hue} ${saturation}% ${light + tone}%)`);
  return MADE.get(key);
}

export function hash(text) {
  let h = 2166136261;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  return h >>> 0;
}

/* Red for more, blue for less, by points of 100: strong from STRONG points on, grey for none. */
const STRONG = 10;
export const SCALE = [-10, -3, -1, 0, 1, 3, 10];
export function changeColour(points, dark) {
  if (!points) return `hsl(220 4% ${dark ? 62 : 82}%)`;
  const part = Math.min(1, Math.log1p(Math.abs(points)) / Math.log1p(STRONG));
  return `hsl(${points > 0 ? 8 : 212} ${Math.round(45 + 45 * part)}% ${Math.round(dark ? 76 - 14 * part : 90 - 26 * part)}%)`;
}

/* A tone for each name, so that neighbours differ; kept for the names of a profile. */
const TONES = new WeakMap();
function tonesOf(names) {
  if (!TONES.has(names)) TONES.set(names, Uint8Array.from(names, ([name, dso]) => hash(name + dso) % 4));
  return TONES.get(names);
}

/* tree, i: the node; look: {names, dark, hits: by name or null} */
export function colour(tree, i, look) {
  const f = tree.name[i];
  if (look.hits && f >= 0 && look.hits[f]) return FOUND[look.dark ? "dark" : "light"];
  if (tree.kind === "changes") {
    const { change, isNoise } = changeOf(tree, i);
    return changeColour(isNoise ? 0 : 100 * change, look.dark);
  }
  if (f < 0) return token(COMMAND, look.dark);
  return token(look.names[f][2], look.dark, tonesOf(look.names)[f]);
}

/* Which part of a node is time off the CPU, 0 to 1. */
export function waitingPart(tree, i) {
  const all = shareOfAll(tree, i) * (tree.totals[0] + tree.totals[1]);
  return tree.kind === "parts" && all ? tree.sum[1][i] / all : 0;
}
