/* What buttons, fields and keys do. */

import { beginning, fragmentOf, putAddress, stateOf } from "../model/permalink.js";
import { JOINED, NARROWED, eventWith, onAndOff } from "../model/selection.js";
import { NO_TASKS } from "../model/task_tree.js";
import { useTheme } from "./elements.js";
import { nothing, sayCopied } from "./headline.js";
import { copyView, saveTable } from "./said.js";

/* no filters, search and selection */
export const NO_FILTERS = { ...NO_TASKS, module: null, category: null, inside: null, range: null, against: null, shown: null, find: "", chosen: null };
/* the parts of the state that Back undoes: what is shown, and not how */
export const STEPS = ["tab", "event", "form", ...NARROWED];
const RANGES = ["range", "against", "shown"];
const $ = id => document.getElementById(id);

export function connect(page) {
  const toggled = (button, box) => () => { $(box).hidden = !$(box).hidden; $(button).setAttribute("aria-expanded", String(!$(box).hidden)); };
  const toggleFilters = toggled("filter", "filter-box");
  $("filter").onclick = () => {
    toggleFilters();
    const box = $("filter-box"), most = $("toolbar").clientWidth - box.offsetWidth - 16; /* where it is whole */
    box.style.setProperty("--button", `${Math.max(0, Math.min($("filter").offsetLeft, most))}px`);
  };
  $("clear").onclick = $("clear-empty").onclick = () => page.clear();
  $("theme").onchange = () => { page.state.theme = $("theme").value; keepAddress(page); theme(page); page.redraw(); };
  matchMedia("(prefers-color-scheme: dark)").onchange = () => { theme(page); page.redraw(); };
  $("lanes").onchange = () => page.change({ lanes: $("lanes").value });
  $("column").onchange = () => page.change({ column: Number($("column").value) });
  $("chart-thread").onchange = () => page.change({ strand: $("chart-thread").value === "" ? null : Number($("chart-thread").value) });
  $("from").onchange = $("to").onchange = () => typedRange(page);
  $("zoom").onclick = () => zoomTime(page);
  $("against").onclick = () => compare(page);
  $("side").onchange = () => page.change({ side: Number($("side").value) });
  $("whole").onclick = () => page.change({ shown: null, range: null });
  $("layout").onchange = () => page.change({ layout: $("layout").value });
  $("root").onchange = () => { page.change({ root: $("root").value, zoom: "" }); page.showFlame(false); };
  $("merged").onclick = () => page.change({ recursion: page.state.recursion === "merged" ? "all" : "merged" });
  $("reset").onclick = () => page.graph.tree && page.graph.zoomTo(0);
  $("copy").onclick = () => copyView(page);
  $("waits-too").onclick = () => addWaits(page);
  $("csv").onclick = () => saveTable(page);
  $("link").onclick = () => sayCopied(location.href, "Copied the address of this view");
  $("panel").onclick = () => {
    if (matchMedia("(max-width: 799px)").matches && !$("details").hidden) { $("details").scrollIntoView(); $("details").focus(); return; } /* it is below the view */
    page.state.panel = $("details").hidden ? "open" : "closed"; keepAddress(page); showPanel(page); page.redraw();
  };
  for (const one of $("tabs").children) one.onclick = () => page.change({ tab: one.id.slice(4) });
  for (const one of $("forms").children) one.onclick = () => page.change({ form: one.dataset.form });
  const step = (box, select) => event => {
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key], all = [...box.children].filter(one => !one.hidden);
    if (!way) return;
    const next = all[(all.indexOf(document.activeElement) + way + all.length) % all.length];
    select(next);
    next.focus();
    event.preventDefault();
  };
  $("tabs").onkeydown = step($("tabs"), one => one.click());
  $("forms").onkeydown = step($("forms"), one => one.click());
  document.onkeydown = event => key(page, event);
  window.onhashchange = () => { $("about").textContent = ""; readAddress(page); page.loadTimes(); };
  /* on paper the page is light */
  window.onbeforeprint = () => { document.documentElement.dataset.theme = "light"; page.redraw(); if (page.table.rows.length) page.table.complete(); };
  window.onafterprint = () => { theme(page); page.redraw(); };
  let resized = 0;
  window.onresize = () => { cancelAnimationFrame(resized); resized = requestAnimationFrame(() => { page.loadTimes(); page.redraw(); }); };
}

function key(page, event) {
  if (event.ctrlKey || event.metaKey || event.altKey || $("dialog").open) return;
  const isTyping = ["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement.tagName), { state } = page;
  if (event.key === "Escape") undo(page);
  else if (isTyping) return;
  else if (event.key === "/") $("search").focus();
  else if (event.key === "m") page.change({ form: state.form === "own" ? "folded" : "own" });
  else if (event.key === "f") page.change({ form: state.form === "all" ? "folded" : "all" });
  else if (event.key === "z") zoomTime(page);
  else if (event.key === "a") compare(page);
  else if (event.key === "s" && state.chosen !== null) page.sandwich(state.chosen);
  else if (event.key === "c") copyView(page);
  else if (event.key === "w") addWaits(page);
  else if (event.key === "e") saveTable(page);
  else if (state.tab === "code" && "hpn".includes(event.key)) page.code.go({ h: 0, p: -1, n: 1 }[event.key]);
  else if (event.key === "?") $("dialog").showModal();
  else if (/^\d$/.test(event.key)) { const tab = [...$("tabs").children].filter(one => !one.hidden).at(event.key === "0" ? 9 : event.key - 1); if (tab) tab.click(); }
  else return;
  event.preventDefault();
}

/* Hide what the profile has nothing for. */
export function showParts({ profile, code, hasCpus }) {
  const isTimed = profile.last > 0;
  $("times").hidden = $("tab-chart").hidden = $("tab-heat").hidden = !isTimed;
  for (const [view, isEmpty] of Object.entries({ marks: !profile.marks, waits: !profile.waits, code: code.isEmpty })) $(`tab-${view}`).hidden = isEmpty;
  for (const one of document.querySelectorAll(".tasks")) one.hidden = !profile.threads.length;
  $("lanes").parentElement.hidden = !hasCpus;
  if (profile.events.length) return;
  $("empty").hidden = false;
  $("empty").querySelector("span").textContent = nothing(profile);
  $("clear-empty").hidden = true;
}

/* Escape takes back the last kind of narrowing: an open box, the search, the zoom, the selected function, the range. */
function undo(page) {
  const open = [["filter-box", "filter"], ["notes-box", "badge"]].find(([id]) => !$(id).hidden);
  if (open) { $(open[0]).hidden = true; $(open[1]).setAttribute("aria-expanded", "false"); $(open[1]).focus(); }
  else if (page.state.find) { $("search").value = ""; page.search(""); }
  else if (page.graph.zoom && page.state.tab === "flame") page.graph.zoomTo(0);
  else if (page.state.chosen !== null) { page.choose(null); if (page.state.tab === "sandwich") page.showSandwich(); }
  else if (page.state.range) page.change({ range: null });
  else if (page.state.against) page.change({ against: null });
  else if (page.state.shown) page.change({ shown: null });
}

function showPanel(page) {
  $("details").hidden = page.state.panel === "closed";
  $("panel").setAttribute("aria-pressed", String(!$("details").hidden));
}

const theme = page => useTheme(page.state.theme);

/* All of the state is in the address, so that a link shows the same screen. */
export function keepAddress(page, isStep = false) {
  const { state, profile } = page, seconds = range => range && range.map(tick => tick * profile.tick / 1e9);
  putAddress(fragmentOf({ ...state, ...Object.fromEntries(RANGES.map(key => [key, seconds(state[key])])) }), isStep);
}

export function readAddress(page) {
  const { profile, toolbar } = page, [, end] = page.all, ticks = range => range && range.map(at => Math.min(end, at * 1e9 / profile.tick));
  const named = stateOf(location.hash), given = toolbar.checked(named.tab === null ? { ...named, ...beginning(profile) } : named);
  if ($(`tab-${given.tab}`).hidden) given.tab = "flame";
  page.state = { ...given, ...Object.fromEntries(RANGES.map(key => [key, ticks(given[key])])) };
  theme(page);
  showPanel(page);
  $("search").value = page.state.find;
  $("lanes").value = page.lanes();
  page.find(page.state.find);
  page.tree.restore(page.state.open);
  if (!page.code.isEmpty) page.code.restore(page.state);
  page.isLate = page.isEarly;
  if (!profile.events.length || page.isLate) return;
  const { code } = page.state;
  page.refresh({ lanes: false, keep: false });
  if (page.state.chosen !== null) page.choose(page.state.chosen, code === null);
}

/* Show waits beside CPU time, or CPU time alone. */
function addWaits(page) {
  const { profile, event } = page;
  const both = onAndOff(profile);
  if (both) page.change({ event: event === JOINED ? String(both[0]) : JOINED });
}

/* Show the row of a function that the headline names, in the event that the sentence is of. */
export function showNamed(page, name, column) {
  const before = page.event, event = eventWith(page.profile, column === "waits", before), { options } = page.toolbar.event;
  page.change({ ...NO_FILTERS, tab: "functions", event });
  page.table.find(name, column, f => page.choose(f));
  const titled = one => [...options].find(option => option.value === String(one)).text;
  if (String(before) !== event) $("about").textContent = `Shows ${titled(event)}, which the sentence is of, and no longer ${titled(before)}.`;
}

/* Keep the selected range as A, to compare it with the next one; or stop to compare. */
function compare(page) {
  const { range, against } = page.state;
  if (against) page.change({ against: null });
  else if (range && page.profile.recordings === 1) page.change({ against: range, range: null });
}

export function sayRange(page) {
  const seconds = tick => +(tick * page.profile.tick / 1e9).toFixed(6), [from, to] = page.state.range || [0, page.profile.last + 1];
  if (document.activeElement !== $("from")) $("from").value = seconds(from);
  if (document.activeElement !== $("to")) $("to").value = seconds(to);
  $("zoom").disabled = !page.state.range && !page.state.shown;
  $("zoom").textContent = page.state.range ? "Zoom in" : page.state.shown ? "Zoom out" : "Zoom in";
  $("whole").disabled = $("zoom").disabled;
  $("against").hidden = page.profile.recordings > 1 || !page.state.range && !page.state.against;
  $("against").textContent = page.state.against ? "Stop comparing" : "Compare";
}

function typedRange(page) {
  const [from, to] = [$("from"), $("to")].map(input => input.value === "" ? NaN : Number(input.value) * 1e9 / page.profile.tick);
  if (from >= 0 && to > from) page.select([from, to], false);
}

function zoomTime(page) {
  if (page.state.range) page.change({ shown: page.state.range, range: null });
  else if (page.state.shown) page.change({ shown: null });
}
