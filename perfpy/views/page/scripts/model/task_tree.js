/* Threads by process, and tasks with like names by the pattern of their names: every row has the sums of all that it stands for. */

import { busyOf, byTime } from "./activity.js";
import { namePattern } from "./selection.js";
import { counted } from "./words.js";

/* Of fewer siblings each is a row of its own; fewer with one pattern are no group. */
const ALIKE = 8, LEAST = 3;

function summed(kind, value, name, recording, below) {
  const total = of => below.reduce((sum, one) => sum + one[of], 0);
  return { kind, value, name, recording, weight: total("weight"), ran: total("ran"), lanes: below.flatMap(one => one.lanes), below };
}

/* Siblings, of which many with one pattern become a group. */
function grouped(siblings, kind) {
  if (siblings.length < ALIKE) return siblings;
  const found = new Map();
  for (const one of siblings) {
    const key = `${one.recording} ${namePattern(one.name)}`;
    if (found.has(key)) found.get(key).push(one); else found.set(key, [one]);
  }
  if (found.size === 1 && kind === "group") return siblings; /* it would be their process */
  return [...found.values()].flatMap(alike => alike.length < LEAST ? alike : [summed(kind, namePattern(alike[0].name), namePattern(alike[0].name), alike[0].recording, alike)]);
}

const sorted = rows => rows.sort((a, b) => a.recording - b.recording || byTime(a, b));

/* Rows of tasks, each with `below`: [{kind: "commands" (processes alike), "process", "group" (threads alike) or "thread", value, name, recording, weight,
   ran, lanes, below, pid, path: unique}]. lanes: of threads (lanesOf); commandOf(pid) -> the name of a process. */
export function taskTree(lanes, threads, commandOf) {
  const processes = new Map();
  for (const lane of lanes) {
    const [pid, , name] = threads[lane.lane], key = 2 * pid + lane.recording;
    const thread = { kind: "thread", value: lane.lane, name: name || "?", pid, recording: lane.recording, weight: lane.weight, ran: lane.ran, lanes: [lane], below: [] };
    if (processes.has(key)) processes.get(key).push(thread); else processes.set(key, [thread]);
  }
  const rows = [...processes.values()].map(below => {
    const { pid, recording } = below[0];
    if (below.length === 1) return below[0];
    const groups = sorted(grouped(below, "group"));
    for (const one of groups) one.pid = pid;
    return { ...summed("process", pid, commandOf(pid) || "?", recording, groups), pid };
  });
  const place = (row, path) => { row.path = `${path}/${row.recording}${row.kind} ${row.value}`; sorted(row.below).forEach(one => place(one, row.path)); return row; };
  return sorted(grouped(rows, "commands")).map(row => place(row, ""));
}

/* The rows to show: [{row, level, isOpen}], how many threads are folded, and the patterns of the names of these, those with most first.
   Where each row has little time, the first ones are shown.
   isOpen(row): whether its rows below are shown; isFound(row): whether its own name is searched; showsIdle: rows with little time, too. */
export function shownRows(tree, { isOpen, isFound, showsIdle, least, few, most }) {
  const shown = [], counts = new Map();
  let folded = 0;
  const walk = (rows, level) => {
    const over = busyOf(rows, least), busy = new Set(over.length ? over : rows), found = rows.filter(row => holds(row, isFound)), room = showsIdle ? most : few;
    let place = 0;
    const isFirst = new Set(found);
    for (const row of [...found, ...rows.filter(one => !isFirst.has(one))]) {
      if (place >= most || !isFirst.has(row) && (place >= room || !showsIdle && !busy.has(row))) {
        folded += row.lanes.length;
        counts.set(namePattern(row.name), (counts.get(namePattern(row.name)) || 0) + row.lanes.length);
        continue;
      }
      const opens = row.below.length > 0 && (isOpen(row) || row.below.some(one => holds(one, isFound)));
      shown.push({ row, level, isOpen: opens });
      place++;
      if (opens) walk(row.below, level + 1);
    }
  };
  walk(tree, 0);
  return { shown, folded, patterns: [...counts].sort((a, b) => b[1] - a[1]).map(([pattern]) => pattern) };
}

const holds = (row, isFound) => isFound(row) || row.below.some(one => holds(one, isFound));

export const NO_TASKS = { commands: null, process: null, group: null, thread: null, cpu: null };

/* The filters that leave the samples of a row. */
export const tasksOf = ({ kind, value, pid }) => kind === "group" ? { process: pid, group: value } : { [kind]: value };

export const taskName = ([pid, tid, command]) => `${command || "?"} ${pid === tid ? pid : `${pid}/${tid}`}`;

/* A command that has another name after a change (old \u2192 new), as it was in a recording. */
const ofSide = (name, recording, recordings) => recordings > 1 && name.split(" \u2192 ")[recording] || name;

/* level: below its process, whose number it need not repeat */
export function rowName({ kind, value, name: ofBoth, recording, lanes, below }, level, { cpus, threads, recordings }) {
  const number = counted(lanes.length, "thread"), name = ofSide(ofBoth, recording, recordings);
  if (kind === "cpu") return cpus[value] < 0 ? "CPU not known" : `CPU ${cpus[value]}`;
  if (kind === "process") return `${name} ${value} (${number})`;
  if (kind === "group") return `${name} (${number})`;
  if (kind === "commands") return `${name} (${counted(below.length, "process")}${lanes.length > below.length ? `, ${number}` : ""})`;
  const [pid, tid] = threads[value], isBelow = level && threads.some(one => one[0] === pid && one[1] !== tid);
  return isBelow ? `${tid} ${name}` : taskName([pid, tid, name]);
}
