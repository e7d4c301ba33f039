/* What the page says about what is selected: how many samples, the sentence of a range or of two, and what colours of changes mean. */

import { SCALE, changeColour } from "../model/categories.js";
import { JOINED, NARROWED, collect, onAndOff } from "../model/selection.js";
import { comparedWeights } from "../model/function_sums.js";
import { chargedWeights, totalOf } from "../model/trees.js";
import { WAITS, verdictOf, verdictOfBoth } from "../model/verdicts.js";
import { amount, counted, percent, whole } from "../model/words.js";
import { el } from "./elements.js";
import { nothing, sayCopied } from "./headline.js";

const $ = id => document.getElementById(id);

/* How many samples are selected, or are in either of two ranges. */
export function saySelected(page) {
  if (page.isCompared) {
    const { counted: { counts, parts } } = page, size = (part, k) => amount(totalOf(part.own[k]), page.unit());
    const sizes = k => parts.length > 1 ? `${size(parts[0], k)} on the CPU, ${size(parts[1], k)} off it` : size(parts[0], k);
    const said = k => `${counted(counts[k], "sample")}, ${sizes(k)}`;
    $("selected").textContent = $("selected").title = `A: ${said(0)} \u00b7 B: ${said(1)}`;
    $("empty").hidden = true;
    return;
  }
  const { samples, all } = page.counted, parts = [`${whole(samples)} of ${whole(all)} samples`], { tree } = page.profile;
  if (page.profile.recordings === 1) parts.push(amount(page.bases.reduce((a, b) => a + b, 0), page.unit()));
  if (page.hitNodes) {
    let found = 0, sum = 0;
    for (const column of page.own) for (let i = 0; i < tree.n; i++) if (column[i]) { sum += column[i]; if (page.hitNodes[i]) found += column[i]; }
    parts.push(`${percent(sum ? found / sum : 0)} in stacks with what is searched`);
  }
  $("selected").textContent = $("selected").title = parts.join(" \u00b7 ");
  $("empty").hidden = samples > 0 || ["marks", "code"].includes(page.state.tab);
  $("empty").querySelector("span").textContent = page.profile.events.length ? "The filters leave none." : nothing(page.profile);
}

/* What was said of a frame has other numbers when other samples are selected. */
export function sayFocused(page) {
  const { graph, state: { tab } } = page;
  if ($("about").textContent && tab !== "sandwich") $("about").textContent = tab === "flame" && graph.tree ? page.describe(graph.tree, graph.focus) : "";
}

/* The charged weights of all time with the filters, kept until these change. */
let kept = { key: "" };
function wholeOf(page, choice) {
  const key = JSON.stringify(choice);
  if (kept.key !== key) {
    const [own] = collect(page.profile, choice).own;
    kept = { key, wholeWeights: chargedWeights(page.profile, [own])[0], wholeTotal: own.reduce((a, b) => a + b, 0) };
  }
  return kept;
}

const timeOf = ({ off, time }) => off ? WAITS : time ? "CPU time" : "events";

/* The sentence of two ranges and one event. part: as collectBoth() has it. */
function saidOfBoth(page, { event, own, counts }, lengths, name) {
  const { seconds, off, time } = page.profile.events[event], totals = own.map(totalOf), { grain } = page.counted.base;
  const named = f => `${name(f)} ${/[12]/.test(page.profile.charges[f]) ? "with its libraries" : "itself"}`;
  return verdictOfBoth({ name: named, of: timeOf({ off, time }), lengths, totals, weights: comparedWeights(page.profile, own), samples: counts,
    grain: off ? [0, 0] : grain, cpus: seconds || off ? totals.map((total, k) => total / lengths[k]) : null });
}

/* What the selected range says, or two compared ones. */
export function sayVerdict(page) {
  const { range, state: { range: selected, against } } = page, isShown = page.profile.recordings === 1 && (range || against);
  $("said").hidden = !isShown;
  if (!isShown) return;
  if (against && !selected) { $("said").textContent = "Range A is kept: select another range, B, to compare it with."; return; }
  const event = page.event === JOINED ? onAndOff(page.profile)[0] : page.event, { seconds, time, off } = page.profile.events[event];
  const lengths = [against, range].map(one => one ? (one[1] - one[0]) * page.profile.tick : 1), name = f => `${page.short(f)}`;
  if (page.isCompared) {
    $("said").textContent = page.counted.parts.map(part => saidOfBoth(page, part, lengths, name)).join(" ");
    return;
  }
  const words = { name, of: timeOf({ off, time }), lengths }, samples = page.counted.counts;
  const { wholeWeights, wholeTotal } = wholeOf(page, { ...page.choice(null), event }), total = page.bases[0], [weights] = chargedWeights(page.profile, [page.own[0]]);
  const values = { weights, wholeWeights, samples: samples[0], total, wholeTotal, cpus: seconds ? total / lengths[1] : null };
  $("said").textContent = verdictOf({ ...words, ...values });
}

/* Of what time the headline and the shares of the categories are, which do not follow what is selected. */
export function sayScope(page) {
  const { state } = page, isNarrowed = NARROWED.some(key => state[key] !== null);
  $("headline").dataset.of = !isNarrowed ? "" : page.profile.recordings > 1 ? "(both recordings as a whole)" : "(the whole recording)";
  $("legend").dataset.of = state.range ? "(all that the time line shows)" : "";
}

/* The button that adds waits to CPU time, or leaves them out: how much they are in the whole recording. */
export function sayWaits(page) {
  const { profile, event } = page, both = onAndOff(profile), isJoined = event === JOINED;
  $("waits-too").hidden = !both;
  if (!both) return;
  const all = wholeWaits(profile, both[1]);
  $("waits-too").textContent = `+ Waits ${amount(all, "time")}`;
  $("waits-too").setAttribute("aria-pressed", String(isJoined));
  if (event === both[0] && !page.isCompared) $("change-legend").textContent = `widths: CPU time, without ${amount(all, "time")} that threads waited`;
}

const WAITED = new WeakMap();
function wholeWaits(profile, off) {
  if (!WAITED.has(profile)) WAITED.set(profile, totalOf(profile.events[off].samples[0].stacks.weight));
  return WAITED.get(profile);
}

/* What colours and widths of changes mean. */
export function sayChanges(page) {
  const isChanges = page.kind === "changes", [before, after] = page.compared ? page.compared.sides : ["", ""];
  const areRanges = isChanges && page.isCompared && page.counted.base.lengths, whole = areRanges ? "length" : "total";
  const totals = isChanges && page.compared.of ? page.counted.own.map(totalOf) : page.bases;
  const sizes = isChanges ? totals.map((total, k) => `${k ? after : before} ${amount(total, page.unit())}`).join(", ") : "";
  const ofParts = page.kind === "parts" ? "widths: CPU time and waits of all threads; a stroke at the foot of a frame: the part that waited" : "";
  const shares = isChanges ? `as shares of ${page.compared.of || `each side's ${whole}`} (${sizes})` : "";
  $("change-legend").textContent = isChanges ? `points of ${after} above ${before}, ${shares}; grey: may be chance` : ofParts;
  $("scale").hidden = $("side-box").hidden = !isChanges;
  $("side").value = String(page.state.side);
  [...$("side").options].slice(1).forEach((option, k) => { option.text = [before, after][k]; });
  if (!isChanges) return;
  $("scale").setAttribute("aria-label", "blue: less, red: more, in points of 100");
  $("scale").replaceChildren(...SCALE.map(points => {
    const step = el("span", { textContent: points ? `${points > 0 ? "+" : "\u2212"}${Math.abs(points)}` : "\u00b10" });
    step.style.background = changeColour(points, page.isDark());
    return step;
  }));
}

/* Copy the view as text, or the call tree in place of a picture. */
export function copyView(page) {
  const { tree, callerTree, table, chart, waits, marks, code, state } = page;
  const view = { tree, callers: callerTree, functions: table, chart, waits, marks, code }[state.tab];
  if (page.isEarly) return;
  if (!view) tree.load(page.weighed, page.profile.names);
  const text = (view || tree).text(), what = view ? $(`tab-${state.tab}`).textContent : $("tab-tree").textContent;
  sayCopied(text, `Copied as text: ${what}, ${counted(text.split("\n").length - 1, "line")}`);
}

/* Save the table of functions, of what is selected, as CSV. */
export function saveTable(page) {
  if (page.isEarly || !page.profile.events.length) return;
  if (page.state.tab !== "functions") page.table.load(...page.functions(), page.state.sort);
  const address = URL.createObjectURL(new Blob([page.table.csv()], { type: "text/csv" }));
  el("a", { href: address, download: "functions.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
  $("about").textContent = `Saving ${counted(page.table.wanted().length, "function")} as functions.csv.`;
}
