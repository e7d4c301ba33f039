/* Which colour a frame has: by its file; by what was found; by what changed; by whether it ran or waited. */

import { share, shareOfAll } from "./trees.js";

/* of the names in frames, in light and dark */
export const INK = "#10131a";
const HUES = [46, 140, 190, 265, 330, 90, 165, 230], KERNEL = 22, ON = 30, OFF = 212;

export function hash(text) {
  let h = 2166136261;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  return h >>> 0;
}

/* tree, i: the node; look: {names, dark, hits: by name or null, off: whether all of it are waits} */
export function colour(tree, i, look) {
  const light = look.dark ? 62 : 74;
  const f = tree.name[i];
  if (look.hits) return f >= 0 && look.hits[f] ? (look.dark ? "#e07be0" : "#e68ae6") : `hsl(0 0% ${look.dark ? 45 : 86}%)`;
  if (tree.kind === "changes") {
    const before = share(tree, i, 0), after = share(tree, i, 1), change = (after - before) / Math.max(before, after, 1e-12);
    return `hsl(${change > 0 ? 8 : 215} ${Math.round(Math.abs(change) * 85)}% ${light + 4}%)`;
  }
  if (f < 0) return `hsl(0 0% ${light}%)`;
  const [name, dso, kernel] = look.names[f], tone = hash(name) % 13;
  if (tree.kind === "parts") {
    const all = shareOfAll(tree, i) * (tree.totals[0] + tree.totals[1]), waited = all ? tree.sum[1][i] / all : 0;
    return `hsl(${waited > 0.5 ? OFF : ON} ${Math.round(12 + 68 * Math.abs(2 * waited - 1))}% ${light + 2 - tone * 0.5}%)`;
  }
  if (look.off) return `hsl(${OFF - 10 + hash(dso) % 20} 65% ${light + 6 - tone * 0.8}%)`;
  if (!dso) return `hsl(210 8% ${light - tone / 2}%)`;
  const hue = kernel ? KERNEL : HUES[hash(dso) % HUES.length];
  /* blues and violets are darker than others of the same lightness: names must be readable on them */
  return `hsl(${hue} ${kernel ? 80 : 60}% ${light - tone * 0.8 + (hue > 220 && hue < 340 ? 12 : 0)}%)`;
}
