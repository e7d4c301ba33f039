/* The toolbar: event, search, forms of the stacks, and filters, which are chips that can be removed. */

import { CATEGORIES } from "../model/categories.js";
import { JOINED, commandsOf, namePattern, onAndOff, opensWith } from "../model/selection.js";
import { taskName } from "../model/task_tree.js";
import { duration } from "../model/words.js";
import { button, el } from "./elements.js";

const ALL = "";
/* terms of an event that say how it is recorded, not what it counts */
const TERMS = /\/(?:(?:freq|period|call-graph|stack-size|max-stack)=[^,/]*(?:,(?!\/)|(?=\/)))+\/$/;

/* The modules of functions that samples may end in, by name. */
export function modulesOf(profile) {
  return [...new Set(profile.names.map(name => name[1]))].filter(Boolean).sort();
}

function options(select, pairs, all) {
  select.replaceChildren(...(all === undefined ? [] : [new Option(all, ALL)]), ...pairs.map(([value, text]) => new Option(text, value)));
}

export class Toolbar {
  /* parts: {event, process, thread, cpu, module, category, search, chips}; told: {changed(part of the state), searched(), short(f)} */
  constructor(parts, profile, told) {
    Object.assign(this, parts, { profile, told });
    const plain = profile.events.map(event => event.event.replace(TERMS, "")), isOne = name => plain.indexOf(name) === plain.lastIndexOf(name);
    const named = profile.events.map((event, i) => isOne(plain[i]) ? plain[i] : event.event), both = onAndOff(profile);
    const same = i => named.slice(0, i + 1).filter(name => name === named[i]).length; /* which one it is of those with its name */
    const events = named.map((name, i) => [i, named.indexOf(name) === named.lastIndexOf(name) ? name : `${name} #${same(i)}`]);
    options(this.event, both ? [[JOINED, "on and off the CPU"], ...events] : events);
    this.event.parentElement.hidden = this.event.options.length < 2;
    this.commands = commandsOf(profile.threads);
    this.commandOf = new Map(this.commands);
    options(this.process, [], "all");
    options(this.cpu, profile.cpus.map((cpu, i) => [i, this.cpuName(cpu)]), "all");
    options(this.module, modulesOf(profile).map(module => [module, module]), "all");
    options(this.category, CATEGORIES.map((name, i) => [i, name]), "all");
    options(this.thread, [], "all");
    const number = select => select.value === ALL ? null : Number(select.value);
    this.event.onchange = () => told.changed({ event: this.event.value });
    this.process.onchange = () => told.changed({ process: number(this.process), thread: null, group: null });
    for (const key of ["thread", "cpu", "category"]) this[key].onchange = () => told.changed({ [key]: number(this[key]) });
    this.module.onchange = () => told.changed({ module: this.module.value || null });
    this.search.oninput = () => told.searched();
  }

  /* Fill the lists that may be long. */
  fill(state) {
    options(this.process, this.commands.map(([pid, command]) => [pid, `${command || "?"} ${pid}`]), "all");
    this.isFilled = true;
    this.showTasks(state);
  }

  showTasks(state) {
    if (!this.isFilled) return;
    this.threads(state.process);
    for (const key of ["process", "thread"]) this[key].value = state[key] === null ? ALL : String(state[key]);
  }

  cpuName(cpu) { return cpu < 0 ? "not known" : String(cpu); }

  command(pid) { return this.commandOf.get(pid) || ""; }

  /* The threads to choose from: those of the process. */
  threads(process) {
    if (this.listed === process) return;
    this.listed = process;
    const of = this.profile.threads.map((thread, i) => [i, thread]).filter(([, thread]) => process === null || thread[0] === process);
    options(this.thread, of.map(([i, thread]) => [i, taskName(thread)]), "all");
  }

  /* Event of a state: a number or JOINED. If the state has none of these, what the page opens with, or beside chains of waits, which come from
     tracepoints, the first that measures CPU time. */
  eventOf(state) {
    const offered = [...this.event.options].map(option => option.value), { events, waits } = this.profile;
    const ofTime = waits ? events.findIndex(event => event.seconds && !event.off) : -1;
    const value = offered.includes(state.event) ? state.event : ofTime >= 0 ? String(ofTime) : opensWith(this.profile) ?? "0";
    return value === JOINED ? JOINED : Number(value);
  }

  /* Only what exists: a permalink may be of another recording. */
  checked(state) {
    const { threads, cpus, names } = this.profile, within = (value, n) => Number.isInteger(value) && value >= 0 && value < n ? value : null;
    const process = threads.some(thread => thread[0] === state.process) ? state.process : null;
    const group = threads.some(thread => namePattern(thread[2] || "?") === state.group) ? state.group : null;
    const commands = this.commands.some(([, command]) => namePattern(command || "?") === state.commands) ? state.commands : null;
    return { ...state, process, group, commands, thread: within(state.thread, threads.length), cpu: within(state.cpu, cpus.length), inside: within(state.inside, names.length),
      chosen: within(state.chosen, names.length), category: within(state.category, CATEGORIES.length), module: names.some(name => name[1] === state.module) ? state.module : null };
  }

  show(state, tick) {
    this.showTasks(state);
    this.event.value = String(this.eventOf(state));
    for (const key of ["cpu", "module", "category"]) this[key].value = state[key] === null ? ALL : String(state[key]);
    if (document.activeElement !== this.search) this.search.value = state.find;
    this.chips.replaceChildren(...this.chipsOf(state, tick).map(([text, cleared]) => {
      const chip = button("", () => this.told.changed(cleared), { className: "chip", "aria-label": `remove filter: ${text}` });
      chip.append(text, el("span", { textContent: "\u00d7", "aria-hidden": true }));
      return chip;
    }));
  }

  chipsOf(state, tick) {
    const { threads, cpus } = this.profile, chips = [];
    if (state.commands !== null) chips.push([`processes ${state.commands}`, { commands: null }]);
    if (state.group !== null) chips.push([`threads ${state.group}`, { group: null }]);
    if (state.process !== null) chips.push([`${this.command(state.process) || "?"} ${state.process}`, { process: null, thread: null, group: null }]);
    if (state.thread !== null) chips.push([`thread ${taskName(threads[state.thread])}`, { thread: null }]);
    if (state.cpu !== null) chips.push([`CPU ${this.cpuName(cpus[state.cpu])}`, { cpu: null }]);
    if (state.category !== null) chips.push([CATEGORIES[state.category], { category: null }]);
    if (state.module !== null) chips.push([`in ${state.module}`, { module: null }]);
    if (state.inside !== null) chips.push([`stacks with ${this.told.short(state.inside)}`, { inside: null }]);
    const span = range => range.map(at => duration(at * tick)).join(" to ");
    if (state.against) chips.push([`A: ${span(state.against)}`, { against: null }]);
    if (state.shown) chips.push([`zoomed to ${span(state.shown)}`, { shown: null }]);
    if (state.range) chips.push([`${state.against ? "B: " : ""}${span(state.range)}`, { range: null }]);
    return chips;
  }

  /* The names that a pattern finds, by name: null for no search. */
  hits(pattern) {
    return pattern && this.profile.names.map(([name, module]) => pattern.test(name) || pattern.test(module));
  }
}
