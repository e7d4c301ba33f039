/* The choices above the page: what there is to choose from, and what is chosen. */

import { JOINED, onAndOff } from "./selection.js";
import { literally } from "./words.js";

const ALL = "";

/* Processes, those with most threads' names: [pid, command]. */
export function processesOf(threads) {
  const found = new Map();
  for (const [pid, tid, command] of threads) if (!found.has(pid) || pid === tid) found.set(pid, command);
  return [...found].sort((a, b) => a[0] - b[0]);
}

/* The modules of functions that samples may end in, by name. */
export function modulesOf(profile) {
  return [...new Set(profile.names.map(name => name[1]))].filter(Boolean).sort();
}

function options(select, pairs, all) {
  select.replaceChildren(...(all === undefined ? [] : [new Option(all, ALL)]), ...pairs.map(([value, text]) => new Option(text, value)));
}

export const taskName = ([pid, tid, command]) => `${command || "?"} ${pid === tid ? pid : `${pid}/${tid}`}`;

export class Filters {
  constructor(parts, profile) {
    Object.assign(this, parts, { profile });
    const events = profile.events.map((event, i) => [i, event.event]), both = onAndOff(profile);
    options(this.event, both ? [[JOINED, "on and off the CPU"], ...events] : events);
    options(this.process, processesOf(profile.threads).map(([pid, command]) => [pid, `${command || "?"} ${pid}`]), "all");
    options(this.cpu, profile.cpus.map((cpu, i) => [i, cpu < 0 ? "not known" : String(cpu)]), "all");
    options(this.module, modulesOf(profile).map(module => [module, module]), "all");
    this.threads();
  }

  /* The threads to choose from: those of the process. */
  threads() {
    const process = this.number(this.process), chosen = this.thread.value;
    const of = this.profile.threads.map((thread, i) => [i, thread]).filter(([, thread]) => process === null || thread[0] === process);
    options(this.thread, of.map(([i, thread]) => [i, taskName(thread)]), "all");
    if (of.some(([i]) => String(i) === chosen)) this.thread.value = chosen;
  }

  number(select) { return select.value === ALL ? null : Number(select.value); }

  choice(range) {
    return {
      event: this.event.value === JOINED ? JOINED : Number(this.event.value),
      process: this.number(this.process),
      thread: this.number(this.thread),
      cpu: this.number(this.cpu),
      module: this.module.value === ALL ? null : this.module.value,
      range,
    };
  }

  clear() {
    for (const select of [this.process, this.thread, this.cpu, this.module]) select.value = ALL;
    this.threads();
    this.search.value = "";
  }

  /* Which names are searched for, by name: null for no search. Raises SyntaxError. */
  hits() {
    const text = this.search.value;
    if (!text) return null;
    const pattern = new RegExp(text, "i");
    return this.profile.names.map(([name, module]) => pattern.test(name) || pattern.test(module));
  }

  searchFor(name) { this.search.value = `^${literally(name)}$`; }
}
