/* Numbers -> text. */

export const percent = share => (100 * share).toFixed(2) + "%";

/* a change of a share, whose unit is named beside it: points of 100 */
export const points = change => (change > 0 ? "+" : "") + (100 * change).toFixed(2);

/* with commas, without the locale data that a browser has to load first */
export const whole = value => String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");

/* ns -> a time with the digits that matter; what would be rounded up to 1000 is 1 of the next unit */
export function duration(ns) {
  const size = Math.abs(ns);
  if (size >= 999.9995e6) return (ns / 1e9).toFixed(3) + " s";
  if (size >= 999.95e3) return (ns / 1e6).toFixed(3) + " ms";
  return (ns / 1e3).toFixed(1) + " \u00b5s";
}

const SIZES = [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]];

export function size(bytes) {
  const [unit, name] = SIZES.find(([least]) => Math.abs(bytes) >= least) || [1, "B"];
  return `${unit > 1 ? (bytes / unit).toFixed(2) : bytes} ${name}`;
}

/* An event's weight with its unit: "time" (ns), "bytes", or "" for a sum of periods. */
export const amount = (weight, unit) => unit === "time" ? duration(weight) : unit === "bytes" ? size(weight) : whole(weight) + " periods";

/* the sides of a comparison: before and after, or two ranges */
export const sidesOf = tree => tree.compared ? tree.compared.sides : ["before", "after"];
const of = (tree, k) => /^[AB]$/.test(sidesOf(tree)[k]) ? `${tree.compared.lengths ? "of" : "in"} ${sidesOf(tree)[k]}` : sidesOf(tree)[k];

/* A node of a tree, with its name and its shares of the totals, or of ranges that are compared their lengths.
   isPart: its function has other frames, too. */
export function describeNode(tree, i, [name, module], totals, unit, isPart = false) {
  const text = name + (module ? ` (${module})` : "") + (isPart ? ", this frame" : ""), part = k => totals[k] ? tree.sum[k][i] / totals[k] : 0;
  if (tree.kind === "changes") {
    const side = k => `${percent(part(k))} ${of(tree, k)} (${amount(tree.sum[k][i], unit)})`;
    return `${text}: ${side(0)}, ${side(1)}, ${points(part(1) - part(0))} points${tree.compared?.of ? ` of ${tree.compared.of}` : ""}`;
  }
  const amounts = (k, what) => `${percent(part(k))}${what}, ${amount(tree.sum[k][i], unit)}`;
  return tree.kind === "parts" ? `${text}: ${amounts(0, " of the CPU time")}; ${amounts(1, " of the waits")}` : `${text}: ${amounts(0, "")}`;
}

/* The state of a thread in the name of a frame, such as "[S (sleeping)]"; "" for functions. */
export const threadState = name => (/^\[[\w-] \((.+)\)\]$/.exec(name) || ["", ""])[1];

/* The words of all pages for a state. */
export const stateWords = state => ({ ready: "waits for a CPU", waiting: "waits" })[state] || `waits (${state})`;

export const counted = (number, noun) => `${whole(number)} ${number === 1 ? noun : noun + (noun.endsWith("s") ? "es" : "s")}`;

/* a regular expression that finds a text itself */
export const literally = text => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/* what is to be searched: a regular expression, or null for nothing; a text that is no expression is searched literally */
export function patternOf(text) {
  if (!text) return null;
  try { return new RegExp(text, "i"); } catch { return new RegExp(literally(text), "i"); }
}

/* the step between the marks of a ruler: 1, 2 or 5 times a power of ten */
export function stepOf(span, most) {
  const rough = span / Math.max(1, most) || 1, size = 10 ** Math.floor(Math.log10(rough));
  return size * ([1, 2, 5, 10].find(k => k * size >= rough) || 10);
}

/* the step of a ruler of some pixels: as small as leaves room for texts */
export const stepFor = (span, width) => stepOf(span, Math.max(1, Math.min(10, width / 50)));

/* ns on a ruler; its zero has the unit of the steps */
export const atRuler = (ns, step) => {
  if (step >= 1e9) return (ns / 1e9).toFixed(0) + " s";
  return ns ? duration(ns).replace(/(\.\d*?)0+ /, "$1 ").replace(". ", " ") : `0 ${duration(step).split(" ")[1]}`;
};
