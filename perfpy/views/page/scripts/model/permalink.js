/* What a view shows <-> the fragment of the page's address. Values from a fragment are only numbers, words of a list, and a text to search for. */

const LONGEST = 4000; /* characters */
/* key -> [default, kind]; a kind is a list of words, "number", "range" (two numbers) or "text" */
const TABS = ["flame", "tree", "callers", "functions", "sandwich", "chart", "waits", "marks", "code", "heat"];
export const FIELDS = {
  tab: ["flame", TABS], event: [null, "text"], commands: [null, "text"], process: [null, "number"], group: [null, "text"], thread: [null, "number"], cpu: [null, "number"],
  module: [null, "text"], category: [null, "number"], inside: [null, "number"], range: [null, "range"], shown: [null, "range"], against: [null, "range"],
  form: ["folded", ["all", "folded", "own"]], find: ["", "text"], chosen: [null, "number"], side: [-1, "number"], layout: ["icicle", ["icicle", "flame"]],
  root: ["outer", ["outer", "inner"]], recursion: ["all", ["all", "merged"]], zoom: ["", "text"], theme: ["auto", ["auto", "light", "dark"]], panel: ["open", ["open", "closed"]],
  strand: [null, "number"], waiter: [null, "number"], moment: [null, "number"], column: [null, "number"], sort: [null, "text"], open: ["", "text"],
  lanes: ["thread", ["thread", "cpu"]], code: [null, "text"], codeKind: ["both", ["both", "source", "instructions"]],
};

/* The same of a page of lanes: the name whose bars are stressed, and the bar that was clicked, by their numbers. */
export const LANE_FIELDS = {
  shown: [null, "range"], find: ["", "text"], only: [null, "number"], chosen: [null, "number"], theme: ["auto", ["auto", "light", "dark"]],
};

/* The view that an address without one means; null: the address always has the view. */
export function beginWith(tab) { FIELDS.tab[0] = tab; }

/* What a page of waits begins with: their view, and the process that is explained, if it is only one. */
export function beginning({ waits, threads }) {
  const explained = waits.threads.slice(0, waits.explained).map(([tid]) => threads.find(thread => thread[1] === tid)?.[0] ?? null);
  return { tab: "waits", process: new Set(explained).size === 1 ? explained[0] : null };
}

function readValue(text, kind, fallback) {
  if (Array.isArray(kind)) return kind.includes(text) ? text : fallback;
  if (kind === "text") return text.slice(0, LONGEST);
  const numbers = text.split("-").map(one => one === "" ? NaN : Number(one));
  if (kind === "number") return numbers.length === 1 && Number.isFinite(numbers[0]) ? numbers[0] : fallback;
  return numbers.length === 2 && numbers[0] >= 0 && numbers[1] > numbers[0] && Number.isFinite(numbers[1]) ? numbers : fallback;
}

export function stateOf(fragment, fields = FIELDS) {
  const given = new URLSearchParams(fragment.replace(/^#/, "")), state = {};
  for (const [key, [fallback, kind]] of Object.entries(fields)) state[key] = given.has(key) ? readValue(given.get(key), kind, fallback) : fallback;
  return state;
}

export function fragmentOf(state, fields = FIELDS) {
  const parts = new URLSearchParams();
  for (const [key, [fallback, kind]] of Object.entries(fields)) {
    const value = state[key];
    if (value === fallback || value === null || value === undefined) continue;
    parts.set(key, kind === "range" ? value.map(one => +one.toFixed(9)).join("-") : String(value));
  }
  return parts.toString();
}

/* Put a fragment into the address. isStep: as a step of its history, which the browser's Back undoes. */
export function putAddress(fragment, isStep = false) {
  if (fragment !== location.hash.slice(1)) history[isStep ? "pushState" : "replaceState"](null, "", fragment ? `#${fragment}` : location.pathname + location.search);
}
